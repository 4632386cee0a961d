"""Differences of sums: where clients are drawn they say more than sums; where all take part there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.audits.of_run.play.subject import Subject
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.differences import membership_by_differences
from fedloom.core.errors import FedloomError
from support.audits import TINY

SUMS = {**TINY, "rounds": 6, "task": {"name": "digits", "clients": 8}, "channel": ["securesum"]}
DRAWN = {**SUMS, "selection": {"name": "poisson", "rate": 0.9}, "local": {"batch_size": 0, "lr": 0.1}}


def play(values):
    made = fl.task("digits", clients=8)
    few = replace(made, federation=made.federation.subsample(lambda some: some[:20], 269))
    return membership_by_differences(Trial(Subject(values, lambda _: few), values, 0, values["rounds"]))


def test_sums_that_differ_by_a_client_say_what_it_trained_on():
    found = play(DRAWN)
    assert "differences of sums over 6 rounds" in found.note
    assert found.measures["auc"].least > 0.5


def test_a_run_without_sums_and_one_whose_sums_have_everybody_are_refused():
    with pytest.raises(FedloomError, match="no sums are sent"):
        play({**SUMS, "rounds": 1, "channel": []})
    with pytest.raises(FedloomError, match="no two sums of 2 rounds differ by one client"):
        play({**SUMS, "rounds": 2})
