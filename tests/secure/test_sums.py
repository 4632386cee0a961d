"""Sums of replies: with a sum that hides nothing, a run is what it is without one."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.channel.channel import Channel
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.secure.sum_step import Decoded, SumSession
from fedloom.secure.sums import Sums, play_sum
from support.plain_sums import PlainHalf, PlainSum
from support.synthetic import small_task

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
METHODS = [fl.FedAvg(), fl.FedSGD(), fl.FedRep(), fl.SCAFFOLD(), fl.FedDyn(), fl.PFedMe(), fl.FedAvgM(), fl.MOON()]


@pytest.mark.parametrize("weight_by", ["samples", "uniform"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_method_that_needs_only_sums_works_unchanged(method, weight_by):
    settings = {"rounds": 3, "seed": 3, "local": WORK, "weight_by": weight_by, "selection": fl.Random(0.75)}
    plain = fl.run(small_task(), method, **settings)
    summed = fl.run(small_task(), method, **settings, channel=[PlainSum()])
    assert plain.row is not None
    assert summed.row is not None
    assert torch.allclose(plain.row, summed.row, atol=2e-6)


DISTILLING = ["fld", "fld:layer=penultimate", "dsfl", "dsfl:aggregation=sa", "fedmd"]
WITH_STAGES = ["fedharm:k=8", "fedharm:k=8,align=kl", "fedharm:descriptor=maps", "fedharm:a=1", "fld:multi_loss=B"]
OUTPUTS = [
    *(pytest.param(spec, "mlp", id=spec) for spec in DISTILLING),
    *(pytest.param(spec, "resnet8", id=spec, marks=pytest.mark.slow) for spec in WITH_STAGES),
]


@pytest.mark.parametrize(("spec", "model"), OUTPUTS)
def test_methods_that_need_only_a_mean_of_outputs_work_unchanged(spec, model):
    """Models stay with clients, so what a sum changed would show in their scores."""
    task = fl.task("digits", clients=3, communal=0.05, model=model)
    settings = {"rounds": 2, "local": {"lr": 0.05, "batch_size": 64}, "weight_by": "samples"}
    plain, summed = (fl.run(task, spec, **settings, channel=channel) for channel in ([], [PlainSum()]))
    for measure in ("accuracy", "loss"):
        name = f"client_model/own_test/{measure}/mean"
        assert summed.last(name) == pytest.approx(plain.last(name), abs=1e-4)
    assert plain.last("client_model/own_test/loss/mean") != fl.run(task, "local", **settings).last(name)


@pytest.mark.parametrize("step", ["securesum:limit=64,bits=30", "ckks"])
@pytest.mark.parametrize("spec", ["fld", "dsfl"])
def test_masks_and_encryption_leave_the_scores_of_distilling_clients(spec, step):
    if step == "ckks":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    task = fl.task("digits", clients=3, communal=0.05)
    settings = {"rounds": 2, "local": {"lr": 0.05, "batch_size": 64}}
    plain, summed = fl.run(task, spec, **settings), fl.run(task, spec, **settings, channel=step)
    assert not any("sums/scaled" in record["metrics"] for record in summed.records)
    name = "client_model/own_test/loss/mean"
    assert summed.last(name) == pytest.approx(plain.last(name), abs=1e-3)


def test_outputs_that_do_not_fit_in_a_sum_are_said_to_be_made_smaller(caplog):
    task = fl.task("digits", clients=3, communal=0.05)
    made = fl.run(task, "fld", rounds=1, local={"lr": 0.5, "batch_size": 16}, channel="securesum:limit=0.5")
    assert made.records[-1]["metrics"]["sums/scaled"] == 3
    assert "3 of 3 replies did not fit in the sum of securesum and were made smaller: raise its limit." in caplog.text


def test_sums_do_not_depend_on_workers():
    settings = {"rounds": 2, "seed": 3, "local": WORK, "channel": [PlainSum()]}
    one = fl.run(small_task(), "scaffold", **settings)
    other = fl.run(small_task(), "scaffold", workers=2, **settings)
    assert torch.equal(one.row, other.row)
    assert one.records == other.records


def test_both_halves_talk_and_their_bytes_are_counted():
    session = SumSession("run", 1, 0, (4, 7), 1)
    total, up, down = play_sum(PlainSum(), session, {4: torch.ones(3).double(), 7: torch.ones(3).double()})
    assert total.row.tolist() == [2, 2, 2]
    assert total.ids == (4, 7)
    assert up == 2 * 3 * 8 + 2 * 2 * 8  # rows, then the ids that are told back
    assert down == 2 * 2 * 4 + 2 * 2 * 8


class RefusingHalf(PlainHalf):
    """Answers nothing after its row."""

    def answer(self, phase, got, row):
        if row is None:
            raise FedloomError("too few of its neighbours are left.")
        return super().answer(phase, got, row)


class PlainSumWithARefusal(PlainSum):
    """One client refuses a phase."""

    def client_half(self, session, client, keys):
        return RefusingHalf() if client == 7 else super().client_half(session, client, keys)


def test_a_client_that_refuses_a_phase_has_dropped_out_and_the_sum_goes_on():
    session = SumSession("run", 1, 0, (4, 7), 1)
    total, up, _ = play_sum(PlainSumWithARefusal(), session, {4: torch.ones(3).double(), 7: torch.ones(3).double()})
    assert total.row.tolist() == [2, 2, 2]
    assert up == 2 * 3 * 8 + 2 * 8


def test_the_bytes_of_a_record_are_those_of_all_phases():
    history = fl.run(small_task(), "fedavg", rounds=1, local=WORK, channel=[PlainSum()])
    width, clients = small_task().layout.width, 4
    assert history.records[1]["bytes_up"] == clients * (8 * (width + 1) + 8 * clients)
    assert history.records[1]["bytes_down"] == clients * (4 * width + 8 + 8 * clients)


def test_a_mean_by_hand():
    sums = Sums(Channel(fl.FedAvg()), PlainSum(), True)
    message = Message({"row": torch.tensor([1.0, 2.0])})
    # two clients of weights 1 and 3, of at most 4, that moved by (4, 0) and (0, 8)
    found = sums.means(Decoded(torch.tensor([4.0 / 4, 24.0 / 4]).double(), 4, 0), message, 4)
    assert found["row"].tolist() == [[2.0, 8.0]]


def test_a_weight_above_the_largest_counts_as_the_largest():
    sums = Sums(Channel(fl.FedAvg()), PlainSum(), True)
    assert sums.weights(torch.tensor([3, 50]), 10).tolist() == [3, 10]


@pytest.mark.parametrize("method", ["fedseq", "ifca", "fedprox:adaptive=true", "cfl", "fedu", "fld:common=false"])
def test_a_method_that_needs_single_replies_is_refused(method):
    with pytest.raises(FedloomError, match="lets only sums of replies leave"):
        fl.run(small_task(), method, rounds=1, channel=[PlainSum()])


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"channel": [PlainSum(), PlainSum()]},
            "plainsum leaves no numbers that plainsum could act on: make plainsum the",
        ),
        ({"selection": fl.Poisson(0.5)}, "plainsum needs 2 clients .* draws fewer of 4 with a probability of 0.31"),
        ({"selection": fl.Random(number=1)}, "a sum of 1 client hides nothing"),
    ],
)
def test_rounds_and_channels_that_no_sum_can_be_made_in_are_refused(settings, reason):
    with pytest.raises(FedloomError, match=reason):
        fl.run(small_task(), "fedavg", rounds=1, **{"channel": [PlainSum()], **settings})


def test_a_client_that_diverged_is_left_out_and_named():
    hostile = Exploding(clients=[1])
    history = fl.run(small_task(), "fedavg", rounds=1, local=WORK, channel=[PlainSum()], adversary=hostile)
    assert [one["client"] for one in history.records[1]["excluded"]] == [1]
    assert history.records[1]["selected"] == [0, 2, 3]


class Exploding(fl.Adversary):
    def poison_update(self, name, changes, cohort, hostile):
        return changes * torch.nan
