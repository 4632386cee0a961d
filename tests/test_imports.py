"""Imports point one way: one table says which folder may import which, and every import of the tree is held against it.

Imports inside functions and for type checking count too: a cycle that only shows when a function runs is still one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fedloom

ROOT = Path(fedloom.__file__).parent

GROUND = {"core", "registry", "files"}
PARTS = {
    "aggregation",
    "methods",
    "selection",
    "channel",
    "secure",
    "privacy",
    "attacks",
    "prediction",
    "metrics",
    "losses",
    "baselines",
}
DATA = {"plotting", "data", "models", "tasks"}
RUNS = GROUND | PARTS | DATA | {"training", "rounds", "engines", "config", "runs"}

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "files": {"core"},
    "registry": {"core", "files"},
    "plotting": {"core"},
    "web": {"core"},
    "aggregation": GROUND,
    "selection": GROUND,
    "prediction": GROUND,
    "attacks": GROUND,
    "losses": GROUND,
    "metrics": GROUND,
    "baselines": GROUND,
    "models": GROUND,
    "channel": GROUND,
    "secure": GROUND | {"channel"},
    "privacy": GROUND | {"aggregation", "channel", "secure"},
    "training": GROUND | {"privacy"},
    "methods": GROUND | {"aggregation"},
    "rounds": GROUND | {"training", "channel", "secure", "privacy", "baselines"},
    "engines": GROUND | {"training", "secure", "rounds"},
    "data": GROUND | {"plotting"},
    "tasks": GROUND | {"plotting", "data", "models", "losses", "metrics", "baselines", "selection", "training", "web"},
    "config": RUNS - {"config", "runs"},
    "runs": RUNS - {"runs"},
    "reports": RUNS | {"web"},
    "api": RUNS | {"reports"},
    "conformance": RUNS,
    "audits": RUNS | {"reports"},
    "reproduce": RUNS | {"reports", "audits"},
    "deploy": RUNS | {"web"},
    "watch": RUNS | {"reports", "deploy", "web"},
    "cli": RUNS | {"reports", "api", "audits", "conformance", "reproduce", "deploy", "watch", "web"},
}
"""What each folder of ``fedloom`` may import besides itself and the package's version."""


def imported_modules(source: str, module: str) -> Iterator[tuple[int, str]]:
    """The line and the full name of every ``fedloom`` module that a source imports, wherever the import stands."""
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names if name.name.split(".")[0] == "fedloom")
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            start = (base + (node.module or "")).rstrip(".")
            if start == "fedloom":
                yield from ((node.lineno, f"fedloom.{name.name}") for name in node.names)
            elif start.startswith("fedloom."):
                yield node.lineno, start


def folder_of(module: str) -> str:
    """The folder below ``fedloom`` that a module is in; empty for the package itself."""
    below = module.split(".")[1:]
    return below[0] if below else ""


def violations(sources: dict[str, str], table: dict[str, set[str]]) -> list[tuple[str, int, str]]:
    """``(module, line, imported module)`` for every import that the table does not allow."""
    found = []
    for module, source in sources.items():
        here = folder_of(module)
        if here not in table:
            found.append((module, 0, f"{here} has no entry in the table"))
            continue
        for line, imported in imported_modules(source, module):
            there = folder_of(imported)
            if there and there != "__version__" and there != here and there not in table[here]:
                found.append((module, line, imported))
    return found


def sources() -> dict[str, str]:
    """Every module of the package but its ``__init__``, by its full name."""
    modules = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["fedloom", *path.relative_to(ROOT).with_suffix("").parts]
        if len(parts) > 2:
            modules[".".join(parts)] = path.read_text()
    return modules


def test_imports_point_one_way() -> None:
    wrong = violations(sources(), MAY_IMPORT)
    assert not wrong, "\n".join(f"{module}, line {line}: imports {imported}" for module, line, imported in wrong)


def test_every_folder_has_an_entry_and_every_entry_a_folder() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders == set(MAY_IMPORT)


def test_the_table_itself_has_no_cycle() -> None:
    allowed = {folder: set(others) for folder, others in MAY_IMPORT.items()}
    while allowed:
        free = {folder for folder, others in allowed.items() if not others & set(allowed)}
        assert free, f"these folders may import each other: {sorted(allowed)}"
        allowed = {folder: others for folder, others in allowed.items() if folder not in free}


def test_a_planted_violation_is_found_wherever_it_stands() -> None:
    table = {"low": set[str](), "high": {"low"}}
    planted = {
        "fedloom.low.top": "import fedloom.high.a\n",
        "fedloom.low.from_": "from fedloom.high import a\n",
        "fedloom.low.package": "from fedloom import high\n",
        "fedloom.low.relative": "from ..high import a\n",
        "fedloom.low.inside": "def f():\n    from fedloom.high.a import b\n",
        "fedloom.low.typing": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fedloom.high.a import B\n",
        "fedloom.new.a": "x = 1\n",
    }
    fine = {
        "fedloom.high.a": "from fedloom.low.top import b\nfrom fedloom import __version__\nimport fedloom\n",
        "fedloom.low.b": "from fedloom.low import c\nfrom . import d\nimport torch\n",
    }
    assert [module for module, _, _ in violations(planted | fine, table)] == list(planted)
