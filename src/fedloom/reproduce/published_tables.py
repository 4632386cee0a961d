"""The numbers that documents print, read from ``published/*.toml``: one file per study of a document.

They are data and not code, so that a reader can hold them against the document's pages: each table names where it
stands there, its unit and its columns. ``nan`` is a cell that the document leaves empty.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import isnan
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedloom.registry.validation import validate

EMPTY = "–"
LARGEST = {"share": 1.0, "%": 100.0, "number": float("inf")}


class PublishedTable(BaseModel):
    """A table of a document, with a list of numbers per row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: str = Field(min_length=1)
    """The number of the table, or the chapter, in the document."""
    unit: Literal["share", "%", "number"]
    columns: tuple[str, ...] = Field(min_length=1)
    rows: Mapping[str, tuple[float, ...]] = Field(min_length=1)
    digits: int | None = Field(default=None, ge=0)
    """Decimals that are printed; as many as a number needs if there are none."""
    notes: Mapping[str, str] = {}
    """What must be known about a row."""

    @model_validator(mode="after")
    def _check_cells(self) -> Self:
        for name, row in self.rows.items():
            if len(row) != len(self.columns):
                raise ValueError(f"row '{name}' has {len(row)} numbers for {len(self.columns)} columns")
            wrong = [number for number in row if not isnan(number) and not 0 <= number <= LARGEST[self.unit]]
            if wrong:
                raise ValueError(f"row '{name}' has {wrong[0]:g}, which is not a {self.unit}")
        unknown = set(self.notes).difference(self.rows)
        if unknown:
            raise ValueError(f"there is a note about '{min(unknown)}', which is not a row")
        return self

    def row(self, name: str) -> dict[str, float]:
        """The numbers of a row by column, without empty cells; empty if there is no such row."""
        cells = zip(self.columns, self.rows.get(name, ()), strict=False)
        return {column: number for column, number in cells if not isnan(number)}

    def text(self, name: str, *columns: str) -> str:
        """A row as the document prints it, cells separated by slashes; only some columns if any are named."""
        found = self.row(name)
        if not found:
            return EMPTY
        note = f" ({self.notes[name]})" if name in self.notes else ""
        return " / ".join(self._cell(found.get(column)) for column in columns or self.columns) + note

    def _cell(self, number: float | None) -> str:
        if number is None:
            return EMPTY
        return f"{number:g}" if self.digits is None else f"{number:.{self.digits}f}"


class PublishedDocument(BaseModel):
    """What a document prints, and its known errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    document: str = Field(min_length=1)
    tables: Mapping[str, PublishedTable] = Field(min_length=1)
    errors: tuple[str, ...] = ()


@cache
def published(name: str) -> PublishedDocument:
    """The numbers in ``published/NAME.toml``."""
    file = files("fedloom.reproduce") / "published" / f"{name}.toml"
    document: PublishedDocument = validate(PublishedDocument, tomllib.loads(file.read_text("utf-8")), file.name)
    return document
