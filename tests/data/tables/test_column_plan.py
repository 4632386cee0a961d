"""The plan of a table's columns: what is made of each, from training rows only, and said in a line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.data.tables.column_plan import ColumnPlan, encode_words
from fedloom.data.tables.fit_columns import MOST_LEVELS, fit_columns
from fedloom.data.tables.tables import Table

NAN = float("nan")


def table(**columns):
    arrays = {
        name: np.array(cells, dtype=object if any(isinstance(cell, str) for cell in cells) else np.float64)
        for name, cells in columns.items()
    }
    return Table(arrays, "t.csv")


def fit(train=None, **columns):
    made = table(**columns)
    return fit_columns(made, list(columns), np.arange(len(made)) if train is None else np.array(train))


def test_a_number_is_itself_and_missing_ones_become_the_training_median():
    plan = fit(age=[10, NAN, 30, 50, 1000], train=[0, 1, 2, 3])
    encoded = plan.encode(table(age=[10, NAN, 30, 50, 1000]))
    assert encoded.tolist() == [[10, 0], [30, 1], [30, 0], [50, 0], [1000, 0]]
    assert plan.features == ["age", "age: missing"]
    assert plan.indicators == [False, True]
    assert plan.lines == [
        "age: a number; missing ones become 30, the training median, and a feature says that they were"
    ]


def test_a_number_that_is_missing_only_in_tests_has_no_feature_that_says_so():
    plan = fit(age=[10, 20, 30, NAN], train=[0, 1, 2])
    assert plan.encode(table(age=[NAN, 7])).tolist() == [[20], [7]]


def test_a_number_of_which_none_is_missing_must_not_be_missing_later():
    plan = fit(age=[10.0, 20.0, 35.0])
    with pytest.raises(FedloomError, match=r"t\.csv: column 'age', row 2: the cell is empty, but no cell of"):
        plan.encode(table(age=[7, NAN]))


def test_a_category_has_a_feature_per_level_of_the_training_rows_and_one_for_unknown():
    plan = fit(ward=["a", "b", "a", "c"], train=[0, 1, 2])
    assert plan.features == ["ward=a", "ward=b", "ward: unknown"]
    assert plan.encode(table(ward=["a", "b", "c", "zz", ""])).tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 0, 1],
    ]
    assert plan.lines == ["ward: a category; a feature for each of 2 levels (a, b), one for unknown"]


def test_a_missing_level_has_a_feature_if_the_training_rows_miss_some():
    plan = fit(ward=["a", "", "b", "a"])
    assert plan.encode(table(ward=["", "q"])).tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_levels_are_capped_at_the_most_frequent_ones():
    cells = [f"w{number:03d}" for number in range(80) for _ in range(3 + (number >= 40))]
    plan = fit(ward=cells)
    (column,) = plan.columns
    assert len(column.levels) == MOST_LEVELS
    assert {f"w{number:03d}" for number in range(40, 80)} <= set(column.levels)
    assert f"{MOST_LEVELS} most frequent of 80 levels" in column.line


def test_a_date_is_days_month_weekday_and_hour_and_its_median_is_a_date():
    plan = fit(day=["2026-01-01", "2026-01-03", "", "2026-03-05"])
    assert plan.features[:4] == ["day: days", "day: month", "day: weekday", "day: hour"]
    assert plan.encode(table(day=["", "2026-03-05"]))[:, 1:].tolist() == [[1, 5, 0, 1], [3, 3, 0, 0]]
    assert "missing ones become 2026-01-03" in plan.lines[0]


@pytest.mark.parametrize(
    ("name", "cells", "reason"),
    [
        ("", [0, 1, 2, 3], "it counts the rows"),
        ("Unnamed: 0", [5, 9, 2, 3], "it has another number in every row"),
        ("nr", [1, 2, 3, 4], "it counts the rows"),
        ("id", [5, 9, 2, 3], "it has another number in every row"),
        ("unit", [3, 3, 3, 3], "it is 3 in every training sample"),
        ("unit", ["kg", "kg", "kg", "kg"], "it is 'kg' in every training sample"),
        ("gone", [NAN, NAN, NAN, NAN], "it is empty in every training sample"),
        ("when", ["01/02/2026", "03/04/2026", "05/06/2026", "07/08/2026"], "day/month or month/day"),
    ],
)
def test_a_column_that_says_nothing_is_left_out_with_the_reason(name, cells, reason):
    plan = fit(**{name: cells, "other": [4, 7, 1, 2]})
    assert [column.role for column in plan.columns] == ["left out", "number"]
    assert reason in plan.lines[0]
    assert plan.encode(table(other=[8])).tolist() == [[8]]  # a table without the column will do


def test_a_count_is_a_number_where_it_is_not_the_first_of_several_columns():
    assert [column.role for column in fit(age=[4, 7, 1], step=[1, 2, 3]).columns] == ["number", "number"]
    assert fit(step=[1, 2, 3]).columns[0].role == "number"


def test_names_of_rows_are_left_out_and_identifiers_with_few_values_are_categories():
    names = [f"patient {number}" for number in range(40)]
    plan = fit(who=names, case_id=list(range(900, 940)), ward_id=[1, 2] * 20, age=[1.5] * 20 + [2.5] * 20)
    assert [column.role for column in plan.columns] == ["left out", "left out", "category", "number"]
    assert "40 different texts in 40 training samples" in plan.lines[0]


def test_one_word_among_numbers_is_an_error_and_not_a_category():
    with pytest.raises(FedloomError, match="column 'age', row 31: '<5' is not a number, but most cells are"):
        fit(age=[*(str(number) for number in range(30)), "<5"])
    assert fit(grade=["1", "2", "3a"] * 9).columns[0].role == "category"


def test_infinite_numbers_are_named():
    with pytest.raises(FedloomError, match="column 'age', row 2 is infinite"):
        fit(age=[1, float("inf"), 3])


def test_a_table_without_any_column_to_learn_from_is_refused():
    with pytest.raises(FedloomError, match="no column to learn from: unit: left out, it is 3 in every"):
        fit(unit=[3, 3, 3])


def test_many_plain_numbers_are_one_line():
    plan = fit(**{f"p{number}": [number, 5, 9.5] for number in range(64)}, ward=["a", "b", "a"])
    assert len(plan.lines) == 2
    assert plan.lines[0].endswith("64 numbers")


def test_a_plan_survives_json():
    plan = fit(age=[10, NAN, 30], ward=["a", "b", ""], day=["2026-01-01", "2026-01-03", ""], unit=[1, 1, 1])
    again = ColumnPlan.model_validate_json(plan.model_dump_json())
    assert again == plan
    cells = table(age=[NAN], ward=["z"], day=["2027-01-01"])
    assert np.array_equal(again.encode(cells), plan.encode(cells))


cells = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=3, max_size=30)
words = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), min_size=3, max_size=30)


@given(cells, words, st.data())
def test_no_other_row_changes_what_is_made_of_training_rows(numbers, texts, data):
    count = min(len(numbers), len(texts))
    numbers = [NAN if number is None else number for number in numbers[:count]]
    made = {"n": numbers, "w": texts[:count], "steady": [float(row % 7) + 0.5 for row in range(count)]}
    train = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=2)))
    other = {name: list(column) for name, column in made.items()}
    for row in set(range(count)) - set(train):
        if other["n"][row] == other["n"][row]:
            other["n"][row] = 5e8
        other["w"][row] = other["w"][row] and "q"
    plans = []
    for columns in (made, other):
        try:
            plans.append(fit(train=train, **columns))
        except FedloomError:
            plans.append(None)
    assert plans[0] == plans[1]


def test_padding_is_0_and_an_unknown_word_1():
    cells = np.array(["a b c", "b"], dtype=object)
    assert encode_words(cells, ["a", "b"], 4, "text").tolist() == [[2, 3, 1, 0], [3, 0, 0, 0]]


def test_more_words_than_the_model_takes_are_refused():
    with pytest.raises(FedloomError, match="text, row 1 has 3 words, but the model takes 2 at most"):
        encode_words(np.array(["a b c"], dtype=object), ["a"], 2, "text")
