"""A process that is killed at each of its steps on the disk: what it leaves must work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

STEPS = ("replace", "rename")
"""The calls before which the process is killed: with them, files get their names."""


def run_until_step(action: Callable[[], Any], step: int) -> bool:
    """Do something in a child process that is killed before its ``step``-th renaming; whether it was killed."""
    child = os.fork()
    if child == 0:
        left = [step]

        def count(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **keywords: Any) -> Any:
                if not left[0]:
                    os._exit(9)
                left[0] -= 1
                return real(*args, **keywords)

            return call

        os.fsync = lambda _: None
        for name in STEPS:
            setattr(os, name, count(getattr(os, name)))
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9), "the action failed"
    return status == 9


def kills(action: Callable[[], Any], prepare: Callable[[], Any]) -> Iterator[int]:
    """Kill an action at each of its steps, from the same beginning; yields the number of each kill.

    Args:
        action: What is done.
        prepare: Makes the beginning anew.
    """
    for step in range(1_000):
        prepare()
        if not run_until_step(action, step):
            return
        yield step
    raise AssertionError("the action does not end")
