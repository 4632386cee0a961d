"""The notebooks of examples/ run from the first cell to the last, and show what they speak of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.paths import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "examples" / "notebooks").glob("*.ipynb"))
SHOWN = {
    "first_run.ipynb": {"text/html": 7, "image/png": 3},
    "own_data.ipynb": {"text/html": 6, "image/png": 1},
    "own_method.ipynb": {"text/html": 4, "image/png": 1},
}
"""How many tables (bars are some, too) and pictures the cells of a notebook show."""
SAYS = {
    "first_run.ipynb": "| fedavg |",
    "own_data.ipynb": "Stopped: the error of 1.0",
    "own_method.ipynb": "True",
}


def outputs(book: dict[str, Any]) -> list[dict[str, Any]]:
    return [output for cell in book["cells"] for output in cell.get("outputs", ())]


def text_of(output: dict[str, Any]) -> str:
    found = [output.get("text", ""), *output.get("data", {}).values()]
    return "".join(one if isinstance(one, str) else "".join(one) for one in found if isinstance(one, str | list))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_shows_its_tables_and_figures(path: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (the extra 'dev')")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (the extra 'dev')")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra 'dev')")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [kind for output in outputs(book) for kind in output.get("data", {})]
    assert {kind: kinds.count(kind) for kind in SHOWN[path.name]} == SHOWN[path.name]
    assert any(SAYS[path.name] in text_of(output) for output in outputs(book))
    assert not [output for output in outputs(book) if output.get("name") == "stderr"]


def test_every_notebook_is_known_and_kept_without_outputs() -> None:
    assert [path.name for path in NOTEBOOKS] == sorted(SHOWN) == sorted(SAYS)
    for path in NOTEBOOKS:
        book = json.loads(path.read_text())
        assert outputs(book) == []
        assert not [cell for cell in book["cells"] if cell.get("execution_count")]
        assert re.match(r"# \w", "".join(book["cells"][0]["source"]))
