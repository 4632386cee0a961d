"""A run that goes on for more rounds is the run that was started with them, to the byte, or it is refused."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.command_line import output
from support.folders import stop_after, written


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=0.3)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {}),
        ("fedper+finetune", {"eval_every": 3, "selection": {"number": 2}}),
        (
            "scaffold",
            {
                "local": {"accumulate": 2, "warmup": 3, "round_schedule": "linear", "round_decay": 0.1},
                "server_optimizer": {"kind": "yogi", "schedule": "step", "lr_decay": 0.5, "warmup": 1},
            },
        ),
        ("fedprox", {"local": {"optimizer": "torch.optim:NAdam", "lr": 0.01}}),
        ("fedyogi", {"checkpoint_every": 3, "local": {"schedule": "exponential", "lr_decay": 0.9}}),
    ],
)
def test_a_run_goes_on_to_the_bytes_of_a_longer_one(method, settings, task, tmp_path):
    long = fl.run(task, method, rounds=5, seed=1, out=tmp_path / "long", **settings)
    fl.run(task, method, rounds=2, seed=1, out=tmp_path / "short", **settings)
    gone_on = fl.resume(tmp_path / "short", rounds=5)
    assert written(tmp_path / "short") == written(tmp_path / "long")
    assert gone_on.records == long.records


def test_more_rounds_of_a_run_that_was_never_scored_play_no_round_again(task, tmp_path):
    """Its last round was not evaluated for being the last, so that a longer run has the same."""
    fl.run(task, rounds=2, eval_every=0, out=tmp_path / "short")
    fl.resume(tmp_path / "short", rounds=3)
    fl.run(task, rounds=3, eval_every=0, out=tmp_path / "long")
    assert written(tmp_path / "short") == written(tmp_path / "long")
    assert len((tmp_path / "short" / "timings.jsonl").read_text().splitlines()) == 3  # a line for every round played


def test_a_run_that_was_stopped_goes_on_further_too_and_a_second_stop_is_no_matter(task, tmp_path):
    fl.run(task, rounds=5, out=tmp_path / "long")
    with pytest.raises(KeyboardInterrupt):
        fl.run(task, rounds=3, out=tmp_path / "short", observers=[stop_after(2)])
    with pytest.raises(KeyboardInterrupt):
        fl.resume(tmp_path / "short", rounds=5, observers=[stop_after(4)])
    fl.resume(tmp_path / "short")
    assert written(tmp_path / "short") == written(tmp_path / "long")


def test_the_command_line_goes_on_as_python_does(task, tmp_path):
    for name in ("python", "shell"):
        fl.run(task, rounds=1, out=tmp_path / name)
    fl.resume(tmp_path / "python", rounds=2)
    output(app, "resume", tmp_path / "shell", "--rounds", "2", "--quiet")
    assert written(tmp_path / "shell") == written(tmp_path / "python")


@pytest.mark.parametrize(
    ("method", "settings", "reason"),
    [
        ("fedavg", {"local": {"schedule": "cosine", "lr_decay": 0.1}}, "the learning-rate schedule cosine"),
        ("fedavg", {"local": {"schedule": "onecycle"}}, "the learning-rate schedule onecycle"),
        ("fedavg", {"server_optimizer": {"schedule": "cosine", "lr_decay": 0.1}}, "the learning-rate schedule cosine"),
        ("fedavg+fedpredict", {}, "FedPredict"),
    ],
)
def test_where_the_number_of_rounds_matters_a_run_is_not_prolonged(method, settings, reason, task, tmp_path):
    fl.run(task, method, rounds=1, out=tmp_path / "a", **settings)
    before = written(tmp_path / "a")
    with pytest.raises(FedloomError, match=f"{reason} depends on the number of rounds"):
        fl.resume(tmp_path / "a", rounds=2)
    assert written(tmp_path / "a") == before


def test_a_run_cannot_have_fewer_rounds_than_it_has(task, tmp_path):
    fl.run(task, rounds=2, out=tmp_path / "a")
    with pytest.raises(FedloomError, match="rounds=1: the run has 2 rounds already"):
        fl.resume(tmp_path / "a", rounds=1)


def test_other_data_are_refused_before_anything_is_written(task, tmp_path):
    fl.run(task, rounds=1, out=tmp_path / "a")
    before = written(tmp_path / "a")
    with pytest.raises(FedloomError, match="other data"):
        fl.resume(tmp_path / "a", task=fl.task("digits", clients=4, alpha=0.3, seed=1), rounds=2)
    assert written(tmp_path / "a") == before
