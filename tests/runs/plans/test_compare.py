"""Runs that are read for a report: each folder has one, each counts once, and all are of one task."""

from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.plans.compare import histories
from support.synthetic import small_task


def test_a_folder_without_a_run_a_run_named_twice_and_another_task_are_refused(tmp_path):
    one, two, other, empty = (tmp_path / name for name in ("one", "two", "other", "empty"))
    empty.mkdir()
    for folder, task, seed in ((one, small_task(), 0), (two, small_task(), 1), (other, small_task(), 0)):
        fl.run(replace(task, name="t" if folder != other else "u"), "fedavg", rounds=1, seed=seed, out=folder)
    assert [len(runs) for runs in histories([one, two]).values()] == [2]
    with pytest.raises(FedloomError, match=r"there is no run in .*empty: name the folder"):
        histories([one, empty])
    with pytest.raises(FedloomError, match=r"the run .*one is named twice"):
        histories([one, two, one])
    with pytest.raises(FedloomError, match="one is a run of t and other one of u: report the runs of each task apart"):
        histories([one, other])
