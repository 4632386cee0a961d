"""One setting added in one place is an argument, an option, a key, a row of the reference and a message."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from support.paths import REPOSITORY

ADD_ONE_LINE = """
import importlib.util, sys
spec = importlib.util.find_spec("fedloom.tasks.settings")
source = open(spec.origin).read()
line = 'extra_share: Annotated[float, Ge(0), Lt(1), Setting("A share for this test.", "--extra-share", DATA)] = 0.25'
place = "    valid_share: Annotated["
assert source.count(place) == 1
module = importlib.util.module_from_spec(spec)
sys.modules["fedloom.tasks.settings"] = module
exec(compile(source.replace(place, "    " + line + "\\n" + place), spec.origin, "exec"), module.__dict__)
"""
LOOK = """
import inspect
import fedloom as fl
import typer
from fedloom.cli.app import app
from fedloom.config.resolve import resolve
from support.generated import settings_page, stub

assert inspect.signature(fl.task).parameters["extra_share"].default == 0.25
assert "extra_share: A share for this test." in fl.task.__doc__
assert "extra_share: float = ..." in stub()
row = "| `extra_share` | number | `0.25` | `--extra-share` | A share for this test. It must be at least 0 "
row += "and less than 1. |"
assert row in settings_page()
options = {flag: one for one in typer.main.get_command(app).commands["run"].params for flag in one.opts}
assert options["--extra-share"].help == "A share for this test (default: 0.25)."
assert resolve({"task": {"extra_share": 0.5}}).task.extra_share == 0.5
assert fl.task("digits", clients=3, extra_share=0.5).made_from["extra_share"] == 0.5
for wrong in (lambda: fl.task("digits", extra_share=1), lambda: resolve({"task": {"extra_share": 1}}, "run.toml")):
    try:
        wrong()
    except fl.FedloomError as error:
        print(error)
"""


def test_one_line_adds_a_setting_everywhere() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ADD_ONE_LINE + LOOK],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY / "tests",
    )
    assert done.stdout.splitlines() == [
        "extra_share=1: it must be at least 0 and less than 1.",
        "task.extra_share=1 in run.toml: it must be at least 0 and less than 1.",
    ], done.stderr


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"task": {"valid_share": 1.5}}, "task.valid_share=1.5 in run.toml: it must be at least 0 and less than 1."),
        ({"task": {"label_share": 0}}, "task.label_share=0 in run.toml: it must be above 0 and at most 1."),
        ({"workers": 0}, "workers=0 in run.toml: it must be at least 1."),
        ({"rounds": True}, "rounds=True in run.toml: it must be a whole number."),
        ({"rounds": 2.5}, "rounds=2.5 in run.toml: it must be a whole number."),
        ({"task": {"test_share": "half"}}, "task.test_share='half' in run.toml: it must be a number."),
        ({"task": {"augment": 3}}, "task.augment=3 in run.toml: it must be true or false."),
        ({"task": {"partition": 3}}, "task.partition=3 in run.toml: it must be a text, a table or a function."),
        ({"weight_by": "size"}, "weight_by='size' in run.toml: it must be 'samples', 'steps' or 'uniform'."),
        ({"task": {"stream": {"tasks": 5}}}, "task.stream.rounds is missing in run.toml: add it."),
        ({"task": {"drift": {"round": [3]}}}, "unknown key in run.toml: 'task.drift.round'. Did you mean"),
        ({"task": []}, "task=[] in run.toml: it must be a table."),
    ],
)
def test_a_wrong_value_gets_the_sentence_of_its_declaration(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(FedloomError) as raised:
        resolve(values, "run.toml")
    assert str(raised.value).startswith(sentence)


def test_an_argument_that_a_task_has_not_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(FedloomError, match=r"^unknown setting 'client'\. Did you mean 'clients'\?"):
        fl.task("digits", client=3)
