"""All callbacks are called in order, and the first reason to stop is the run's."""

from __future__ import annotations

from typing import Any

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.runs.callbacks.callback_list import NO_REASON, CallbackList, for_one_run, observer_list


class Stop(fl.Callback):
    """Wants every run to stop."""

    def __init__(self, why: str) -> None:
        self.why = why

    def round_ends(self, record: dict[str, Any]) -> None:
        raise fl.StopRun(self.why)


def test_the_first_reason_counts_and_all_are_called() -> None:
    seen: list[int] = []
    callbacks = CallbackList([Stop("first"), Stop("second"), lambda record: seen.append(record["round"])])
    callbacks.round_ends({"round": 3})
    assert (callbacks.reason, seen) == ("first", [3])
    assert not callbacks.lets_round_begin(4)


def test_a_stop_without_a_reason_has_one() -> None:
    callbacks = CallbackList([Stop(" ")])
    callbacks.round_ends({})
    assert callbacks.reason == NO_REASON


def test_what_nobody_overrides_nobody_hears() -> None:
    callbacks = CallbackList([Stop("first"), print])
    assert (callbacks.hears("round_ends"), callbacks.hears("client_trained")) == (True, False)
    assert not CallbackList().hears("round_ends")


def test_each_run_has_a_shallow_copy() -> None:
    made = Stop("first")
    copied, function = for_one_run([made, print])
    assert copied is not made
    assert copied.__dict__ == made.__dict__
    assert function is print


def test_both_lists_are_one() -> None:
    assert observer_list([print], (len,)) == [print, len]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (([3],), "callbacks=3: a callback is an fl.Callback, or a function that takes the record of a round."),
        (((), [3]), "observers=3: an observer is an fl.Callback, or a function that takes the record of a round."),
        ((print,), "give a list, for instance callbacks=[print]."),
        (([Stop],), "give an object, for instance Stop()."),
    ],
)
def test_what_cannot_be_called_is_refused(given: tuple[Any, ...], says: str) -> None:
    with pytest.raises(FedloomError) as caught:
        observer_list(*given)
    assert str(caught.value).endswith(says)
