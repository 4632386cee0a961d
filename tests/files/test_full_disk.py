"""A full disk is one sentence, and with room again the run ends in the bytes that it would have had."""

from __future__ import annotations

import errno
import os

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError, unwritable
from fedloom.files.full_disk import explain_full_disk
from fedloom.runs import runner
from support.synthetic import small_task


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("writer", ["save_checkpoint", "append_record", "write_results"])
def test_a_run_that_finds_the_disk_full_goes_on_to_the_same_bytes(writer, tmp_path, monkeypatch):
    whole = fl.run(small_task(), "fedavg", rounds=3, out=tmp_path / "whole")
    write, calls = getattr(runner, writer), []

    def write_until_full(*given):
        calls.append(given)
        if len(calls) >= (1 if writer == "write_results" else 2):
            raise full()
        return write(*given)

    monkeypatch.setattr(runner, writer, write_until_full)
    with pytest.raises(
        FedloomError, match=r"run: No space left on device; make room, then fedloom resume .*run continues"
    ):
        fl.run(small_task(), "fedavg", rounds=3, out=tmp_path / "run")
    monkeypatch.setattr(runner, writer, write)
    again = fl.resume(tmp_path / "run", task=small_task())
    assert again.records == whole.records
    last = "checkpoints/round-000003.safetensors"
    assert (tmp_path / "run" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(PermissionError), explain_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(OSError, match="No space"), explain_full_disk(None):
        raise full()


def test_the_advice_for_a_file_depends_on_the_reason():
    assert str(unwritable("a.csv", full(), "name another")) == (
        "a.csv cannot be written (No space left on device): make room."
    )
    denied = PermissionError(errno.EACCES, "Permission denied")
    assert str(unwritable("a.csv", denied, "name another")) == (
        "a.csv cannot be written (Permission denied): name another."
    )


def test_a_full_disk_of_a_deployments_server_names_the_command_that_continues_its_run(tmp_path):
    (tmp_path / "server" / "run").mkdir(parents=True)
    (tmp_path / "server" / "deploy.toml").touch()
    for folder, command in ((tmp_path / "server" / "run", f"deploy run {tmp_path / 'server'}"), (tmp_path, "resume")):
        with pytest.raises(FedloomError, match=f"make room, then fedloom {command}"), explain_full_disk(folder):
            raise full()
