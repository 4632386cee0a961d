"""``fl.resume``: a run or a comparison goes on, also further than planned."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.command_line import output
from support.folders import stop_after, written
from support.synthetic import federation, mlp

pytestmark = pytest.mark.usefixtures("without_report")


def digits() -> fl.Task:
    return fl.task("digits", clients=4, alpha=0.5)


def test_a_comparison_goes_on_after_a_stop_and_then_further(tmp_path):
    whole = fl.compare(digits(), ["fedavg", "local"], rounds=3, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fl.compare(digits(), ["fedavg", "local"], rounds=2, out=tmp_path / "cut", observers=[stop_after(1)])
    stopped = fl.resume(tmp_path / "cut")
    assert [runs[0].records[-1]["round"] for runs in stopped.values()] == [2, 2]
    further = fl.resume(tmp_path / "cut", rounds=3)
    assert isinstance(further, fl.Comparison)
    assert further == whole
    assert written(tmp_path / "cut") == written(tmp_path / "whole")


def test_the_command_line_takes_a_comparison_further(tmp_path):
    for name, rounds in (("whole", 2), ("short", 1)):
        fl.compare(digits(), ["fedavg"], rounds=rounds, out=tmp_path / name)
    output(app, "resume", tmp_path / "short", "--rounds", "2", "--quiet")
    assert written(tmp_path / "short") == written(tmp_path / "whole")


def test_a_comparison_of_a_task_object_gets_it_again(tmp_path):
    own = fl.task_of(federation([30, 20, 10]), mlp())
    with pytest.raises(KeyboardInterrupt):
        fl.compare(own, ["fedavg", "local"], rounds=2, out=tmp_path / "c", observers=[stop_after(1)])
    with pytest.raises(FedloomError, match="is a Python object"):
        fl.resume(tmp_path / "c")
    assert list(fl.resume(tmp_path / "c", task=own)) == ["fedavg", "local"]


def test_what_does_not_fit_the_folder_is_refused(tmp_path):
    fl.compare(digits(), ["fedavg"], rounds=1, out=tmp_path / "c")
    fl.run(digits(), rounds=1, out=tmp_path / "r")
    fl.sweep(digits(), grid={"local.lr": [0.1]}, rounds=1, out=tmp_path / "s")
    for call, message in (
        (lambda: fl.resume(tmp_path / "c", engine="inline"), "this is a comparison"),
        (lambda: fl.resume(tmp_path / "r", task=lambda _: digits()), "task is a function of the seed"),
        (lambda: fl.resume(tmp_path / "s"), "contains a sweep: repeat the Python call"),
        (lambda: fl.resume(tmp_path / "nothing"), "is not the folder of a run"),
    ):
        with pytest.raises(FedloomError, match=message):
            call()
