"""What is audited is the beginning of the run as it is configured, and not a shorter run."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.audits.of_run.play.subject import OutOfTime, Subject
from support.audits import TINY


def test_the_whole_run_is_the_run():
    played = Subject(TINY).play(TINY, 0, 2)
    history = fl.run(fl.task("digits", clients=4), "fedavg", rounds=2)
    assert torch.equal(played.row, history.row)
    assert played.score == history.last("global_model/global_test/accuracy")
    assert played.total("bytes_up") == history.total("bytes_up")


def test_its_beginning_keeps_the_schedule_of_all_rounds():
    local = {"schedule": "cosine", "lr_decay": 0.1}
    falling = {**TINY, "rounds": 4, "local": local}
    shorter = fl.run(fl.task("digits", clients=4), "fedavg", rounds=2, local=local)
    assert not torch.equal(Subject(falling).play(falling, 0, 2).row, shorter.row)


def test_its_beginning_is_the_beginning_of_the_run():
    plain = {**TINY, "rounds": 4}
    whole = fl.run(fl.task("digits", clients=4), "fedavg", rounds=2)
    assert torch.equal(Subject(plain).play(plain, 0, 2).row, whole.row)


@pytest.mark.slow
def test_noise_is_planned_for_all_rounds_and_comes_from_the_seed():
    private = {**TINY, "rounds": 5, "sample_privacy": {"epsilon": 8.0}}
    subject = Subject(private)
    settings, prepared = subject.settings(private)
    assert settings["sample_privacy"].noise == prepared.config.sample_privacy.noise
    assert settings["sample_privacy"].seeded
    assert not prepared.config.sample_privacy.seeded
    one, same = (subject.play(settings, 0, 1) for _ in range(2))
    assert torch.equal(one.row, same.row)


def test_a_run_ends_when_there_is_no_time():
    with pytest.raises(OutOfTime):
        Subject(TINY).play(TINY, 0, 2, over=lambda: True)


def test_a_run_that_diverges_says_so():
    wild = {**TINY, "rounds": 5, "local": {"lr": 1e30}}
    played = Subject(wild).play(wild, 0, 5)
    assert "diverged" in played.diverged
