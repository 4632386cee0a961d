"""What a user's method is refused for: names that earlier versions had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

import fedloom as fl


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("finished", "is_finished"),
        ("enter", "prepare_cohort"),
        ("travels", "communicates"),
        ("whole", "shares_whole_model"),
        ("personal", "has_personal_models"),
        ("trains", "trains_locally"),
    ],
)
def test_a_method_with_an_old_name_is_refused_with_the_new_one(old: str, new: str):
    with pytest.raises(fl.FedloomError, match=f"Mine.{old} is now Mine.{new}"):
        type("Mine", (fl.FedAvg,), {old: True})


def test_an_old_class_variable_is_refused_and_a_hyper_parameter_of_that_name_is_not():
    with pytest.raises(fl.FedloomError, match="has_personal_models"):

        class Old(fl.FedAvg):
            personal: ClassVar[bool] = True

    @dataclass(frozen=True)
    class Fine(fl.FedAvg):
        personal: float = 0.5

    assert Fine(0.1).personal == 0.1
