"""Runs that belong together share their data in memory, and a stopped one goes on."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.plans.plan import (
    Member,
    RunFactory,
    as_read,
    begin,
    folder_name,
    is_finished,
    run_member,
    run_members,
)
from support.synthetic import federation, mlp


def nobody(*_):
    return ()


def test_runs_on_the_same_data_share_one_task_and_only_the_newest_stay():
    made = []

    def of(seed):
        made.append(seed)
        return fl.task_of(federation([9, 6]), mlp())

    members = [Member(name, name, {"method": {"name": name}, "rounds": 1}) for name in ("fedavg", "local")]
    run_members(None, members, [0, 1], nobody, RunFactory(of))
    assert made == [0, 1]
    workshop = RunFactory(of, remembers=2)
    for seed in (0, 1, 0, 2, 1, 0):
        workshop.ready(members[0], seed)
    assert made[2:] == [0, 1, 2, 0]
    assert len(workshop.tasks) == 2


def test_a_run_is_started_gone_on_with_or_read(tmp_path):
    task = fl.task_of(federation([9, 6]), mlp())
    member, workshop = Member("a", "a", {"method": {"name": "fedavg"}, "rounds": 3}), RunFactory(lambda _: task)
    whole = run_member(tmp_path / "whole", member, 0, nobody, workshop)

    def stop(record):
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_member(tmp_path / "cut", member, 0, lambda *_: [stop], workshop)
    assert not is_finished(tmp_path / "cut")
    heard = []
    on = run_member(tmp_path / "cut", member, 0, lambda *_: [lambda record: heard.append(record["round"])], workshop)
    assert on.records == whole.records
    assert is_finished(tmp_path / "cut")
    run_member(tmp_path / "cut", member, 0, lambda *_: pytest.fail("a finished run is only read"), workshop)


def test_a_plan_is_compared_as_it_will_be_read(tmp_path):
    plan = {"grid": {"a.b": (1, 2.0)}, "config": {"seed": 0}}
    begin(tmp_path / "new", "plan.toml", plan)
    assert as_read(plan) == {"grid": {"a.b": [1, 2.0]}, "config": {"seed": 0}}
    with pytest.raises(FedloomError, match="give plain values"):
        begin(tmp_path / "other", "plan.toml", {"config": object()})
    assert not (tmp_path / "other").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(FedloomError, match="cannot be written"):
        begin(tmp_path / "file" / "below", "plan.toml", plan)


def test_folder_names_have_no_letters_that_a_shell_or_a_path_minds():
    assert folder_name("fedavg+finetune:epochs=2 lr=0.1/x") == "fedavg_finetune_epochs=2_lr=0.1_x"
