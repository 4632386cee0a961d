"""One process per folder: the second is told who holds it, and a killed holder holds nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.folder.folder_lock import lock_folder
from support.synthetic import small_task

HOLD = """
import sys, time
from pathlib import Path
from fedloom.runs.folder.folder_lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """A process that holds a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_holds_the_folder_until_it_is_killed(tmp_path):
    with hold(tmp_path) as holder:
        with pytest.raises(FedloomError, match=rf"is in use by process {holder.pid} on .* since .*: wait for it"):
            fl.run(small_task(), "fedavg", rounds=1, out=tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
    fl.run(small_task(), "fedavg", rounds=1, out=tmp_path)


def test_resume_beside_a_run_is_refused_and_changes_nothing(tmp_path):
    fl.run(small_task(), "fedavg", rounds=1, out=tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with hold(tmp_path) as holder:
        with pytest.raises(FedloomError, match="is in use by process"):
            fl.resume(tmp_path, task=small_task())
        holder.kill()
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


def test_the_lock_leaves_no_file(tmp_path):
    with lock_folder(tmp_path), pytest.raises(FedloomError, match="in use"), lock_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_holds_no_lock_of_its_parent(tmp_path):
    end, begin = os.pipe()
    with lock_folder(tmp_path):
        child = os.fork()
        if child == 0:  # it outlives the lock
            os.close(begin)
            os.read(end, 1)
            os._exit(0)
    try:
        with lock_folder(tmp_path):
            pass
    finally:
        os.close(begin)
        os.waitpid(child, 0)
        os.close(end)
