"""A round costs what its own clients cost: nothing is computed over all clients in every round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.engines.inline import Inline
from fedloom.rounds.composition import Composition
from fedloom.rounds.evaluation import score_models
from fedloom.rounds.loop import play_round
from fedloom.rounds.participants import Participants
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare

CLIENTS, PER_ROUND = 500, 7


class Watched(Sequence[int]):
    """All clients as a sequence that counts how many of them are looked at and refuses to be walked through."""

    def __init__(self, clients: int) -> None:
        self.clients, self.looked_at = clients, 0

    def __len__(self) -> int:
        return self.clients

    def __getitem__(self, place: Any) -> Any:
        self.looked_at += 1
        return range(self.clients)[place]

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("a round walked through all clients")


def composition(algorithm: Any = None, **values: Any) -> Composition:
    random = np.random.default_rng(0)
    x, y = random.standard_normal((CLIENTS * 4, 3)), random.integers(0, 2, CLIENTS * 4)
    federation = fl.from_arrays(x, y, np.repeat(np.arange(CLIENTS), 4))
    task = fl.task_of(federation, "logistic", normalise=False)
    settings = {"rounds": 5, "selection": {"number": PER_ROUND}, "eval_every": 0, **values}
    return prepare(task, algorithm or fl.FedAvg(), resolve(settings)).composition


def test_who_may_take_part_is_found_once_for_all_rounds():
    run = composition()
    assert run.participants(1) is run.participants(4)
    assert run.participants(1).clients == range(CLIENTS)
    assert run.participants(1).samples is run.participants(2).samples
    assert run.context(3).clients is run.participants(1).clients


def test_a_round_looks_at_the_clients_it_selects_and_at_no_others():
    run = composition()
    watched = Watched(CLIENTS)
    known = run.participants(1)
    counted = Participants(known.federation, watched, known.weigh, known.counted)
    run._participants[id(run.task.federation)] = counted
    counted.__dict__.update(samples=known.samples, shares=known.shares)
    state, engine = initial_state(run), Inline(run.runtime())
    for number in (1, 2, 3):
        record = play_round(run, engine, state)
        assert len(record["selected"]) == PER_ROUND
        assert watched.looked_at == number * PER_ROUND


def test_all_clients_are_weighed_once_and_then_only_those_of_the_round():
    run, weighed = composition(fl.SCAFFOLD()), list[int]()

    def weigh(samples: Tensor, _: Tensor) -> Tensor:
        weighed.append(len(samples))
        return samples / samples.sum()

    run = replace(run, weigh=weigh)
    state, engine = initial_state(run), Inline(run.runtime())
    for _ in range(3):
        play_round(run, engine, state)
    assert sorted(weighed) == [PER_ROUND] * 3 + [CLIENTS]


def test_shares_are_weights_among_all_who_may_take_part():
    run = composition(new_clients=3)
    shares, clients = run.participants(1).shares, run.participants(1).clients
    assert shares[list(run.new_clients)].tolist() == [0, 0, 0]
    assert set(clients) == set(range(CLIENTS)) - set(run.new_clients)
    assert torch.isclose(shares.sum(), torch.tensor(1.0))


def test_scoring_some_clients_measures_the_sizes_of_all_once(monkeypatch):
    calls = []
    monkeypatch.setattr(np, "quantile", lambda values, _: calls.append(len(values)) or (1.0, 2.0))
    run = composition(eval_every=1, eval_clients=5)
    calls.clear()
    state, engine = initial_state(run), Inline(run.runtime())
    for _ in range(3):
        play_round(run, engine, state)
        assert len(score_models(run, engine, state)[1]) == 5
    assert calls == [CLIENTS]
