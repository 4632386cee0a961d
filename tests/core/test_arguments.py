"""Arguments of another type are refused in one sentence, and those of numpy are taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedloom.core.arguments import list_from, path_from, real_number, whole_number
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task, check_task
from support.synthetic import federation, mlp


def test_what_fits_is_taken() -> None:
    task = Task("own", federation([20, 9]), mlp())
    assert check_task(task) is task
    assert (type(whole_number("seeds", np.int64(3))), whole_number("clients", 0, least=None)) == (int, 0)
    assert (real_number("alpha", 1), real_number("alpha", np.float32(0.5))) == (1.0, 0.5)
    assert path_from("out", "runs") == Path("runs") == path_from("out", Path("runs"))
    assert list_from("track", ("a", "b"), "'a'") == ["a", "b"]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: whole_number("seeds", "3"), "seeds='3': it must be a whole number."),
        (lambda: whole_number("seeds", True), "seeds=True: it must be a whole number."),
        (lambda: whole_number("seeds", 0), "seeds=0: it must be at least 1."),
        (lambda: real_number("reach", "80%"), "reach='80%': it must be a number."),
        (lambda: path_from("out", 3), "out=3: give a path."),
        (lambda: path_from("out", ""), "out='': it is empty: name a path."),
        (lambda: list_from("track", "a", "'a'"), "track='a': give a list, for instance track=['a']."),
        (
            lambda: check_task(None),
            "task=None: give a task: fl.task(name), or fl.task_of(fl.read(data)) of your own data.",
        ),
        (lambda: whole_number("n", "x" * 99), f"n='{'x' * 59}...: it must be a whole number."),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(call, sentence) -> None:
    with pytest.raises(FedloomError) as caught:
        call()
    assert str(caught.value) == sentence
