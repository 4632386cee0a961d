"""The names that users see: those of ``fedloom``, and those that the pages and examples import from its packages."""

from __future__ import annotations

import ast
import importlib
import re

import fedloom
from support.paths import DOCS, REPOSITORY


def public_names() -> list[str]:
    """Dotted names, such as ``fedloom.run`` and ``fedloom.data.federate``, in order."""
    names = {f"fedloom.{name}" for name in fedloom.__all__}
    return sorted(names | {name for name in _names_in_pages() if f"fedloom.{name.rpartition('.')[2]}" not in names})


def public_object(dotted: str) -> object:
    """What a dotted name stands for: a module, or something in one."""
    package, _, name = dotted.rpartition(".")
    module = importlib.import_module(package)
    return getattr(module, name) if hasattr(module, name) else importlib.import_module(dotted)


def _names_in_pages() -> set[str]:
    pages = [REPOSITORY / "README.md", *sorted(DOCS.glob("*.md"))]
    scripts = [path.read_text() for path in sorted((REPOSITORY / "examples").glob("*.py"))]
    for page in pages:
        scripts += re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return {name for script in scripts for name in _names_in(ast.parse(script))}


def _names_in(script: ast.Module) -> set[str]:
    """The names that a script imports from packages of fedloom, or uses as attributes of an imported package."""
    names, packages = set[str](), dict[str, str]()
    for node in ast.walk(script):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("fedloom."):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            packages |= {alias.asname: alias.name for alias in node.names if alias.asname and "fedloom." in alias.name}
    for node in ast.walk(script):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            names.add(f"{packages[node.value.id]}.{node.attr}")
    return names
