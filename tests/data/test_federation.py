"""Federations: views of the same samples with other parts."""

from __future__ import annotations

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
