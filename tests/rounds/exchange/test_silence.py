"""Silence: the places of clients that send nothing."""

import torch

from fedloom.core.message import Message, Wave
from fedloom.rounds.answers import Answers, Arrived
from fedloom.rounds.exchange.silence import silent_places
from fedloom.rounds.jobs import CohortAnswer, Job


def answers(*flags):
    jobs = [Job("update", 1, [7, 3], [4, 1]), Job("update", 1, [9], [0])]
    cohorts = tuple((job, CohortAnswer({}, {}, {}, silent=flag)) for job, flag in zip(jobs, flags, strict=True))
    wave = Wave([9, 3, 0, 0, 7], Message())
    return Answers(None, wave, cohorts, 5, 1, Arrived([], torch.zeros(0)))  # type: ignore[arg-type]


def test_places_are_those_of_the_wave():
    assert silent_places(answers(torch.tensor([True, False]), torch.tensor([True]))) == [0, 4]
    assert silent_places(answers(None, None)) == []
