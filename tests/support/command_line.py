"""What commands print: a refusal's sentence, and the output of a command inside the test's own process."""

from __future__ import annotations

import json
from subprocess import CompletedProcess
from typing import Any

import typer
from typer.testing import CliRunner


def refusal(result: CompletedProcess[str]) -> str:
    """The sentence of a refusal: exit code 2, one line, no traceback."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert result.stdout == ""
    return lines[0]


def output(app: typer.Typer, *words: object, code: int = 0) -> str:
    """What a command prints; errors come through."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def json_output(app: typer.Typer, *words: object) -> dict[str, Any]:
    """What a command prints with ``--json``."""
    found: dict[str, Any] = json.loads(output(app, *words, "--json"))
    return found
