"""Delays between polls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fedloom.deploy.flower import polling


def test_waits_grow_while_nothing_happens_and_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(polling, "time", SimpleNamespace(sleep=slept.append))
    delay = polling.PollDelay(0.01)
    for _ in range(200):
        delay.sleep()
    delay.reset()
    delay.sleep()
    assert slept[:200] == sorted(slept[:200])
    assert slept[199] == polling.SLOWEST
    assert slept[200] == slept[0] == 0.01
