"""Mistakes in a method of one's own: each is refused in the round in which it is made, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.synthetic import small_task


@dataclass(frozen=True)
class Mistaken(fl.FedAvg):
    """FedAvg with a mistake."""

    mistake: str = ""

    def start(self, task):
        state = super().start(task)
        return {**state, "rate": 0.1} if self.mistake == "number" else {**state, "known": torch.zeros(3)}

    def client_update(self, cohort, message):
        rows = super().client_update(cohort, message).tensors["row"]
        return {"tensors": rows, "one row": fl.Reply({"row": rows[0]}), "plain reply": fl.Reply({"row": 1.0})}.get(
            self.mistake, fl.Reply({"row": rows})
        )

    def aggregate(self, server, replies):
        row = replies.mean("row")
        return {
            "nothing": None,
            "double": {**server, "row": row.double()},
            "matrix": {**server, "row": replies["row"]},
            "narrow": {**server, "row": row[:-1]},
            "type": {**server, "known": torch.zeros(3, dtype=torch.int64)},
            "lost": {"row": row},
            "grown": {**server, "row": row, "known": torch.zeros(len(server["known"]) + 1)},
        }.get(self.mistake, {**server, "row": row})


MISTAKES = {
    "number": "'rate' of the server's state is a value of type float: make it a tensor",
    "tensors": "client_update returned a value of type Tensor",
    "one row": r"'row' of the reply has shape \(\d+,\) for . clients: give one entry per client",
    "plain reply": "'row' of the reply is a value of type float",
    "nothing": "the server's state is None: return a dict of tensors",
    "double": r"'row' of the server's state was float32 and is float64 .*tensor.to\(torch.float32\)",
    "matrix": r"'row' of the server's state had shape \(421,\) and has shape \(4, 421\)",
    "narrow": r"has shape \(420,\)",
    "type": "'known' of the server's state was float32 and is int64",
    "lost": "lost 'known' in the round",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence(mistake):
    with pytest.raises(FedloomError, match=MISTAKES[mistake]) as caught:
        fl.run(small_task(), Mistaken(mistake=mistake), rounds=2, eval_every=0)
    assert str(caught.value).startswith("Mistaken")
    assert "\n" not in str(caught.value)


def test_what_the_server_knows_of_clients_or_clusters_may_grow():
    assert fl.run(small_task(), Mistaken(mistake="grown"), rounds=3, eval_every=0).row is not None


@dataclass(frozen=True)
class AsksTwice(fl.FedAvg):
    """Lets clients train on from their mean."""

    def play(self, server, ids, context):
        first = yield fl.Wave(ids, fl.Message({"row": server["row"]}))
        second = yield fl.Wave(ids, fl.Message({"row": first.mean("row")}), turn=1)
        return self.aggregate(server, second)


@dataclass(frozen=True)
class SaysSo(AsksTwice):
    """The same, and says how often it asks."""

    turns = 2


def test_a_method_says_how_often_it_asks_a_client_in_a_round():
    with pytest.raises(FedloomError, match=r"AsksTwice sends a wave with turn=1, and declares turns = 1: .* turns = 2"):
        fl.run(small_task(), AsksTwice(), rounds=1)
    assert fl.run(small_task(), SaysSo(), rounds=1).records[-1]["round"] == 1
