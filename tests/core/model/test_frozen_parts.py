"""Frozen parameters: what is matched, refused and undone."""

from __future__ import annotations

import pytest
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.core.model.frozen_parts import freeze, unfreeze
from support.synthetic import mlp


def test_patterns_and_names_of_modules_freeze_alike_and_leave_the_given_model_alone():
    model = mlp()
    for pattern in ("1.*", "1", "1.[wb]*"):
        made = freeze(model, [pattern])
        assert [name for name, p in made.named_parameters() if not p.requires_grad] == ["1.weight", "1.bias"]
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_what_its_author_froze_stays_frozen_when_the_rest_trains_again():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    again = unfreeze(freeze(model, ["1.*"]))
    assert Layout.of(again).slots == Layout.of(model).slots


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["nose.*"], r"the pattern 'nose.\*' matches no parameter: the model has 1.weight, 1.bias, 4.weight, 4.bias"),
        (["1.*", "4.*"], r"1.\*, 4.\* freezes all parameters of Sequential"),
    ],
)
def test_a_pattern_that_matches_nothing_and_one_that_leaves_nothing_are_refused(patterns, message):
    with pytest.raises(FedloomError, match=message):
        freeze(mlp(), patterns)
