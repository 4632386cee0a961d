"""Targets as users have them: what is chosen, what is said about it, and what is refused."""

import numpy as np
import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.from_arrays import from_arrays
from fedloom.data.targets import read_targets, target_units


def read(values, kind=None, classes=None):
    return read_targets(np.asarray(values), kind, classes, "t.csv", "column 'y'")


@pytest.mark.parametrize(
    ("values", "kind", "classes", "names"),
    [
        (["cat", "dog", "cat"], "classes", 2, ["cat", "dog"]),
        ([1, 2, 3, 1], "classes", 3, ["1", "2", "3"]),
        (["1", "2", "3"], "classes", 3, ["1", "2", "3"]),
        ([1.0, 2.0, 3.0], "classes", 3, ["1", "2", "3"]),
        ([-1, 1, 1], "classes", 2, ["-1", "1"]),
        ([0, 1, 3], "classes", 4, []),
        ([True, False], "classes", 2, []),
        ([1.5, 2, 3], "number", 1, ()),
        (["1.5", "2", "-3"], "number", 1, ()),
        ([str(n) for n in range(21)], "number", 1, ()),
        ([str(n) for n in range(20)], "classes", 20, []),
        (list(range(347)), "classes", 347, []),  # whole numbers of an array are class numbers
        (["a|b", "b", "a", "c | a"], "labels", 3, ["a", "b", "c"]),
        (["a;b", "b", "a;b;c", "c", "c;a"], "labels", 3, ["a", "b", "c"]),
        ([[0, 1], [1, 1]], "labels", 2, ()),
        ([[0, 1, 2], [1, 1, -100]], "tokens", 3, ()),
    ],
)
def test_the_kind_follows_from_the_values(values, kind, classes, names):
    found = read(values)
    assert (found.kind, found.classes, list(found.names)) == (kind, classes, list(names))
    assert "column 'y'" in found.note


def test_each_kind_can_be_asked_for():
    values = [str(n) for n in range(347)]
    assert read(values).kind == "number"
    assert "it has 347 different numbers" in read(values).note
    assert "--kind classes" in read(values).note
    assert (read(values, "classes").kind, read(values, "classes").classes) == ("classes", 347)
    assert read([0, 1, 1], "number").y.tolist() == [0.0, 1.0, 1.0]
    assert read(["a|b", "b", "a"], "classes").classes == 3
    assert read([[0, 1], [1, 1]], "tokens").kind == "tokens"
    assert read(["a, b", "b"], "labels").y.tolist() == [[1, 1], [0, 1]]


def test_labels_one_to_three_train_three_outputs():
    data = fl.from_arrays(np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3 + 1, clients=3)
    assert data.classes == 3
    assert data.columns["y"].unique().tolist() == [0, 1, 2]
    assert fl.task_of(data).model.head.out_features == 3


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ([None, "a"], None, "the label of row 1 is missing"),
        ([1.0, np.nan], None, "the label of row 2 is missing"),
        (["a", " "], None, "the label of row 2 is missing"),
        (np.array(["a", None, float("nan")], dtype=object), None, "the label of row 2 is missing"),
        (["x", "x"], None, "'x' in every row: there is nothing to learn"),
        ([2.5, 2.5], None, "2.5 in every row: there is nothing to learn"),
        (["a", "b"], "number", "'a' in row 1 of column 'y' is not a number"),
        ([1.5, 2], "classes", "row 1 is 1.5: classes must be whole numbers or names.*kind number"),
        ([1, 2], "tokens", "kind tokens needs a row of them"),
        ([[1, 2], [0, 1]], "labels", "kind labels needs 0 or 1 for each label"),
        ([[1, 2], [0, 1]], "classes", "kind classes needs one value per sample"),
        ([["a", "b"], ["c", "a"]], None, "give class numbers for the tokens"),
        ([[1, -2], [0, 1]], None, "numbered from 0, and -100 marks padding"),
        ([1, 2], "numbers", "Did you mean 'number'"),
    ],
)
def test_what_cannot_be_a_target_is_said_in_a_sentence(values, kind, said):
    with pytest.raises(FedloomError, match=said):
        read(values, kind)


