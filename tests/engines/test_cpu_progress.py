"""A process that computes makes progress; one that is stopped or only waits does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fedloom.engines import cpu_progress
from fedloom.engines.cpu_progress import CpuProgress


@pytest.fixture
def busy() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        yield process.pid
        process.kill()


def wait_until(stands: bool, progress: CpuProgress) -> None:
    while progress.stands_still() is not stands:
        pass


@pytest.mark.timeout(60)
def test_a_stopped_process_stands_still_and_one_that_goes_on_does_not(busy, monkeypatch):
    monkeypatch.setattr(cpu_progress, "STILL_SECONDS", 0.5)
    progress = CpuProgress(busy)
    os.kill(busy, signal.SIGSTOP)
    wait_until(True, progress)
    os.kill(busy, signal.SIGCONT)
    wait_until(False, progress)


def test_patience_is_counted_from_the_last_progress(busy, monkeypatch):
    monkeypatch.setattr(cpu_progress, "STILL_SECONDS", 1e9)
    progress = CpuProgress(busy)
    since = progress.since
    while progress.since == since:
        assert not progress.stands_still()


def test_a_process_that_is_gone_does_not_hang():
    assert not CpuProgress(2**22 + 7).stands_still()
