"""Membership in an update: an overfitted client gives its samples away, and an AUC comes with its error."""

from __future__ import annotations

import pytest
import torch

from fedloom.attacks.measures.guesses import judge_guesses
from fedloom.audits.of_run.play.subject import Subject
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.membership import auc_variance, membership_of_update
from support.audits import TINY


def test_an_overfitted_client_is_told_from_its_update_and_a_sum_from_nobodys():
    overfit = {**TINY, "task": {"name": "digits", "clients": 20}, "local": {"epochs": 20, "lr": 0.3, "batch_size": 8}}
    alone, summed = (
        membership_of_update(Trial(Subject(values), values, 0, 1))
        for values in (overfit, {**overfit, "channel": ["securesum"]})
    )
    assert alone.measures["auc"].least > 0.55
    assert "single clients" in alone.note
    assert "of the sum of 20 clients" in summed.note
    assert summed.measures["auc"].value < alone.measures["auc"].value


def test_the_error_of_an_auc_is_that_of_many_repetitions():
    draw = torch.Generator().manual_seed(0)
    found = [judge_guesses(torch.randn(40, generator=draw) + 0.5, torch.randn(30, generator=draw)) for _ in range(400)]
    spread = torch.tensor([one.auc for one in found]).var()
    expected = sum(map(auc_variance, found)) / len(found)
    assert expected == pytest.approx(float(spread), rel=0.15)