def test_a_partition_by_label_is_refused_for_numbers_and_labels():
    x = np.random.default_rng(0).normal(size=(60, 2))
    for y, what in ((x[:, 0], "numbers"), ((x > 0).astype(int), "several labels each")):
        with pytest.raises(FedloomError, match=f"needs one label per sample, but these targets are {what}: use iid"):
            fl.from_arrays(x, y, partition="dirichlet(0.1)", clients=3)
        assert fl.from_arrays(x, y, clients=3).clients == 3


def test_several_floats_per_sample_are_numbers_and_each_has_its_own_units():
    y = np.stack([np.arange(40) * 0.5, 1000 - 7.5 * np.arange(40)], 1)
    made = read_targets(y, None, None, "data")
    assert (made.kind, made.classes, made.y.dtype) == ("number", 2, np.float32)
    assert made.note == "y are 2 numbers (0 to 19.5, 707.5 to 1000); each is learnt in its own units"
    whole = read_targets(y.round().astype(np.int64), "number", None, "data")
    assert whole.kind == "number"
    federation = from_arrays(np.zeros((40, 1)), y, clients=2)
    mean, std = target_units(federation)
    own = y[federation.train.order.numpy()]
    assert np.allclose(mean, own.mean(0))
    assert np.allclose(std, own.std(0))
    assert repr(federation).endswith("2 numbers>")


@pytest.mark.parametrize(
    ("values", "kind", "sentence"),
    [
        (np.array([[1.5, 2.0], [2.5, 2.0]]), None, r"column 1 of y is 2 in every row: leave it out"),
        (np.array([[1.5, 2.0], [2.5, np.inf]]), None, "y has a value that is not a finite number"),
        (np.array([[1.5, 2.0], [2.5, 3.0]]), "classes", r"y has shape \(2, 2\), but kind classes needs one value"),
    ],
)
def test_several_numbers_that_cannot_be_learnt_are_refused(values, kind, sentence):
    with pytest.raises(FedloomError, match=sentence):
        read_targets(values, kind, None, "data")


LISTS = [["cough", "fever"], [], ["fever"], None]
CELLS = ["cough|fever", "", "fever", ""]


@pytest.mark.parametrize("y", [LISTS, CELLS, np.array(CELLS)], ids=["lists", "cells", "array"])
def test_an_empty_list_of_labels_is_missing_or_none_of_them_as_asked(y):
    x, client = np.eye(8), np.arange(8) % 2
    y = [*y, *y]
    with pytest.raises(FedloomError, match="label of row 2 is missing"):
        from_arrays(x, y, client)
    federation = from_arrays(x, y, client, empty_labels="none")
    assert list(federation.class_names) == ["cough", "fever"]
    assert federation.columns["y"].tolist() == 2 * [[1, 1], [0, 0], [0, 1], [0, 0]]
    assert "4 rows have none of them" in federation.notes[0]


@pytest.mark.parametrize("lists", [[["b"], ["a"], ["a", "b"]], [["a", "b"], ["b", "c"], ["c", "a"]]])
def test_lists_of_names_are_labels(lists):
    federation = from_arrays(np.eye(6), [*lists, *lists], np.arange(6) % 2)
    names = federation.class_names
    found = [{names[place] for place in np.flatnonzero(row)} for row in federation.columns["y"].tolist()]
    assert found == 2 * [set(names) for names in lists]


@pytest.mark.parametrize(
    ("y", "kind", "said"),
    [
        (["a|b", "", "a", "b"], "classes", "empty_labels=none is for lists of labels such as fever|cough, but kind is"),
        (np.eye(4, dtype=int), None, "but here a target has 4 columns"),
        (["", "", "", ""], None, "y has no label in any row: there is nothing to learn"),
        ([["a|b"], [], ["a"], ["b"]], None, "the label 'a|b' has a '|', which separates labels: rename it"),
    ],
)
def test_what_no_empty_labels_can_be_of_is_refused(y, kind, said):
    with pytest.raises(FedloomError) as error:
        from_arrays(np.eye(4), y, [0, 1, 0, 1], kind=kind, empty_labels="none")
    assert said in str(error.value)


def test_another_word_for_empty_labels_is_refused():
    with pytest.raises(FedloomError, match="empty_labels='nothing': it must be 'missing' or 'none'"):
        from_arrays(np.eye(4), CELLS, [0, 1, 0, 1], empty_labels="nothing")
