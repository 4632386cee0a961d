"""A vocabulary that an update gives away, beside the usual one; and no table, no vocabulary."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run.play.subject import Subject
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.probe import Measure
from fedloom.audits.of_run.probes.vocabulary_of_update import beyond_usual, vocabulary_of_update
from fedloom.core.errors import FedloomError
from support import small_flows
from support.audits import TINY, few_probes, small_audit

FLOWS = {**TINY, "local": {"lr": 0.1, "batch_size": 8, "epochs": 1}}
NOISE = {"name": "localnoise", "noise": 2.0, "clip": 0.5}


def test_an_update_lists_what_an_organisation_uses_a_sum_what_all_use_and_noise_nothing():
    task = small_flows.task()
    alone, summed, noisy = (
        vocabulary_of_update(Trial(Subject(values, lambda _: task), values, 0, 1))
        for values in (FLOWS, {**FLOWS, "channel": ["securesum"]}, {**FLOWS, "channel": [{**NOISE, "seeded": True}]})
    )
    assert alone.note == "of 3 single clients"
    assert alone.measures["named"].value > 0.95
    assert alone.measures["named"].value > alone.measures["usual"].value
    assert summed.note == "of the sum of 3 clients"
    assert summed.measures["named"].value > 0.95
    assert beyond_usual(noisy.measures) < 0.1 < beyond_usual(alone.measures)


def test_only_what_is_above_the_usual_list_is_bad():
    def badness(named, usual):
        return beyond_usual({"named": Measure(named), "usual": Measure(usual)})

    assert badness(1.0, 0.6) == 1.0
    assert badness(0.8, 0.6) == pytest.approx(0.5)
    assert badness(0.5, 0.6) == badness(1.0, 1.0) == 0.0


def test_a_model_without_tables_is_refused_and_the_paragraph_has_both_lists(monkeypatch):
    with pytest.raises(FedloomError, match="has no table of tokens"):
        vocabulary_of_update(Trial(Subject(TINY), TINY, 0, 1))
    few_probes(monkeypatch, names=("vocabulary of an update",))
    task = small_flows.task()
    text = str(small_audit(FLOWS, task_of=lambda _: task))
    assert "lists the actions, modules or words that somebody uses: " in text
    assert "of as long a list of what is usual" in text
