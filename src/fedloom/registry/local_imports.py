"""The files that a user's file imports from beside it: its package, and modules in the folder that the package is in.

They are found by reading the import statements, so that nothing is run to learn what a run's code consists of: a
resumed run has the same files, and a participant's folder has all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

INIT = "__init__.py"


def import_root(file: Path) -> Path:
    """The folder that imports of a file start from: the one that holds its outermost package, or the file itself.

    Args:
        file: A Python file, with an absolute path.
    """
    folder = file.parent
    while (folder / INIT).is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def module_of(file: Path) -> str:
    """The name under which a file is imported from its root: ``mypkg.nets`` of ``mypkg/nets.py``.

    Args:
        file: A Python file, with an absolute path.
    """
    parts = file.relative_to(import_root(file)).with_suffix("").parts
    return ".".join(parts[:-1] if file.name == INIT else parts)


def local_sources(file: Path) -> list[Path]:
    """The file, and what it imports from its own root, directly or not, sorted.

    Args:
        file: A Python file, with an absolute path. Of one that cannot be read or parsed only itself is known.
    """
    root = import_root(file)
    found, waiting = {file}, [file]
    while waiting:
        for source in _imports(waiting.pop(), root):
            if source not in found:
                found.add(source)
                waiting.append(source)
    return sorted(found)


def _imports(file: Path, root: Path) -> Iterator[Path]:
    """The files below a root that one file imports, with the ``__init__.py`` of every package on the way."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    package = file.parent.relative_to(root).parts
    yield from _on_the_way(root, package)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _on_the_way(root, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = (*above, *(node.module.split(".") if node.module else ()))
            yield from _on_the_way(root, module)
            for alias in node.names:  # what is imported may be a module itself
                yield from _on_the_way(root, (*module, alias.name))


def _on_the_way(root: Path, names: tuple[str, ...] | list[str]) -> Iterator[Path]:
    """The files that importing a dotted name runs, as far as they lie below a root."""
    place = root
    for name in names:
        place = place / name
        for file in (place / INIT, place.with_name(f"{name}.py")):
            if file.is_file():
                yield file
