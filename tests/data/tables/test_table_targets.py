"""Targets of a table: a column, several columns of 0 and 1, tags of words, and rows that have none."""

import numpy as np
import pytest

from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.tables.table_targets import rows_with_targets, table_targets, tagged_column, target_columns
from fedloom.data.tables.tables import Table


def table(**columns):
    return Table({name: np.array(cells, dtype=object) for name, cells in columns.items()}, "t.csv")


def test_several_columns_of_0_and_1_are_labels():
    made = table(fever=["1", "0"], cough=["1", "1"], age=["3", "4"])
    names = target_columns(made, "fever, cough")
    found = table_targets(made, names, None, None)
    assert (found.kind, found.y.tolist(), list(found.names)) == ("labels", [[1, 1], [0, 1]], ["fever", "cough"])
    assert target_columns(made, ["cough", "fever"]) == ["cough", "fever"]
    with pytest.raises(FedloomError, match="column 'age', row 1 is '3': several target columns are labels"):
        table_targets(made, ["fever", "age"], None, None)
    with pytest.raises(FedloomError, match="kind classes needs one target, but fever, cough are 2"):
        table_targets(made, names, "classes", None)


def test_a_column_with_a_comma_in_its_name_is_one_column():
    assert target_columns(table(**{"a,b": ["1"], "a": ["1"]}), "a,b") == ["a,b"]
    with pytest.raises(FedloomError, match="has no column 'y'"):
        target_columns(table(a=["1"]), "y")


def test_rows_without_a_target_are_counted():
    there, note = rows_with_targets(table(y=["a", "", "b", ""]), ["y"])
    assert there.tolist() == [True, False, True, False]
    assert note == "2 rows without a target are left out"
    assert rows_with_targets(table(y=["a"]), ["y"])[1] == ""
    with pytest.raises(FedloomError, match="column 'y' is empty in every row"):
        rows_with_targets(table(y=["", ""]), ["y"])


def test_tags_are_a_class_per_word_with_padding():
    made = table(text=["Anna left", "go"], tags=["PER O", "O"], note=["x", "y z"])
    found = table_targets(made, ["tags"], "tokens", None)
    assert (found.kind, list(found.names)) == ("tokens", ["O", "PER"])
    assert found.y.tolist() == [[1, 0], [0, IGNORED]]
    assert tagged_column(made, ["note", "text"], "tags") == "text"
    with pytest.raises(FedloomError, match="'note' has 1 words and 'tags' 2 tags in row 1: give one word per tag"):
        tagged_column(made, ["note"], "tags")


def test_several_measured_columns_are_numbers_and_others_are_asked_about():
    made = table(days=["1.5", "2", "3"], cost=["10.25", "20", "7"], ward=["1", "2", "0"])
    found = table_targets(made, ["days", "cost"], None, None)
    assert (found.kind, found.classes, list(found.names)) == ("number", 2, ["days", "cost"])
    assert found.y.tolist() == [[1.5, 10.25], [2, 20], [3, 7]]
    assert "days: 1.5 to 3, cost: 7 to 20" in found.note
    with pytest.raises(FedloomError, match=r"column 'days', row 1 is '1.5': .* or with --kind number"):
        table_targets(made, ["days", "ward"], None, None)
    assert table_targets(made, ["days", "ward"], "number", None).classes == 2
    with pytest.raises(FedloomError, match="column 'cost': the target 'x' of row 2 is not a number"):
        table_targets(table(days=["1.5", "2"], cost=["10.25", "x"]), ["days", "cost"], "number", None)
    with pytest.raises(FedloomError, match="column 'cost' is 2 in every row: leave it out"):
        table_targets(table(days=["1.5", "2"], cost=["2", "2"]), ["days", "cost"], "number", None)


def test_without_a_target_the_column_to_predict_is_asked_for():
    with pytest.raises(FedloomError) as caught:
        target_columns(table(age=["1"], client=["a"], outcome=["x"]), "label")
    assert str(caught.value) == (
        "t.csv has no column 'label': say which one is to be predicted with --target COLUMN (target=...): age, outcome."
    )


def test_a_word_among_measured_values_is_named_and_not_the_first_number():
    made = table(days=["1.5", "2", "3"], cost=["10.25", "low", "7"])
    with pytest.raises(FedloomError, match="column 'cost': the target 'low' of row 2 is not a number"):
        table_targets(made, ["days", "cost"], None, None)


def test_a_misspelt_kind_of_several_targets_is_named():
    with pytest.raises(FedloomError, match=r"unknown kind of target 'numbr'\. Did you mean 'number'\?"):
        table_targets(table(a=["1.5"], b=["2.5"]), ["a", "b"], "numbr", None)
