"""What a shell completes: names of parts, and of stages behind a method."""

import os
import subprocess
import sys

import pytest

from fedloom.cli.completion import complete_method


def completions(words: str) -> list[str]:
    """What bash is offered for the last of some words."""
    variables = {"_FEDLOOM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    code = "from fedloom.cli.app import app; app(prog_name='fedloom')"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fedloom comp", ["compare"]),
        ("fedloom compare fedavg+fedp", ["fedavg+fedpredict"]),
        ("fedloom run --method scaf", ["scaffold"]),
        ("fedloom sweep --task shakes", ["shakespeare"]),
        ("fedloom run --model resnet1", ["resnet14"]),
    ],
)
def test_a_shell_is_offered_the_names_that_begin_so(words: str, offered: list[str]) -> None:
    assert completions(words) == offered


def test_only_stages_stand_behind_a_method() -> None:
    assert "fedavg" in list(complete_method("feda"))
    assert list(complete_method("fedavg+feda")) == []
    assert list(complete_method("fedavg+finetune+fedp")) == ["fedavg+finetune+fedpredict"]
