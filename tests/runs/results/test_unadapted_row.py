"""Models that people get out of a run with added modules: the task's model alone."""

from __future__ import annotations

import torch

import fedloom as fl
from fedloom.runs.results.unadapted_row import unadapted_row
from support.checkpoints import WORK
from support.synthetic import small_task

HEAD = {"name": "moon", "projection": 6}


def test_the_row_of_a_run_without_added_modules_is_returned_as_it_is():
    row = small_task().initial_row()
    assert unadapted_row(row, small_task(), {"name": "moon"}) is row
    strange = torch.zeros(7)
    assert unadapted_row(strange, small_task(), HEAD) is strange


def test_trained_models_have_no_projection_head(tmp_path):
    task = small_task()
    settings = {"rounds": 1, "local": WORK, "seed": 3}
    history = fl.run(task, fl.MOON(projection=6), **settings)
    stored = fl.run(task, fl.MOON(projection=6), out=tmp_path / "run", **settings)
    assert len(history.row) > task.layout.width
    shared = [run.model(task).state_dict() for run in (history, stored, fl.History.load(tmp_path / "run"))]
    own = history.model(task, client=1).state_dict()
    for tensors in (*shared, own):
        assert tensors.keys() == task.model.state_dict().keys()
        assert all(torch.equal(tensors[name], shared[0][name]) for name in tensors)


def test_a_run_starts_from_the_model_of_a_run_with_a_projection_head(tmp_path):
    task = small_task()
    before = fl.run(task, fl.MOON(projection=6), out=tmp_path / "run", rounds=1, local=WORK, seed=3)
    after = fl.run(task, "fedavg", start_from=str(tmp_path / "run"), rounds=1, local={**WORK, "lr": 1e-12}, seed=3)
    started, ended = before.model(task).state_dict(), after.model(task).state_dict()
    assert all(torch.allclose(started[name], ended[name], atol=1e-5) for name in started)
