"""Statistics on a channel: logits are quantised like updates, their shape comes back, and other steps leave them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import fedloom as fl
from fedloom.channel.channel import Channel
from fedloom.channel.coded_statistics import decode_statistic
from fedloom.channel.halfprecision import HalfPrecision
from fedloom.channel.qsgd import QSGD
from fedloom.channel.topk import TopK
from fedloom.core.algorithm import Algorithm, State
from fedloom.core.declarations import Declared, Kept, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from support.synthetic import cohort, small_task


@dataclass(frozen=True)
class Logits(Algorithm):
    """Clients train alone and send the outputs of their models on the communal set."""

    breaks: ClassVar[Facts] = {Fact.SHARED_PREDICTION: "gives every client an entirely personal model"}
    receives: ClassVar[Declared] = {}
    sends: ClassVar[Declared] = {"logits": Statistic("outputs on the communal set", coded=True)}
    keeps: ClassVar[Kept] = {"row": "its model"}

    def start(self, task) -> State:
        return {"mean": torch.zeros(len(task.federation.communal), task.federation.classes)}

    def broadcast(self, server, ids) -> Message:
        return Message()

    def client_update(self, cohort, message) -> Reply:
        rows = cohort.train(self.weights_for(message, cohort))
        cohort.keep("row", rows)
        return Reply({"logits": cohort.forward(rows, cohort.task.inputs(cohort.task.federation.communal))})

    def aggregate(self, server, replies: Replies) -> State:
        return {"mean": replies["logits"].mean(0)}

    def weights_for(self, message, cohort):
        return cohort.kept_rows("row", cohort.spread(cohort.task.initial_row()))


def there_and_back(tensor, *steps):
    channel = Channel(Logits(), steps)
    sent = channel.encode(Reply({"logits": tensor}), Message(), cohort(small_task(), "loop", LocalWork()))
    return sent, channel.decode(sent.tensors, Message())["logits"]


def test_half_precision_rounds_each_logit_and_halves_the_bytes():
    logits = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0))
    sent, found = there_and_back(logits, HalfPrecision())
    assert torch.equal(found, logits.half().float())
    assert sent.cost(4).tolist() == [5 * 3 * 2] * 4


def test_quantised_logits_are_within_a_level_and_keep_their_shape():
    logits = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(0))
    sent, found = there_and_back(logits, QSGD(bits=4, chunk=64))
    level = logits.flatten(1).abs().amax(1) / 7
    assert found.shape == logits.shape
    assert bool(((found - logits).flatten(1).abs() < level.unsqueeze(1)).all())
    assert sent.cost(4).tolist() == [32 + 4] * 4


def test_a_step_with_memory_leaves_statistics_as_they_are():
    logits = torch.randn(4, 6, 10)
    sent, found = there_and_back(logits, TopK(fraction=0.1))
    assert torch.equal(found, logits)
    assert sent.tensors.keys() == {"logits"}


def test_a_logit_that_is_not_finite_stays_so():
    logits = torch.zeros(4, 2, 2)
    logits[1, 0, 0] = torch.nan
    _, found = there_and_back(logits, QSGD())
    assert found[1].isnan().any()
    assert not found[0].isnan().any()


@pytest.mark.parametrize("names", [(), ("logits@shape/2xB",), ("logits@shape/1x4", "logits@shape/2x2")])
def test_a_reply_without_one_shape_is_refused(names):
    tensors = {"logits": torch.zeros(1, 4)} | {name: torch.zeros(1, 0) for name in names}
    with pytest.raises(ValueError, match="the shape of logits is missing"):
        decode_statistic("logits", tensors, ())


def test_a_run_counts_the_bytes_of_quantised_logits():
    task = fl.task("digits", clients=3, communal_per_class=2)
    plain, coded = (fl.run(task, Logits(), rounds=2, channel=channel) for channel in ([], [QSGD(bits=8, chunk=200)]))
    assert plain.total("bytes_up") == 2 * 3 * 20 * 10 * 4
    assert coded.total("bytes_up") == 2 * 3 * (20 * 10 + 4)


def test_a_method_of_statistics_refuses_steps_for_updates():
    with pytest.raises(
        FedloomError, match=r"topk acts on updates of a model, and logits sends no .* qsgd and halfprecision act on"
    ):
        fl.run(fl.task("digits", clients=3, communal_per_class=2), Logits(), rounds=1, channel=["topk"])
