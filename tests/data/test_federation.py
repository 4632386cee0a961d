"""Federations: views of the same samples with other parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.changes.class_stream import ClassStream, with_class_stream
from fedloom.data.changes.concept_drift import with_concept_drift
from fedloom.data.changes.label_share import with_label_share
from support.synthetic import federation


def test_validation_parts_are_set_aside_from_training_and_nothing_else_changes():
    before = federation([30, 20, 1, 2])
    after = before.with_validation_part(0.2)
    for client in range(4):
        own, valid, train = (part[client].tolist() for part in (before.train, after.valid, after.train))
        assert sorted(valid + train) == sorted(own)
        assert train == [position for position in own if position in set(train)]  # in their order
    assert after.valid.sizes.tolist() == [12, 8, 0, 1]  # 20 % of training and test samples; one always trains
    assert after.test is before.test
    assert after.with_validation_as_test().test is after.valid
    assert before.with_validation_part(0.2).valid.order.equal(after.valid.order)


def test_a_federation_shows_labels_as_labels():
    x, site = np.zeros((40, 2)), np.arange(40) % 4
    assert "3 labels>" in repr(fl.from_arrays(x, np.arange(120).reshape(40, 3) % 2, site))
    assert "3 classes>" in repr(fl.from_arrays(x, np.arange(40) % 3, site))


def test_samples_of_a_group_move_together_to_the_validation_part():
    plain = federation([30, 20])
    visits = replace(plain, group=torch.arange(len(plain.columns["y"])) // 3)
    after = visits.with_validation_part(0.2)
    assert after.group is not None
    trained, validated = (set(after.group[part.order].tolist()) for part in (after.train, after.valid))
    assert validated
    assert not trained & validated
    assert abs(int(after.valid.sizes.sum()) - int(plain.with_validation_part(0.2).valid.sizes.sum())) <= 4


def test_clients_of_one_group_each_have_nothing_to_set_aside():
    plain = federation([30, 20])
    one = replace(plain, group=torch.zeros(len(plain.columns["y"]), dtype=torch.int64))
    with pytest.raises(FedloomError, match=r"belong together.*valid_share"):
        one.with_validation_part(0.2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda held: with_class_stream(held, ClassStream(2, 1, cumulative=True)), "change in later rounds"),
        (lambda held: with_concept_drift(held, [2]), "change in later rounds"),
        (lambda held: with_label_share(held, 0.5), "some training samples have no label"),
    ],
)
def test_samples_that_would_be_trained_on_or_have_no_label_are_not_set_aside(change, says):
    with pytest.raises(FedloomError, match=f"{says}.*valid_share"):
        change(federation([30, 20])).with_validation_part(0.2)
