"""Scores between 0 and their counts, counts as announced, losses that can be."""

from __future__ import annotations

import math

import pytest
import torch

from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.protocol.score_validation import ScoreBounds, check_scores, unusual_losses
from fedloom.deploy.protocol.wire import RejectedMessage
from fedloom.metrics.make_metrics import make_metrics

SIZES = ClientSizes(30, 4, 8, 42)
CLASSES = ScoreBounds(is_share=True, has_negative_losses=False, positions=1, metrics=make_metrics(("macro-f1", "mae")))
GOOD = {
    "counts": torch.tensor([8.0]),
    "loss": torch.tensor([3.0]),
    "score": torch.tensor([8.0]),
    "valid/counts": torch.tensor([4.0]),
    "valid/loss": torch.tensor([1.0]),
    "valid/score": torch.tensor([0.0]),
    "trained/loss": torch.tensor([math.nan]),
    "trained/score": torch.tensor([1.0]),
    "confusion": torch.tensor([4, 0, 2, 2]),
}


def refusal(bounds: ScoreBounds = CLASSES, /, **changes: float) -> str:
    names = {name.replace("__", "/"): torch.tensor([value]) for name, value in changes.items()}
    with pytest.raises(RejectedMessage) as found:
        check_scores(GOOD | names, SIZES, bounds)
    return str(found.value)


def test_what_can_be_is_taken():
    check_scores(GOOD, SIZES, CLASSES)
    check_scores({"loss": torch.tensor([0.4]), "score": torch.tensor([0.9])}, SIZES, CLASSES)
    check_scores({"steps": torch.tensor([3])}, SIZES, CLASSES)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"score": 8.1}, "score is 8.1, which is above its count 8"),
        ({"score": -1.0}, "score is negative"),
        ({"loss": -0.5}, "loss is negative"),
        ({"counts": 80.0}, "counts is 80, but the site announced 8 test samples"),
        ({"valid__counts": 5.0}, "valid/counts is 5, but the site announced 4 validation samples"),
        ({"valid__score": 5.0}, "valid/score is 5, which is above its count 4"),
        ({"trained__score": 1.5}, "trained/score is 1.5, which is above its count 1"),
        ({"received__loss": -1.0}, "received/loss is negative"),
        ({"recall": 2.0}, "recall has the value 2; it must be between 0 and 1"),
        ({"confusion": 9.0}, "confusion counts 9 samples; at most 8 are known"),
    ],
)
def test_what_cannot_be_is_refused(changes, reason):
    assert refusal(**changes) == reason


def test_a_share_metric_has_a_value_between_0_and_1():
    sums = {"metric/macro_f1": torch.tensor([[4.0, 4.0, 4.0, 5.0, 4.0, 4.0]])}  # hits, predicted, true of two classes
    with_metric = {name: GOOD[name] for name in ("counts", "loss", "score")}
    check_scores(with_metric | sums, SIZES, CLASSES)
    lie = {"metric/macro_f1": torch.tensor([[40.0, 4.0, 4.0, 5.0, 4.0, 4.0]])}
    with pytest.raises(RejectedMessage, match="must be between 0 and 1"):
        check_scores(with_metric | lie, SIZES, CLASSES)
    with pytest.raises(RejectedMessage, match="negative sum"):
        check_scores(with_metric | {"metric/macro_f1": -sums["metric/macro_f1"]}, SIZES, CLASSES)
    check_scores(with_metric | {"metric/mae": torch.tensor([[900.0, 8.0]])}, SIZES, CLASSES)  # no share


def test_of_a_sequence_each_position_counts_at_most_once():
    tokens = ScoreBounds(is_share=True, has_negative_losses=False, positions=5)
    check_scores({"counts": torch.tensor([40.0]), "score": torch.tensor([39.0])}, SIZES, tokens)
    assert "announced 8 test samples" in refusal(tokens, counts=41.0)


def test_a_users_loss_may_be_negative_and_a_number_has_no_upper_score():
    own = ScoreBounds(is_share=False, has_negative_losses=True, positions=1)
    check_scores(GOOD | {"loss": torch.tensor([-3.0]), "score": torch.tensor([-3.0])}, SIZES, own)
    numbers = ScoreBounds(is_share=False, has_negative_losses=False, positions=1)
    check_scores(GOOD | {"score": torch.tensor([1e6])}, SIZES, numbers)


def test_a_loss_out_of_all_proportion_to_the_others_is_refused():
    answers = {client: {"counts": torch.tensor([8.0]), "loss": torch.tensor([16.0])} for client in range(4)}
    assert unusual_losses(answers) == {}
    answers[2] = {"counts": torch.tensor([8.0]), "loss": torch.tensor([8e6])}
    assert unusual_losses(answers) == {2: "loss is 1e+06 per sample, where 2 is usual"}
    assert unusual_losses({client: answers[client] for client in (0, 2)}) == {}  # two do not tell who is wrong


def test_the_losses_of_most_may_be_nothing_and_missing_ones_are_not_compared():
    small = {client: {"trained/loss": torch.tensor([1e-9])} for client in range(3)}
    assert unusual_losses(small | {3: {"trained/loss": torch.tensor([900.0])}}) == {}
    assert unusual_losses(small | {3: {"trained/loss": torch.tensor([math.nan])}, 4: {}}) == {}
    assert list(unusual_losses(small | {3: {"trained/loss": torch.tensor([1100.0])}})) == [3]
