"""Asking for a sum: what is given up after clients have worked is counted all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.core.errors import Abandoned
from fedloom.engines.inline import Inline
from fedloom.rounds.loop import play_round
from fedloom.rounds.run_state import initial_state
from support.silent_clients import prepare_run
from support.synthetic import small_task

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

NOISE = {"name": "privatesum", "noise": 4.0, "clip": 0.5, "seeded": True}


def test_a_sum_with_an_impossible_weight_is_given_up_and_what_its_clients_spent_is_counted(monkeypatch):
    run = prepare_run(small_task(), fl.FedAvg(), channel=[NOISE], eval_every=0).composition
    state, decode = initial_state(run), fl.PrivateSum.decode_total
    monkeypatch.setattr(fl.PrivateSum, "decode_total", lambda *given: replace(decode(*given), weight=0))
    with pytest.raises(Abandoned, match="has a weight of 0"):
        play_round(run, Inline(run.runtime()), state)
    assert state.uses["sum"].tolist() == [1, 1, 1, 1]
    assert state.round == 0
