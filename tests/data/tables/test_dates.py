"""Dates in cells: which way they are written, and what a model gets of them."""

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.tables.dates import date_features, date_form, parse_dates


@pytest.mark.parametrize(
    ("texts", "form"),
    [
        (["2026-01-31", "2025-12-01"], "year-month-day"),
        (["2026-01-31 08:30", "2026-01-31T23:59:59Z"], "year-month-day"),
        (["31.01.2026", "1.2.2026"], "day.month.year"),
        (["31/01/2026", "01/02/2026"], "day/month/year"),
        (["01/31/2026", "01/02/2026"], "month/day/year"),
        (["03/04/2026", "01/02/2026"], "unclear"),
        (["03/03/2026"], "day/month/year"),
        (["2026-02-30"], ""),
        (["12", "13"], ""),
        (["2026-01-31", "soon"], ""),
        (["2026-01-31", "31.01.2026"], "mixed"),
        ([], ""),
    ],
)
def test_the_form_follows_from_the_cells(texts, form):
    assert date_form(texts) == form


def test_features_are_days_month_weekday_and_hour():
    cells = np.array(["1970-01-01", "2026-11-16 06:30", ""], dtype=object)
    seconds = parse_dates(cells, "year-month-day", "day")
    assert np.isnan(seconds[2])
    assert date_features(seconds[:2]).tolist() == [[0, 1, 3, 0], [20773, 11, 0, 6.5]]  # a Thursday, a Monday


def test_days_before_1970_count_backwards():
    seconds = parse_dates(np.array(["1969-12-31 12:00"], dtype=object), "year-month-day", "day")
    assert date_features(seconds).tolist() == [[-1, 12, 2, 12]]


def test_a_cell_that_is_no_date_is_named():
    with pytest.raises(FedloomError, match=r"day, row 2: 'soon' is not a date \(year-month-day\)"):
        parse_dates(np.array(["2026-01-31", "soon"], dtype=object), "year-month-day", "day")


def test_the_user_may_say_how_the_dates_of_a_column_are_written(tmp_path):
    lines = [f"{1 + n % 12:02d}/{1 + n % 7:02d}/2025,{n % 2},s{n % 3}" for n in range(60)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["admitted,label,site", *lines]) + "\n")
    found = {}
    for form, month in (("%d/%m/%Y", lambda n: 1 + n % 7), ("%m/%d/%Y", lambda n: 1 + n % 12)):
        made = fl.read(path, client="site", dates={"admitted": form})
        found[form] = made
        assert made.columns["x"][:, 1].tolist() == [month(n) for n in range(60)]
        assert made.plan.columns[0].form == form
    task = fl.task_of(found["%d/%m/%Y"])
    again = fl.task(**{key: value for key, value in task.made_from.items() if key != "seed"})
    assert torch.equal(again.federation.columns["x"], task.federation.columns["x"])
    with pytest.raises(FedloomError, match=r"a.csv has no column to learn from: admitted: .* or say how with dates"):
        fl.read(path, client="site")


@pytest.mark.parametrize(
    ("dates", "sentence"),
    [
        ({"admitted": "%d.%m.%Y"}, r"column 'admitted', row 1: '01/01/2025' is not a date \(%d.%m.%Y\): correct it"),
        ({"admitted": "%d/%m"}, "form '%d/%m' of the column 'admitted' does not say year, month and day"),
        ({"admitted": "%Q"}, "form '%Q' of the column 'admitted' cannot be read"),
        ({"entered": "%d/%m/%Y"}, "dates: a.csv has no input column 'entered': it has admitted"),
    ],
)
def test_a_form_that_does_not_fit_is_refused(tmp_path, dates, sentence):
    (tmp_path / "a.csv").write_text("admitted,label,site\n01/01/2025,a,x\n02/01/2025,b,y\n03/02/2025,a,x\n")
    with pytest.raises(FedloomError, match=sentence):
        fl.read(tmp_path / "a.csv", client="site", dates=dates)
