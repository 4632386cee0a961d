"""Classes by number, by name, and by the name that two tags share."""

from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.attacks.class_names import classes_named
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def tagged():
    task = fl.task("digits", clients=2)
    names = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC", "6", "7", "8", "9")
    return replace(task, federation=replace(task.federation, class_names=names))


@pytest.mark.parametrize(("one", "classes"), [(3, [3]), ("MISC", [5]), ("PER", [1, 2]), ("B-LOC", [3])])
def test_a_class_is_a_number_or_a_name_or_the_tags_of_a_name(tagged, one, classes):
    assert classes_named(one, tagged, "attack") == classes


@pytest.mark.parametrize(("one", "said"), [(10, "class 10 does not exist: "), ("ORG", "class 'ORG' does not exist")])  # fmt: skip # noqa: E501
def test_a_class_that_does_not_exist_is_refused(tagged, one, said):
    with pytest.raises(FedloomError, match=said):
        classes_named(one, tagged, "attack")
