"""Membership over rounds: small clients are told, of a sum the sum, with samples of the server's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.audits.of_run.play.subject import OutOfTime, Subject
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes import membership_over_rounds as module
from fedloom.audits.of_run.probes.membership_over_rounds import UpdateQuestions, membership_over_rounds, server_samples
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from support import small_flows
from support.audits import TINY, few_probes, small_audit
from support.synthetic import federation

SMALL = {**TINY, "task": {"name": "digits", "clients": 30}}


def trial_of(values, **more):
    return Trial(Subject(values), values, 0, values["rounds"], **more)


def test_samples_of_clients_with_few_images_are_told_by_their_updates():
    found = membership_over_rounds(trial_of(SMALL))
    assert found.measures["auc"].least > 0.7
    assert found.note == "of 10 single clients, over 2 rounds"


def test_of_a_sum_it_tells_less_and_says_whose_it_is():
    summed = membership_over_rounds(trial_of({**SMALL, "channel": ["securesum"]}))
    assert summed.note == "of the sum of 30 clients, over 2 rounds: the server cannot say who had a sample"
    assert summed.measures["auc"].value < 0.65


def test_the_server_has_samples_that_nobody_trains_on():
    task = fl.task("digits", clients=5)
    own = server_samples(task, 0)
    assert torch.equal(own.sort().values, task.federation.global_test.sort().values)
    assert not len(server_samples(fl.task_of(federation([9, 9], shape=(4,)), "mlp"), 0)), "all of it is trained on"


def test_without_a_global_test_set_the_server_has_half_of_the_test_parts_and_does_not_ask_about_it():
    made = fl.task("digits", clients=5)
    task = replace(made, federation=replace(made.federation, global_test=torch.zeros(0, dtype=torch.int64)))
    own, questions = server_samples(task, 0), UpdateQuestions(0)
    seen, _ = updates_of_run(task, "fedavg", rounds=1, eval_every=0)
    questions.put(task, seen)
    assert len(own) == -(-len(task.federation.test.order) // 2)
    assert len(questions.asked) == 5
    assert not bool(torch.isin(torch.cat(list(questions.asked.values())), own).any())
    assert questions.outcome("").measures["auc"].value > 0.5


def test_the_paragraph_says_of_one_attacker_what_it_rebuilds_and_what_it_tells(monkeypatch):
    few_probes(monkeypatch, names=("linearleak", "membership over rounds"))
    text = str(small_audit(SMALL))
    assert "reads training samples out of the update" in text
    assert "tells whether somebody's sample was trained on, by all updates: of two samples, one of which" in text


def test_tokens_have_no_gradients_of_single_samples():
    task = small_flows.task()
    with pytest.raises(FedloomError, match="taken of inputs of numbers"):
        membership_over_rounds(Trial(Subject(TINY, lambda _: task), TINY, 0, 1))


def test_an_update_under_another_name_is_asked_like_a_model():
    plain, scaffold = (
        membership_over_rounds(trial_of({**SMALL, "rounds": 1, "method": {"name": name}}))
        for name in ("fedavg", "scaffold")
    )
    assert plain.measures["auc"].value == pytest.approx(scaffold.measures["auc"].value, abs=0.01)


def test_what_has_no_time_no_room_or_no_model_to_ask_ends(monkeypatch):
    with pytest.raises(FedloomError, match="fedproto sends no update of a model"):
        membership_over_rounds(trial_of({**SMALL, "rounds": 1, "method": {"name": "fedproto"}}))
    with pytest.raises(OutOfTime):
        membership_over_rounds(trial_of(SMALL, left=lambda: 0.0))
    monkeypatch.setattr(module, "NUMBERS", 50_000)
    with pytest.raises(FedloomError, match="the model is too large"):
        membership_over_rounds(trial_of(SMALL))
