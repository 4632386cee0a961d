"""A client that sends what is no number is left out, and a robust rule has one hostile client fewer to withstand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

import fedloom as fl
from fedloom.core.aggregator import TOLERATED
from support.silent_clients import missing, play_run, prepare_run
from support.synthetic import federation, mlp

NAN, FAR = float("nan"), 100.0


@dataclass(frozen=True)
class Numbers(fl.FedAvg):
    """Every client replies with a row of one number, its own."""

    numbers: tuple[Any, ...] = ()

    def client_update(self, cohort: fl.Cohort, message: fl.Message) -> fl.Reply:
        own = torch.tensor([[float(self.numbers[client])] for client in cohort.ids])
        rows = cohort.train(cohort.spread(message["row"]))
        return fl.Reply({"row": own.expand_as(rows).clone()})


def play(numbers: tuple[Any, ...], aggregation: Any, **more: Any) -> fl.History:
    task = fl.Task("own", federation([20] * len(numbers)), mlp())
    work = {"epochs": 1, "batch_size": 20, "lr": 0.1}
    return fl.run(
        task, Numbers(numbers=tuple(map(str, numbers))), rounds=1, local=work, aggregation=aggregation, **more
    )


def made(history: fl.History) -> float:
    """The number that the round's row has everywhere."""
    assert history.stopped is None
    assert history.row is not None
    assert float(history.row.std()) == pytest.approx(0, abs=1e-5)
    return float(history.row[0])


def trimmed(share: float, **more: Any) -> dict[str, Any]:
    return {"name": "trimmedmean", "share": share, **more}


@pytest.mark.parametrize(
    ("numbers", "aggregation", "row", "withstood"),
    [
        # One of five may be hostile, and it is known: of the other four, none. So nothing is trimmed.
        ((1, 2, 3, 6, NAN), trimmed(0.2), 3.0, 0),
        # One of three (0.45 of 3); of the other two none.
        ((1, NAN, 3), trimmed(0.45), 2.0, 0),
        # Krum needs 2f + 3: of seven f = 2, and of the other six f = 1. The squares to the three nearest others are
        # 1 + 4 + 9 for 0 and 4, 1 + 1 + 4 for 1, 2 and 3, and huge for the far one: the other five are averaged.
        ((0, 1, 2, 3, 4, FAR, NAN), {"name": "multikrum", "share": 0.4}, 2.0, 1),
        # Both of two of seven are known, and the other five need bear none; they bear one. With two neighbours each,
        # 0 and 4 score 1 + 4 and the others 1 + 1, and four of them are averaged: of equal scores the first.
        ((0, 1, 2, 3, 4, NAN, NAN), {"name": "multikrum", "share": 0.4}, 1.5, 1),
        # The median of three bears one, that of two none.
        ((1, 4, NAN), "median", 2.5, 0),
        # Three buckets of two bear one: one of five clients, and of the other four, in two buckets, none.
        ((2, 2, 2, 2, NAN), trimmed(0.2, bucket=2), 2.0, 0),
    ],
    ids=["trimmed mean", "half", "krum", "two of krum", "median", "buckets"],
)
def test_at_the_fewest_clients_of_a_rule_one_that_sends_nan_ends_no_round(
    numbers: tuple[Any, ...], aggregation: Any, row: float, withstood: int, caplog: pytest.LogCaptureFixture
) -> None:
    history = play(numbers, aggregation, eval_every=0)
    assert made(history) == pytest.approx(row, abs=1e-4)
    assert history.records[-1]["metrics"][TOLERATED] == withstood
    assert f"withstood {withstood} hostile among the clients of round 1, fewer than its settings promise" in caplog.text
    left_out = [one["client"] for one in history.records[-1]["excluded"]]
    assert left_out == [client for client, number in enumerate(numbers) if number != number]


@pytest.mark.parametrize(
    ("numbers", "aggregation", "counted", "needed"),
    [
        # Two of five are hostile, and one was promised: what of the other three?
        ((1, 2, 3, NAN, NAN), trimmed(0.2), 3, 5),
        ((0, 1, 2, 3, NAN, NAN, NAN), {"name": "multikrum", "share": 0.4}, 4, 7),
        # A half of the clients that were asked is needed for any rule.
        ((1, NAN, NAN, NAN, 3), "mean", 2, 3),
    ],
    ids=["more than promised", "more than krum bears", "fewer than half"],
)
def test_where_more_are_left_out_than_the_rule_bears_the_round_ends(
    numbers: tuple[Any, ...], aggregation: Any, counted: int, needed: int
) -> None:
    with pytest.warns(fl.StoppedWarning):
        history = play(numbers, aggregation, eval_every=0)
    assert f"the replies of {counted} of {len(numbers)} clients count, but {needed} are needed" in str(history.stopped)


def test_who_does_not_answer_is_not_known_to_be_hostile() -> None:
    """Silence is no lie: the rule must bear as many hostile ones among the rest as among all."""
    task = fl.Task("own", federation([20] * 5), mlp())
    run = prepare_run(
        task, Numbers(numbers=("1", "2", "3", "6", "9")), aggregation=trimmed(0.2), rounds=1, eval_every=0
    )
    with pytest.raises(fl.FedloomError, match="4 of 5 clients answered, but 5 are needed"):
        play_run(run, missing(r1=[4]))


def test_a_rule_that_is_far_from_its_fewest_clients_makes_what_it_made() -> None:
    """Of ten two may be hostile, of nine one: 2 to 8 are averaged, and nothing is said."""
    history = play((1, 2, 3, 4, 5, 6, 7, 8, FAR, NAN), trimmed(0.2), eval_every=0)
    assert made(history) == pytest.approx(5.0, abs=1e-4)
    assert TOLERATED not in history.records[-1]["metrics"]
