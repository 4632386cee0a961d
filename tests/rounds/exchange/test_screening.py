"""A client that diverges is named, left out and counted; the run continues with the others, and stops with too few."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
import torch
from pydantic import AllowInfNan

import fedloom as fl
from fedloom.core.message import Message, Wave
from fedloom.core.selector import Choice
from fedloom.rounds.screen import Divergence, Influence, clip_changes
from support.folders import written
from support.silent_clients import play_run, prepare_run
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
SIZES = [20, 9, 14, 31]


@dataclass(frozen=True)
class Wild(fl.FedAvg):
    """FedAvg some of whose clients reply with a row of one number in round 2; what they keep is as bad."""

    clients: tuple[int, ...] = (1,)
    number: Annotated[float, AllowInfNan()] = float("nan")

    def client_update(self, cohort, message):
        rows = cohort.train(cohort.spread(message["row"]))
        wild = torch.tensor([[cohort.round == 2 and client in self.clients] for client in cohort.ids])
        kept = torch.tensor([[float(client)] for client in cohort.ids])
        cohort.keep("mark", torch.where(wild, torch.full_like(kept, self.number), kept + cohort.round))
        return fl.Reply({"row": torch.where(wild, torch.full_like(rows, self.number), rows)})


def task():
    return fl.Task("own", federation(SIZES), mlp())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 1e29, 1e5])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_client_that_diverges_is_left_out_and_named_and_its_state_stays(number, workers, tmp_path):
    settings = {"rounds": 3, "local": WORK, "out": tmp_path / "wild", "workers": workers}
    history = fl.run(task(), Wild(number=number), **settings)
    assert history.stopped is None
    assert [record["selected"] for record in history.records[1:]] == [[0, 1, 2, 3], [0, 2, 3], [0, 1, 2, 3]]
    (one,) = history.records[2]["excluded"]
    assert (one["client"], one["name"], one["what"]) == (1, "1", "update")
    assert "reply/row" in one["reason"]
    assert all("excluded" not in history.records[number] for number in (0, 1, 3))
    others = prepare_run(task(), Wild(clients=()), seed=0, local=WORK)
    chosen = {2: Choice([0, 2, 3])}
    composition = others.composition
    object.__setattr__(composition, "select", lambda pool: chosen.get(pool.round, Choice([0, 1, 2, 3])))
    expected = play_run(others)
    assert torch.allclose(history.row, expected.row, atol=1e-5)


def test_a_run_without_divergence_does_not_know_of_the_screen(tmp_path):
    fl.run(task(), "fedavg", rounds=2, local=WORK, out=tmp_path / "one")
    lines = [json.loads(line) for line in (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()]
    assert all("excluded" not in line for line in lines)
    fl.run(task(), Wild(clients=()), rounds=2, local=WORK, out=tmp_path / "two")
    one, two = (written(tmp_path / name) for name in ("one", "two"))
    assert one["metrics.jsonl"] == two["metrics.jsonl"]


def test_where_too_few_remain_the_run_stops_with_the_reason_and_the_model_before(tmp_path):
    with pytest.warns(fl.StoppedWarning):
        history = fl.run(task(), Wild(clients=(0, 1, 2)), rounds=3, local=WORK, out=tmp_path / "run")
    assert history.stopped == (
        "wild diverged in round 2: the replies of 1 of 4 clients count, but 2 are needed (client 0: reply/row has "
        "numbers that are not finite); try a learning rate below 0.1 or a gradient clip."
    )
    assert [record["round"] for record in history.records] == [0, 1]
    half = fl.run(task(), Wild(clients=(0, 1)), rounds=3, local=WORK)
    assert half.stopped is None
    assert len(half.records[2]["excluded"]) == 2


def test_an_aggregator_that_needs_more_stops_earlier():
    with pytest.warns(fl.StoppedWarning):
        history = fl.run(task(), Wild(clients=(0, 1)), rounds=3, local=WORK, aggregation="median")
    assert "but 3 are needed" in history.stopped


SAY = Influence(torch.full((3,), 10), torch.full((3,), 1 / 3))


def test_a_clipped_change_is_a_part_of_itself_and_the_others_keep_their_bytes():
    row = torch.tensor([1.0, 2.0])
    wave, replies = Wave([0, 1], Message({"row": row})), {"row": torch.tensor([[5.0, 2.0], [0.1, 0.7]])}
    found = clip_changes(fl.FedAvg(), wave, replies, {"row": torch.tensor([0.25, 1.0])})["row"]
    assert found[0].tolist() == [2.0, 2.0]
    assert torch.equal(found[1], replies["row"][1])
    assert replies["row"][0].tolist() == [5.0, 2.0]


def test_a_change_explodes_only_beside_the_others_and_the_model_it_changed():
    row = torch.ones(4)  # of norm 2
    wave = Wave([0, 1, 2], Message({"row": row}))

    def refused(*moved: float) -> list[int]:
        rows = torch.stack([row + amount * torch.tensor([1.0, 0, 0, 0]) for amount in moved])
        return list(Divergence(10).judge(fl.FedAvg(), wave, {"row": rows}, SAY, {}).refused)

    assert refused(1e-9, 1e-9, 19.0) == []  # within ten models
    assert refused(1e-9, 1e-9, 21.0) == [2]
    assert refused(21.0, 21.0, 21.0) == []  # everybody moves as far
    assert refused(21.0, 21.0, 211.0) == [2]


def test_what_an_adversary_sends_is_for_the_aggregator_and_not_for_the_screen():
    attack = {"name": "signflipping", "clients": [1], "scale": 1e6}
    history = fl.run(task(), "fedavg", rounds=1, local=WORK, adversary=attack, eval_every=0)
    assert "excluded" not in history.records[-1]


def test_a_client_whose_model_has_no_loss_is_left_out_of_the_scores():
    @dataclass(frozen=True)
    class Overflow(fl.FedAvg):
        def weights_for(self, message, cohort):
            rows = cohort.spread(message["row"])
            hurt = torch.tensor([[client == 2] for client in cohort.ids])
            return torch.where(hurt, rows * 1e30, rows)

    history = fl.run(task(), Overflow(), rounds=1, local=WORK)
    assert history.stopped is None
    assert [row["client"] for row in history.clients] == [0, 1, 3]
    assert [(one["client"], one["what"]) for one in history.records[-1]["excluded"]] == [(2, "score")]
