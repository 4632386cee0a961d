"""The numbers of documents: every file is whole, cells are printed as there, and errors are named."""

from __future__ import annotations

from importlib.resources import files
from math import nan

import pytest
from pydantic import ValidationError

from fedloom.reproduce.published_tables import PublishedTable, published

NAMES = sorted(file.name.removesuffix(".toml") for file in (files("fedloom.reproduce") / "published").iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_every_file_names_its_document_and_where_each_table_stands(name):
    found = published(name)
    assert "thesis" in found.document
    for table in found.tables.values():
        assert "table" in table.where or "chapter" in table.where


def test_cells_are_printed_with_the_documents_digits():
    table = PublishedTable(
        where="table 1", unit="%", columns=("clients", "global"), digits=2,
        rows={"A": (1.0, 19.5), "B": (29.63, nan), "C": (nan, nan)}, notes={"B": "chapter 7"},
    )  # fmt: skip
    assert table.text("A") == "1.00 / 19.50"
    assert table.text("A", "global") == "19.50"
    assert table.text("B") == "29.63 / – (chapter 7)"
    assert table.text("C") == table.text("D") == "–"
    assert table.row("B") == {"clients": 29.63}
    assert table.model_copy(update={"digits": None}).text("A") == "1 / 19.5"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rows": {"A": [1.0]}}, "row 'A' has 1 numbers for 2 columns"),
        ({"unit": "share"}, "row 'A' has 19.5, which is not a share"),
        ({"rows": {"A": [-1.0, 2.0]}}, "row 'A' has -1, which is not a %"),
        ({"notes": {"Z": "?"}}, "a note about 'Z', which is not a row"),
        ({"where": ""}, "where"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(changed, said):
    whole = {"where": "table 1", "unit": "%", "columns": ["clients", "global"], "rows": {"A": [1.0, 19.5]}}
    with pytest.raises(ValidationError, match=said):
        PublishedTable.model_validate(whole | changed)
