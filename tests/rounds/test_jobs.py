"""Results of jobs: who answered, and in which order."""

from __future__ import annotations

import torch

from fedloom.rounds.jobs import Job, answered_jobs, merge


def result(*clients: int) -> dict[str, torch.Tensor]:
    return {"reply/row": torch.tensor([[float(client)] for client in clients])}


def test_where_everybody_answers_nothing_is_moved():
    jobs = [Job("update", 1, [4, 0], [2, 0]), Job("update", 1, [7], [1])]
    kept, results, places = answered_jobs(jobs, [result(4, 0), result(7)])
    assert kept is jobs
    assert places == [0, 1, 2]
    assert merge(kept, results)["reply/row"].flatten().tolist() == [0, 7, 4]


def test_of_those_who_answer_the_order_stays():
    jobs = [Job("update", 1, [client], [place]) for client, place in ((9, 3), (4, 0), (7, 1), (2, 2))]
    kept, results, places = answered_jobs(jobs, [result(9), None, result(7), None])
    assert places == [1, 3]
    assert [(job.ids, job.places) for job in kept] == [([9], [1]), ([7], [0])]
    assert merge(kept, results)["reply/row"].flatten().tolist() == [7, 9]
    assert [job.places for job in jobs] == [[3], [0], [1], [2]]  # the jobs themselves are as they were


def test_where_nobody_answers_there_is_nothing():
    jobs = [Job("update", 1, [client], [client]) for client in range(3)]
    assert answered_jobs(jobs, [None] * 3) == ([], [], [])
    assert merge([], []) == {}
