"""Answers: leaving clients out takes them out of everything at once, and the rest keep their places."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import Abandoned, Diverged
from fedloom.core.kept_rows import KeptRows
from fedloom.core.message import Message, Wave
from fedloom.rounds.answers import Answers, WorkAbandoned
from fedloom.rounds.jobs import CohortAnswer, Job
from fedloom.rounds.round_context import RoundContext
from fedloom.rounds.round_costs import RoundCosts
from fedloom.rounds.run_state import initial_state
from support.silent_clients import prepare_run
from support.synthetic import small_task


class Notes:
    """An engine that only notes who was left out."""

    broken = ()

    def __init__(self):
        self.excluded = []

    def exclude(self, client, name, what, reason):
        self.excluded.append((client, what, reason))


RUN = replace(prepare_run(small_task(), fl.FedAvg(), eval_every=0).composition, quorum=None)
WAVE = Wave([0, 1, 2, 3], Message({"row": torch.zeros(2)}, {"own": torch.arange(4.0)[:, None]}))
JOBS = [Job("update", 1, [2, 0], [2, 0]), Job("update", 1, [3, 1], [3, 1])]


def packed(job):
    numbers = torch.tensor([float(client) for client in job.ids])
    costs = {name: numbers.long() + 1 for name in ("steps", "samples", "bytes")}
    reply = {"row": numbers[:, None].expand(-1, 2).clone()}
    kept = {"head": KeptRows.of_all(numbers[:, None])}
    return CohortAnswer(reply, kept, costs, {"trained/loss": numbers}).pack()


def answers(results=None, run=RUN, **settings):
    round = RoundContext(run, Notes(), initial_state(run), run.context(1), RoundCosts())
    wave = replace(WAVE, **settings)
    needed = 0 if wave.optional else run.answers_needed(len(wave.ids))
    return Answers.collect(round, wave, JOBS, [packed(job) for job in JOBS] if results is None else results, needed)


def test_replies_costs_and_measurements_are_in_the_order_of_the_wave():
    got = answers()
    assert got.reply["row"][:, 0].tolist() == [0, 1, 2, 3]
    assert got.costs["bytes"].tolist() == [1, 2, 3, 4]
    assert got.measured["trained/loss"].tolist() == [0, 1, 2, 3]
    assert got.influence.weights.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])


@given(st.sets(st.integers(0, 3), max_size=2))
def test_whoever_is_left_out_is_in_nothing_that_is_left(places):
    got = answers().without(dict.fromkeys(places, "why not"))
    left = [client for client in range(4) if client not in places]
    assert got.wave.ids == left
    assert got.wave.message["own"].flatten().tolist() == left
    assert got.reply["row"][:, 0].tolist() == left
    assert got.costs["samples"].tolist() == [client + 1 for client in left]
    assert sorted(client for job, _ in got.cohorts for client in job.ids) == left
    assert sorted(float(row) for _, one in got.cohorts for row in one.kept["head"].rows) == left
    assert float(got.influence.weights.sum()) == pytest.approx(1)
    assert sorted(client for client, _, _ in got.round.engine.excluded) == sorted(places)
    assert got.arrived.ids == [2, 0, 3, 1]  # who worked has worked
    replies = got.replies()
    assert replies.ids == left
    assert replies["row"][:, 0].tolist() == left


def test_decoded_replies_lose_the_same_clients():
    got = replace(answers(), decoded={"row": torch.arange(8.0).view(4, 2)}).without({1: "why not"})
    assert got.reply["row"].tolist() == [[0, 1], [4, 5], [6, 7]]


def test_where_too_few_are_left_the_first_reason_is_told():
    with pytest.raises(Diverged, match=r"the replies of 1 of 4 clients count, but 2 are needed \(client 0: a\)"):
        answers().without({1: "b", 0: "a", 2: "c"})
    with pytest.raises(Abandoned, match="3 are needed"):
        answers(run=replace(RUN, quorum=3)).without({0: "a", 1: "b"})


def test_too_few_answers_say_who_worked_all_the_same():
    with pytest.raises(WorkAbandoned, match="2 of 4 clients answered, but 3 are needed") as few:
        answers([packed(JOBS[0]), None], run=replace(RUN, quorum=3))
    assert few.value.arrived.ids == [2, 0]
    assert answers([None, None], optional=True).reply == {}


def test_clients_with_nothing_to_send_are_not_needed():
    quiet, loud = answers(run=replace(RUN, quorum=3)).split([3, 0])
    assert (quiet.wave.ids, loud.wave.ids) == ([0, 3], [1, 2])
    assert loud.needed == 2
    assert loud.round.engine.excluded == []


def test_an_answer_survives_the_way_as_named_tensors():
    answer = CohortAnswer.unpack(packed(JOBS[0]))
    again = CohortAnswer.unpack(replace(answer, silent=torch.tensor([True, False])).pack())
    assert again.silent.tolist() == [True, False]
    assert again.reply.keys() == {"row"}
    assert again.kept.keys() == {"head"}
    assert again.kept["head"].has.tolist() == [True, True]
    assert again.measured.keys() == {"trained/loss"}
