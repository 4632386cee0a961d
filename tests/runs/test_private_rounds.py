"""What a private run has spent is counted over all stops, whenever they come."""

import shutil

import pytest

import fedloom as fl
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.sampling import EveryClient
from fedloom.runs import runner
from fedloom.runs.folder.begun_rounds import BEGUN
from support.folders import stop_after, written

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

MEAN = {"aggregation": {"name": "privatemean", "noise": 1.0, "clip": 0.5}}
LOCAL = {"channel": [{"name": "localnoise", "noise": 4.0, "clip": 0.5}]}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4)


def stopped_run(task, folder, at, **settings):
    """A run of three rounds that is stopped after the record of a round, before its checkpoint."""
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, rounds=3, eval_every=0, out=folder, observers=[stop_after(at)], **settings)


def spent(history):
    return history.records[-1]["metrics"]["privacy/epsilon"]


def of_rounds(number):
    return epsilon_after(EveryClient(), 1.0, number, 1e-5)


@pytest.mark.parametrize("at", [1, 3])
def test_a_resume_that_is_killed_after_it_cut_the_records_loses_no_count(task, tmp_path, monkeypatch, at):
    stopped_run(task, tmp_path / "run", at, **MEAN)
    usual = runner.recover

    def killed(*args):
        usual(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "recover", killed)
        with pytest.raises(KeyboardInterrupt):
            fl.resume(tmp_path / "run", task=task)
    assert spent(fl.resume(tmp_path / "run", task=task)) == of_rounds(4)


def test_a_round_that_began_and_has_no_record_is_counted(task, tmp_path, monkeypatch):
    """Its noise was drawn, and what it made may have been seen."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fedloom.rounds.loop._optimize", killed)
        with pytest.raises(KeyboardInterrupt):
            fl.run(task, rounds=2, eval_every=0, out=tmp_path / "run", **MEAN)
    assert spent(fl.resume(tmp_path / "run", task=task)) == of_rounds(3)


def test_stops_one_after_the_other_are_all_counted(task, tmp_path):
    stopped_run(task, tmp_path / "run", 2, **MEAN)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fl.resume(tmp_path / "run", task=task, observers=[stop_after(2)])
    assert spent(fl.resume(tmp_path / "run", task=task)) == of_rounds(6)


def test_noise_of_clients_is_counted_in_the_same_way(task, tmp_path):
    whole = fl.run(task, rounds=5, eval_every=0, **LOCAL)
    stopped_run(task, tmp_path / "run", 1, **LOCAL)
    with pytest.raises(KeyboardInterrupt):
        fl.resume(tmp_path / "run", task=task, observers=[stop_after(1)])
    history = fl.resume(tmp_path / "run", task=task)
    name = "privacy/local_epsilon"
    assert history.records[-1]["metrics"][name] == whole.records[-1]["metrics"][name]


@pytest.mark.parametrize("settings", [MEAN, LOCAL])
@pytest.mark.parametrize("left", [None, 0, 1])
def test_a_lost_or_cut_count_is_refused_however_often_it_is_tried(task, tmp_path, settings, left):
    stopped_run(task, tmp_path / "run", 2, **settings)
    path = tmp_path / "run" / BEGUN
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    if left is not None:
        path.write_bytes(b"".join(lines[:left]))
    for _ in range(2):
        with pytest.raises(fl.FedloomError, match="not known what this run has spent of its clients' privacy"):
            fl.resume(tmp_path / "run", task=task)


def test_a_cut_count_is_refused_also_where_the_records_are_lost_too(task, tmp_path):
    fl.run(task, rounds=2, eval_every=0, out=tmp_path / "run", **MEAN)
    path = tmp_path / "run" / BEGUN
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(fl.FedloomError, match="not known what this run has spent"):
        fl.resume(tmp_path / "run", task=task)


def test_a_seeded_run_tells_the_same_again_and_counts_it_once(task, tmp_path):
    seeded = {"aggregation": {**MEAN["aggregation"], "seeded": True}}
    fl.run(task, rounds=3, eval_every=0, out=tmp_path / "whole", **seeded)
    stopped_run(task, tmp_path / "run", 2, **seeded)
    fl.resume(tmp_path / "run", task=task)
    assert written(tmp_path / "run") == written(tmp_path / "whole")
    assert not (tmp_path / "run" / BEGUN).exists()


def test_a_private_run_that_fails_in_its_first_round_leaves_its_folder_free(task, tmp_path, monkeypatch):
    def fails(*_):
        raise fl.FedloomError("no")

    monkeypatch.setattr("fedloom.rounds.loop._optimize", fails)
    with pytest.raises(fl.FedloomError, match="no"):
        fl.run(task, rounds=1, eval_every=0, out=tmp_path / "run", **MEAN)
    assert list((tmp_path / "run").glob("*.json*")) == []


def test_a_run_without_noise_has_no_count(task, tmp_path):
    fl.run(task, rounds=1, eval_every=0, out=tmp_path / "run")
    assert not (tmp_path / "run" / BEGUN).exists()


@pytest.mark.parametrize("eval_every", [0, 2])
@pytest.mark.parametrize("settings", [MEAN, LOCAL])
def test_more_rounds_of_a_private_run_play_no_round_again(task, tmp_path, settings, eval_every):
    fl.run(task, rounds=3, eval_every=eval_every, out=tmp_path / "run", **settings)
    shutil.copytree(tmp_path / "run", tmp_path / "before")
    history = fl.resume(tmp_path / "run", task=task, rounds=4)
    began = (tmp_path / "run" / BEGUN).read_bytes().splitlines()
    assert len(began) == 4
    before = (tmp_path / "before" / "metrics.jsonl").read_bytes()
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes().startswith(before)
    assert [record["round"] for record in history.records if record["round"]] == [1, 2, 3, 4]


def test_what_a_method_trains_before_round_1_is_not_forgotten(task, tmp_path):
    """How much that was is not known after a stop, so the run starts anew; with a checkpoint it is in the state."""
    settings = {"method": "fedseq:min_samples=30,max_clients=2,pretrain_epochs=2", "sample_privacy": {"noise": 2.0}}
    for at in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            fl.run(task, rounds=3, eval_every=0, out=tmp_path / str(at), observers=[stop_after(at)], **settings)
    with pytest.raises(fl.FedloomError, match="its method has asked clients before round 1"):
        fl.resume(tmp_path / "1", task=task)
    whole = fl.run(task, rounds=4, eval_every=0, **settings).last("privacy/sample_epsilon")
    assert fl.resume(tmp_path / "2", task=task).last("privacy/sample_epsilon") == whole
