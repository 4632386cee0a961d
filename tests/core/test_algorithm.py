"""What a user's method is refused for: names that earlier versions had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import fedloom as fl
from fedloom.core.algorithm import RENAMED
from support.synthetic import cohort, quadratic


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_method_with_an_old_name_is_refused_with_the_new_one(old: str, new: str):
    with pytest.raises(fl.FedloomError, match=f"Mine.{old} is called {new}"):
        type("Mine", (fl.FedAvg,), {old: True})


def test_an_old_class_variable_is_refused_and_a_hyper_parameter_of_that_name_is_not():
    with pytest.raises(fl.FedloomError, match="has_personal_models"):

        class Old(fl.FedAvg):
            personal: ClassVar[bool] = True

    @dataclass(frozen=True)
    class Fine(fl.FedAvg):
        personal: float = 0.5

    assert Fine(0.1).personal == 0.1


def test_old_names_of_a_cohort_are_refused_with_the_new_ones():
    some = cohort(quadratic([0.0, 1.0]), "loop", fl.LocalWork())
    with pytest.raises(fl.FedloomError, match="kept_rows"):
        some.kept("row", some.spread(some.task.initial_row()))
    with pytest.raises(fl.FedloomError, match="points"):
        _ = some.held
    assert not hasattr(some, "anything")
