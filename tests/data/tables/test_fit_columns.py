"""The plan is fitted as a reader of the table would: what looks alike is told apart, what is unclear is refused."""

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.data.tables.column_plan import ColumnPlan
from fedloom.data.tables.fit_columns import fit_columns
from fedloom.data.tables.tables import Table


def texts(*cells: str) -> np.ndarray:
    return np.array(cells, dtype=object)


def fit(**columns: np.ndarray) -> ColumnPlan:
    table = Table(columns, "t.csv")
    return fit_columns(table, list(columns), np.arange(len(table)))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([f"{n}%" for n in range(30)], r"row 1: '0%' is a number with a unit or with marks between thousands"),
        ([f"€{n}" for n in range(30)], r"row 1: '€0' is a number with a unit"),
        ([f"{n + 1}.000,50" for n in range(30)], r"row 1: '1\.000,50' is a number with a unit or with marks"),
        ([f"2026-01-{n + 1:02d}" for n in range(30)] + ["soon"], r"row 31: 'soon' is not a date, but most cells are"),
        ([f"{n},5" for n in range(30)] + ["high"], r"row 31: 'high' is not a number, but most cells are"),
    ],
)
def test_what_would_be_read_wrongly_is_refused_with_its_row(cells, said):
    with pytest.raises(FedloomError, match=rf"t\.csv: column 'dose', {said}"):
        fit(dose=texts(*cells))


def test_dates_that_are_written_in_several_ways_are_left_out():
    plan = fit(age=np.array([1.5, 2.5, 3.5]), day=texts("2026-01-31", "31.01.2026", "1.2.2026"))
    assert plan.lines[1].startswith("day: left out, its dates are written in several ways: write them as 2026-01-31")


def test_a_level_of_several_lines_is_said_in_one():
    (line,) = fit(note=texts("first\nsecond", "x" * 50, "first\nsecond")).lines
    assert "\n" not in line
    assert "first second" in line
    assert len(line) < 160


def test_levels_that_are_texts_stay_texts_and_numbers_are_numbers_however_they_are_written():
    plan = fit(code=texts("01", "02", "x", "01"), ward_id=np.array([1.0, 2.0, 1.0, 2.0]))
    assert plan.texts == ["code"]
    new = Table({"code": texts("01", "1"), "ward_id": texts("01", "2.0")}, "new.csv")
    assert plan.encode(new).tolist() == [[1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 1, 0, 1, 0]]
