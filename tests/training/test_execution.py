"""Which execution runs: a fixed rule, and a visible fall back to the loop."""

import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedloom as fl
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.core.warn_once import warn_once
from fedloom.models import build
from fedloom.training.execution import Execution, cohorts, decide
from support.synthetic import Branching, federation, mlp


def test_small_chains_are_vectorised_and_compute_bound_layers_are_not():
    assert decide(Task("t", federation([8]), mlp()), "auto", LocalWork(batch_size=32)).name == "vectorised"
    assert decide(Task("t", federation([8]), Branching()), "auto", LocalWork(batch_size=32)).name == "vectorised"
    images = Task("t", federation([8], (1, 28, 28)), build("lenet-small", (1, 28, 28), 5, 0))
    assert decide(images, "auto", LocalWork(batch_size=32)).name == "loop"
    text = Task("t", federation([8], (12,), tokens=5), build("char-lstm", (12,), 5, 0))
    assert decide(text, "auto", LocalWork(batch_size=32)).name == "loop"


def test_batch_norm_falls_back_to_the_loop_with_one_line_that_says_why(caplog):
    model = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    with caplog.at_level(logging.WARNING, logger="fedloom"):
        chosen = decide(Task("t", federation([8]), model), "vectorised", LocalWork(batch_size=32))
    assert chosen.name == "loop"
    assert len(caplog.records) == 1
    assert "BatchNorm1d '1' takes statistics of a batch" in caplog.text


def test_a_model_that_vmap_cannot_take_falls_back_with_the_reason(caplog):
    class Stubborn(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(20, 5)

        def forward(self, x):
            out = self.layer(F.dropout(x, 0.5, self.training))
            return out if out.sum() > 0 else -out

    with caplog.at_level(logging.WARNING, logger="fedloom"):
        assert decide(Task("t", federation([8]), Stubborn()), "auto", LocalWork(batch_size=32)).name == "loop"
    assert "vmap cannot take it" in caplog.text


@pytest.mark.parametrize("name", ["char-lstm", "sequence-lstm"])
def test_an_lstm_is_not_compiled_but_trained_vectorised_with_one_line_that_says_why(name, caplog):
    if name == "char-lstm":
        task = Task("t", federation([8, 8], (6,), tokens=5), build(name, (6,), 5, 0, hidden=4))
    else:
        inputs = [np.random.default_rng(n).normal(size=(3 + n % 4, 2)) for n in range(24)]
        data = fl.from_arrays(inputs, np.arange(24) % 2, np.arange(24) % 2)
        task = fl.task_of(data, name, model_options={"hidden": 4})
    warn_once.cache_clear()
    chosen = decide(task, "compiled", LocalWork(batch_size=8))
    assert chosen.name == "vectorised"
    said = [record.message for record in caplog.records if "not compiled" in record.message]
    assert len(said) == 1
    assert "torch.func.grad cannot take it" in said[0]
    work = LocalWork(batch_size=8, epochs=1)
    rows = [fl.run(task, rounds=1, execution=one, local=work).row for one in ("compiled", "vectorised")]
    assert torch.equal(*rows)


def test_cohorts_are_of_similar_size_and_hold_everybody_once():
    sizes = torch.tensor([5, 90, 7, 80, 6, 1000])
    made = cohorts([0, 1, 2, 3, 4, 5], sizes, Execution("vectorised", "", 2))
    assert made == [[5, 1], [3, 2], [4, 0]]


def test_a_round_of_few_clients_is_dealt_to_two_cohorts_that_are_alike():
    sizes, few = torch.tensor([5, 90, 7, 80, 6, 1000]), Execution("vectorised", "", 8, halved_from=4)
    assert cohorts([0, 1, 2, 3, 4, 5], sizes, few) == [[5, 3, 4], [1, 2, 0]]
    assert cohorts([0, 1, 2], sizes, few) == [[1, 2, 0]]  # too little work for two


def test_who_is_in_a_cohort_depends_on_the_rounds_clients_alone():
    """1 to 300 clients: everybody once, no cohort above its limit, two from the limit on, chunks of many as before."""
    few = Execution("vectorised", "", 20, halved_from=8)
    for number in range(1, 300):
        made = cohorts(list(range(number)), torch.full((300,), 50), few)
        assert sorted(client for cohort in made for client in cohort) == list(range(number))
        assert max(map(len, made)) <= 20
        assert len(made) >= (2 if number >= 8 else 1)
        if number > 40:
            assert [len(cohort) for cohort in made[:-1]] == [20] * (len(made) - 1)


def test_only_rounds_with_enough_work_are_halved():
    assert decide(Task("t", federation([8]), mlp()), "vectorised", LocalWork(batch_size=32)).halved_from > 100
    big = Task("t", federation([8], (784,)), mlp(784, 64, 10))
    assert decide(big, "vectorised", LocalWork(batch_size=32)).halved_from == 10
    assert decide(big, "vectorised", LocalWork(batch_size=0)).halved_from > 100
    assert decide(big, "loop", LocalWork(batch_size=32)).halved_from == 0
    assert decide(big, "compiled", LocalWork(batch_size=32)).halved_from == 0


def test_a_forward_pass_that_changes_a_buffer_is_left_to_the_loop(caplog):
    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(20))
            self.layer = nn.Linear(20, 5)

        def forward(self, x):
            self.seen = 0.9 * self.seen + 0.1 * x.mean(0)
            return self.layer(x - self.seen)

    with caplog.at_level(logging.WARNING, logger="fedloom"):
        assert decide(Task("t", federation([8]), Remembering()), "auto", LocalWork(batch_size=32)).name == "loop"
    assert "changes the buffer 'seen'" in caplog.text


def test_gradients_of_single_samples_are_batched_also_where_a_loop_would_be_faster():
    task = Task("t", federation([10, 10], (1, 12, 12)), build("cnn-small", (1, 12, 12), 5, 0))
    assert decide(task, "auto", LocalWork(batch_size=32)).name == "loop"
    assert decide(task, "auto", LocalWork(batch_size=32), per_sample=True).name == "vectorised"


def test_why_a_model_is_trained_in_the_loop_is_said_once_for_all_runs_of_a_comparison(caplog):
    federation = fl.task("digits", clients=4).federation
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10))
    with caplog.at_level(logging.WARNING, logger="fedloom"):
        fl.compare(fl.task_of(federation, model), ["fedavg", "local"], seeds=2, rounds=1, eval_every=0)
    assert sum("client by client" in record.getMessage() for record in caplog.records) == 1
