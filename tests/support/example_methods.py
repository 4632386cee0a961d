"""The methods of examples/methods/, loaded as a user's file is."""

from __future__ import annotations

import ast
from typing import Any

from fedloom.conformance.suite import conform
from fedloom.core.algorithm import Algorithm
from fedloom.registry.kinds import METHODS
from support.paths import REPOSITORY

FOLDER = REPOSITORY / "examples" / "methods"
MOST_LINES = 20


def example(file: str, name: str, **settings: Any) -> Algorithm:
    """A method of a file in examples/methods/."""
    return METHODS.make({"name": f"{FOLDER / file}.py:{name}", **settings})


def failed_claims(method: Algorithm, like: str | None = None) -> list[tuple[str, float, str]]:
    """What ``fedloom conform`` finds wrong with a method."""
    found = list(conform(method, "mine", like))
    assert len(found) >= 3
    return [(one.says, one.error, one.raised) for one in found if not one.holds]


def code_lines(file: str) -> int:
    """The lines of a file that are code: no docstrings, imports, comments or empty lines."""
    text = (FOLDER / f"{file}.py").read_text()
    tree = ast.parse(text)
    left_out = set()
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        for part in [node.body[0]] if documented else [node] if isinstance(node, ast.Import | ast.ImportFrom) else []:
            left_out |= set(range(part.lineno, part.end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") for number, line in lines if number not in left_out
    )
