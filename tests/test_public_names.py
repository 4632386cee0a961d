"""What ``import fedloom`` offers to programs and type checkers."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedloom
from fedloom.tasks import flows
from support.generated import TAKE_SETTINGS
from support.paths import REPOSITORY

SCRIPT = """\
import fedloom as fl


def accuracy(mu: float) -> float | None:
    task = fl.task("digits", clients=20, partition=fl.dirichlet(0.1))
    history = fl.run(task, fl.FedProx(mu=mu), rounds=10, local=fl.LocalWork(lr=0.05))
    return history.last("global_model/global_test/accuracy")


print(accuracy(0.1))
"""
WRONG = """\
import fedloom as fl

fl.FedProx(nu=1)
fl.run(fl.task("digits"), fl.FedAvg, rounds="ten")
fl.FedProxy()
fl.run(fl.task("digits"), selecton={})
"""


@pytest.mark.parametrize("name", fedloom.__all__)
def test_every_public_name_is_there(name):
    assert getattr(fedloom, name) is not None


def imports(statements: list[ast.stmt]) -> set[tuple[str | None, str]]:
    """The imported names among some statements, with their modules."""
    return {(node.module, name.name) for node in statements if isinstance(node, ast.ImportFrom) for name in node.names}


def test_lazy_names_of_flows_are_typed() -> None:
    module = ast.parse(Path(flows.__file__).read_text())
    (guarded,) = (node.body for node in module.body if isinstance(node, ast.If))
    assert imports(guarded) == {(module, name) for name, module in flows._HOME.items()}


def test_types_are_shipped() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    assert {"py.typed", "*.pyi"} <= set(project["tool"]["setuptools"]["package-data"]["fedloom"])
    assert Path(fedloom.__file__).with_name("py.typed").exists()


def test_the_linter_holds_settings_against_their_types() -> None:
    """``make lint`` checks calls that must be errors, with the flag that makes a missing error one."""
    mypy = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["strict"]
    assert "tests/support/typed_calls.py" in mypy["files"]
    calls = (REPOSITORY / "tests" / "support" / "typed_calls.py").read_text()
    for name in TAKE_SETTINGS:
        refused = [line for line in calls.splitlines() if f"fl.{name}(" in line and "type: ignore[call-arg]" in line]
        assert refused, f"no misspelt setting of fl.{name} is checked"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_mypy_accepts_a_correct_script_and_rejects_a_wrong_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "script.py", "wrong.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    errors = re.findall(r"^(\S+: error: .*?)  \[", checked.stdout, re.MULTILINE)
    assert errors == [
        'wrong.py:3: error: Unexpected keyword argument "nu" for "FedProx"',
        'wrong.py:4: error: Argument "rounds" to "run" has incompatible type "str"; expected "int"',
        'wrong.py:5: error: Module has no attribute "FedProxy"',
        'wrong.py:6: error: Unexpected keyword argument "selecton" for "run"; did you mean "selection"?',
    ], checked.stdout + checked.stderr


def test_no_folder_or_file_of_the_package_has_the_name_of_a_public_function():
    """Importing it would put the module in the function's place."""
    inside = {path.stem for path in Path(fedloom.__file__).parent.iterdir()}
    assert {name for name in fedloom.__all__ if name in inside} == set()
