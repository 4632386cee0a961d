"""The callbacks of a run as one: all of them are called in order, and one that wants the run to stop is heard."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fedloom.core.arguments import argument_error, list_from
from fedloom.core.errors import StopRun
from fedloom.rounds.client_work import ClientWork
from fedloom.runs.callbacks.callback import Callback, Observer
from fedloom.runs.results.history import History

NO_REASON = "a callback stopped it"


class RecordFunction(Callback):
    """A function that is called with each round's record.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[dict[str, Any]], None]) -> None:
        self.function = function

    def round_ends(self, record: dict[str, Any]) -> None:
        """Call the function."""
        self.function(record)


class CallbackList(Callback):
    """Calls all callbacks of a run, and keeps why the first of them wants it to stop.

    Args:
        observers: Callbacks, and functions that get each round's record.
    """

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self.callbacks = [one if isinstance(one, Callback) else RecordFunction(one) for one in observers]
        self.reason: str | None = None
        """Why the run is to stop, if it is."""

    def hears(self, event: str) -> bool:
        """Whether any callback does something at an event.

        Args:
            event: The name of a method of ``Callback``.
        """
        return any(getattr(type(one), event) is not getattr(Callback, event) for one in self.callbacks)

    def begin(self, history: History) -> None:
        """Say that the run begins or continues, and repeat what was measured until now.

        Args:
            history: The run's history.
        """
        if self.callbacks:
            self.run_begins(history)
        for record in history.records:
            self.round_ends(record)

    def lets_round_begin(self, number: int) -> bool:
        """Say that a round is to begin, unless a callback wants the run to stop; whether it does begin.

        Args:
            number: The round.
        """
        if self.reason is None:
            self.round_begins(number)
        return self.reason is None

    def run_begins(self, history: History) -> None:
        """Each callback gets a copy of its own."""
        self._call(lambda one: one.run_begins(copy.deepcopy(history)))

    def round_begins(self, number: int) -> None:
        """Call each of them."""
        self._call(lambda one: one.round_begins(number))

    def client_trained(self, work: ClientWork) -> None:
        """Call each of them."""
        self._call(lambda one: one.client_trained(work))

    def round_ends(self, record: dict[str, Any]) -> None:
        """Each callback gets a copy of its own."""
        self._call(lambda one: one.round_ends(copy.deepcopy(record)))

    def run_ends(self, history: History) -> None:
        """Call each of them; it is too late to stop the run."""
        self._call(lambda one: one.run_ends(history))

    def close(self) -> None:
        """Close each of them."""
        for one in self.callbacks:
            one.close()

    def _call(self, call: Callable[[Callback], None]) -> None:
        for one in self.callbacks:
            try:
                call(one)
            except StopRun as stop:
                self.reason = self.reason or str(stop).strip() or NO_REASON


def observer_list(callbacks: Any, observers: Any = ()) -> list[Observer]:
    """Who looks on at a run, as it was given in Python.

    Args:
        callbacks: Callbacks and functions.
        observers: More of them.
    """
    given = [("callbacks", one) for one in list_from("callbacks", callbacks, "print")]
    given += [("observers", one) for one in list_from("observers", observers, "print")]
    for name, one in given:
        if isinstance(one, type) and issubclass(one, Callback):
            raise argument_error(name, one, f"give an object, for instance {one.__name__}()")
        if not isinstance(one, Callback) and not callable(one):
            what = "a callback is an fl.Callback" if name == "callbacks" else "an observer is an fl.Callback"
            raise argument_error(name, one, f"{what}, or a function that takes the record of a round")
    return [one for _, one in given]


def for_one_run(observers: Sequence[Observer]) -> list[Observer]:
    """Shallow copies of callbacks, for one of several runs; functions are shared.

    Args:
        observers: Callbacks and functions.
    """
    return [copy.copy(one) if isinstance(one, Callback) else one for one in observers]
