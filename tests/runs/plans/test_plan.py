"""Runs that belong together share their data in memory, and a stopped one goes on."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.files.formats import SETTINGS
from fedloom.runs.plans.members import Member, RunFactory, folder_name, is_finished, run_member, run_members
from fedloom.runs.plans.plan import load_plan, read_plan, write_plan
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
    runs = RunFactory(of, kept_tasks=2)
    for seed in (0, 1, 0, 2, 1, 0):
        runs.prepare(members[0], seed)
    assert made[2:] == [0, 1, 2, 0]
    assert len(runs.tasks) == 2


def test_a_run_is_started_gone_on_with_or_read(tmp_path):
    task = fl.task_of(federation([9, 6]), mlp())
    member, runs = Member("a", "a", {"method": {"name": "fedavg"}, "rounds": 3}), RunFactory(lambda _: task)
    whole = run_member(tmp_path / "whole", member, 0, nobody, runs)

    def stop(record):
        if record["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_member(tmp_path / "cut", member, 0, lambda *_: [stop], runs)
    assert not is_finished(tmp_path / "cut")
    heard = []
    on = run_member(tmp_path / "cut", member, 0, lambda *_: [lambda record: heard.append(record["round"])], runs)
    assert on.records == whole.records
    assert is_finished(tmp_path / "cut")
    run_member(tmp_path / "cut", member, 0, lambda *_: pytest.fail("a finished run is only read"), runs)


def test_a_plan_is_written_once_and_only_the_same_plan_may_go_on(tmp_path):
    plan = {"grid": {"a.b": (1, 2.0)}, "seeds": 1, "config": {"seed": 0}}
    write_plan(tmp_path / "new", "sweep.toml", plan)
    write_plan(tmp_path / "new", "sweep.toml", plan)
    made_by = {"fedloom": fl.__version__, "format": str(SETTINGS.version)}
    assert read_plan(tmp_path / "new", "sweep.toml") == {
        "grid": {"a.b": [1, 2.0]},
        "seeds": 1,
        "config": {"seed": 0},
        "made_by": made_by,
    }
    with pytest.raises(FedloomError, match="contains another sweep"):
        write_plan(tmp_path / "new", "sweep.toml", {**plan, "config": {"seed": 1}})
    with pytest.raises(FedloomError, match="already contains a sweep"):
        write_plan(tmp_path / "new", "comparison.toml", plan)
    write_plan(tmp_path / "advice", "advice.toml", {"config": {}})
    with pytest.raises(FedloomError, match="already contains advice: "):
        write_plan(tmp_path / "advice", "comparison.toml", plan)
    with pytest.raises(FedloomError, match="give plain values"):
        write_plan(tmp_path / "other", "sweep.toml", {"config": {"rounds": object()}})
    assert not (tmp_path / "other").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(FedloomError, match="cannot be written"):
        write_plan(tmp_path / "file" / "below", "sweep.toml", plan)


def test_a_plan_whose_task_is_an_object_goes_on_in_python_only(tmp_path):
    task = fl.task_of(federation([9, 6]), mlp())
    how = {"methods": ["fedavg", "local"], "rounds": 1, "out": tmp_path}
    first = fl.compare(task, **how)
    with pytest.raises(FedloomError, match="is a Python object"):
        read_plan(tmp_path, "comparison.toml")
    again = fl.compare(task, **how)
    assert [runs[0].records for runs in again.values()] == [runs[0].records for runs in first.values()]


def test_the_plan_of_another_version_is_refused(tmp_path):
    write_plan(tmp_path, "comparison.toml", {"methods": ["fedavg"], "seeds": 1, "config": {}})
    path = tmp_path / "comparison.toml"
    path.write_text(path.read_text().replace(fl.__version__, "0.4.0"))
    with pytest.raises(
        FedloomError, match=r"written by Fedloom 0\.4\.0 and this is .* cannot be resumed: start it again"
    ):
        read_plan(tmp_path, "comparison.toml")


def test_folder_names_have_no_letters_that_a_shell_or_a_path_minds():
    assert folder_name("fedavg+finetune:epochs=2 lr=0.1/x") == "fedavg_finetune_epochs=2_lr=0.1_x"


@pytest.mark.parametrize("content", ["", "methods = 3\nseeds = 1\n[config]\n", "config = 1\nmethods = []\nseeds = 1\n"])
def test_a_plan_without_its_keys_is_one_sentence(tmp_path, content):
    (tmp_path / "comparison.toml").write_text(content)
    with pytest.raises(FedloomError, match=r"comparison\.toml has no '\w+', or not the one of a comparison: restore"):
        load_plan(tmp_path, "comparison.toml")
