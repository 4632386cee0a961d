"""Runs of a plan side by side, each in a forked process of its own.

A run's result depends on its config and task alone, so how many run at once changes no byte of it. A run is prepared in
this process, whose tasks all runs of a seed share, and forked then: its data are not copied. What it measures comes
back through a pipe, round by round, so that observers are called here, as if all runs were here; and the run hears
through it when a callback wants it to stop.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Generic, TypeVar

import torch

from fedloom.core.errors import FedloomError, StopRun
from fedloom.registry.user_errors import WorkerError, describe_user_error
from fedloom.rounds.client_work import ClientWork
from fedloom.runs.callbacks.callback import Callback, Observer
from fedloom.runs.callbacks.callback_list import CallbackList
from fedloom.runs.results.history import History

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")
AWAITED = ("round_begins", "round_ends")
"""The events that a run waits for: then it hears whether it goes on."""


@dataclass(frozen=True)
class RunToDo(Generic[Key, Result]):
    """A run that waits for a free core.

    Args:
        key: What its result is told apart by.
        name: What an error calls it.
        do: Runs it with the observers that it gets. What it returns can be pickled.
        observers: Look on, in this process.
    """

    key: Key
    name: str
    do: Callable[[Sequence[Observer]], Result]
    observers: Sequence[Observer] = ()


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Whether this system forks processes; where it does not, runs come one after another."""
    return "fork" in multiprocessing.get_all_start_methods()


def side_by_side(runs: Iterable[RunToDo[Key, Result]], at_once: int) -> Iterator[tuple[Key, Result]]:
    """The results of runs, by their keys, in the order in which they end.

    The next run is taken when a core is free, so ``runs`` may decide then which it is, or that there is none any more.
    An error ends all of them; what they had saved is continued later.

    Args:
        at_once: How many run at once; one at once runs in this process.
    """
    if at_once == 1 or not can_fork():
        for run in runs:
            yield run.key, run.do(run.observers)
        return
    busy: dict[Connection, ForkedRun[Key, Result]] = {}
    waiting, left = iter(runs), True
    try:
        while left or busy:
            while left and len(busy) < at_once:
                following = next(waiting, None)
                left = following is not None
                if following is not None:
                    forked = ForkedRun(following)
                    busy[forked.pipe] = forked
            for pipe in wait(list(busy)) if busy else ():
                forked = busy[pipe]  # type: ignore[index]
                if forked.hear():
                    del busy[forked.pipe]
                    forked.close()
                    yield forked.run.key, forked.result()
    finally:
        for forked in busy.values():
            forked.close()


class ForkedRun(Generic[Key, Result]):
    """A run in a process of its own, and the pipe from it.

    Args:
        run: The run.
    """

    def __init__(self, run: RunToDo[Key, Result]) -> None:
        context = multiprocessing.get_context("fork")
        self.run: RunToDo[Key, Result] = run
        self.answer: tuple[str, Any] = ("died", None)
        self.callbacks = CallbackList(run.observers)
        self.pipe, theirs = context.Pipe()
        # Not a daemon: a run may have workers of its own, which end when it does.
        self.process: ForkProcess = context.Process(target=_serve, args=(run, self.callbacks, theirs, self.pipe))
        self.process.start()
        theirs.close()

    def hear(self) -> bool:
        """Take one message; whether it was the last."""
        try:
            kind, payload = pickle.loads(self.pipe.recv_bytes())  # noqa: S301  from a process that this one forked
        except (EOFError, OSError):
            return True
        if kind != "event":
            self.answer = (kind, payload)
            return True
        event, argument = payload
        getattr(self.callbacks, event)(argument)
        if event in AWAITED:
            self.pipe.send_bytes(pickle.dumps(self.callbacks.reason))
        return False

    def result(self) -> Result:
        """What the run returned; what it raised is raised."""
        kind = self.answer[0]
        payload: Any = self.answer[1]
        if kind == "refused":
            raise payload
        if kind == "failed":
            raise WorkerError(*payload)
        if kind == "died":
            raise FedloomError(
                f"the process of {self.run.name} ended without a word: is there enough memory? Continue with fewer "
                "workers; workers = 1 shows the cause."
            )
        result: Result = payload
        return result

    def close(self) -> None:
        """End the process and close what observes it."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()
        self.callbacks.close()


class Forward(Callback):
    """What a run in a process of its own has for callbacks: it sends what happens to those that look on elsewhere.

    Args:
        callbacks: Those; they are called in the other process, and only asked here what they want to know of.
        send: Sends an event and its argument.
        hear: Waits until they have seen it, and returns why they want the run to stop, if they do.
    """

    def __init__(self, callbacks: CallbackList, send: Callable[[str, Any], None], hear: Callable[[], str | None]):
        self.callbacks, self.send, self.hear = callbacks, send, hear

    def run_begins(self, history: History) -> None:
        """Pass it on."""
        self._pass_on("run_begins", history)

    def round_begins(self, number: int) -> None:
        """Pass it on."""
        self._pass_on("round_begins", number)

    def client_trained(self, work: ClientWork) -> None:
        """Pass it on; who wants the run to stop now is heard at the end of the round."""
        self._pass_on("client_trained", work)

    def round_ends(self, record: dict[str, Any]) -> None:
        """Pass it on."""
        self._pass_on("round_ends", record)

    def run_ends(self, history: History) -> None:
        """Pass it on."""
        self._pass_on("run_ends", history)

    def _pass_on(self, event: str, argument: Any) -> None:
        if event not in AWAITED and not self.callbacks.hears(event):
            return
        self.send(event, argument)
        reason = self.hear() if event in AWAITED else None
        if reason is not None:
            raise StopRun(reason)


def _serve(run: RunToDo[Any, Any], callbacks: CallbackList, pipe: Connection, parents_end: Connection) -> None:
    parents_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)  # the threads of the process that this one was forked from are not here

    def send(kind: str, payload: Any) -> None:
        # Not pipe.send: torch would pass a tensor as a file that is gone when this process ends.
        pipe.send_bytes(pickle.dumps((kind, payload)))

    def hear() -> str | None:
        reason: str | None = pickle.loads(pipe.recv_bytes())  # noqa: S301  from the process that forked this one
        return reason

    try:
        forward = Forward(callbacks, lambda *event: send("event", event), hear)
        send("done", run.do([forward] if callbacks.callbacks else []))
    except FedloomError as error:
        send("refused", error)
    except Exception as error:
        send("failed", (traceback.format_exc(), describe_user_error(error)))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
