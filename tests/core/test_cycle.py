"""Cycles of steps: both executions agree, parts are dealt as promised, and MAML's steps come out by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedloom.core.cycle import Cycle
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.perfedavg import PerFedAvg
from fedloom.models import build
from fedloom.training.batches import Assignment
from fedloom.training.cycle_memory import CycleMemory
from support.synthetic import Branching, cohort, distance, federation, mlp, train_all

UNEQUAL = [40, 33, 31, 19, 18, 7, 5, 4, 3, 2, 1]
"""Full and partial batches of 16, padded buckets, and batches smaller than the number of parts."""


def onward(step, before, after, slots):  # noqa: ARG001
    """Plain steps, one after the other; nothing is remembered."""
    return after, slots


def mix(step, before, after, slots):
    """Nothing anybody would want, but it uses everything: rows and slots go into each other."""
    first, second = slots
    if step == 0:
        return first + 0.5 * (after - before), (before, second)
    if step == 1:
        return after, (first, after - 0.5 * first)
    return 0.5 * (second + first), (after, second)


def train_in_cycles(task, execution, work, cycle, ids=None, **how):
    """The rows and anchors of a cohort after training in cycles from the task's initial row."""
    some = cohort(task, execution, work, ids)
    return some.train_in_cycles(some.spread(task.initial_row()), cycle, **how)


def towards(rows, anchor):
    return 0.3 * (rows - anchor)


CYCLES = {
    "first order": PerFedAvg(alpha=0.2)._first(0.1),
    "hessian free": PerFedAvg(alpha=0.2, delta=0.01)._hessian_free(0.1),
    "mixing": Cycle((0.1, 0.05, 0.2), (0, 1, 0), mix, slots=2),
    "five parts": Cycle((0.1,) * 5, (4, 3, 2, 1, 0), onward),
}
WORKS = {
    "epochs": LocalWork(epochs=1, batch_size=16, lr=0.1),
    "whole data": LocalWork(steps=2, batch_size=0, lr=0.1),
    "decay, clip, stragglers": LocalWork(epochs=2, batch_size=16, lr=0.1, weight_decay=0.01, clip=0.5, partial=0.8),
}


def agree(task, work, cycle, **how):
    loop, vectorised = (train_in_cycles(task, execution, work, cycle, **how) for execution in ("loop", "vectorised"))
    assert distance(loop[0], vectorised[0]) < 2e-5
    assert distance(loop[1], vectorised[1]) < 2e-5
    assert distance(loop[0], task.initial_row().expand(len(loop[0]), -1)) > 1e-3


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("cycle", CYCLES.values(), ids=CYCLES)
@pytest.mark.slow
def test_vectorised_equals_loop_for_unequal_clients_with_dropout_and_a_pull(cycle, work):
    agree(Task("t", federation(UNEQUAL), mlp(dropout=0.3)), work, cycle, pull=towards)


@pytest.mark.parametrize("cycle", CYCLES.values(), ids=CYCLES)
def test_vectorised_equals_loop_for_a_model_that_is_no_chain(cycle):
    agree(Task("t", federation(UNEQUAL), Branching()), WORKS["epochs"], cycle)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("client", [0, 4, 10])
def test_a_client_cycles_as_if_it_were_alone(execution, client):
    task = Task("t", federation(UNEQUAL), mlp(dropout=0.3))
    work = WORKS["epochs"]
    together = train_in_cycles(task, execution, work, CYCLES["mixing"])
    alone = train_in_cycles(task, execution, work, CYCLES["mixing"], ids=[client])
    for some, one in zip(together, alone, strict=True):
        assert distance(some[client : client + 1], one) < 1e-5


def test_vectorised_equals_loop_for_convolutions():
    task = Task("t", federation([20, 9, 5], (1, 12, 12)), build("cnn-small", (1, 12, 12), 5, 0))
    agree(task, LocalWork(epochs=1, batch_size=8), CYCLES["first order"])


def test_vectorised_equals_loop_for_augmented_inputs():
    def jitter(x, generator):
        return x + torch.randn(x.shape, generator=generator)

    agree(Task("t", federation(UNEQUAL), mlp(), augment=jitter), WORKS["epochs"], CYCLES["first order"])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_cycle_of_one_step_is_ordinary_training(execution):
    task, work = Task("t", federation(UNEQUAL), mlp(dropout=0.3)), WORKS["epochs"]
    rows, anchors = train_in_cycles(task, execution, work, Cycle((0.1,), (0,), onward))
    assert torch.equal(rows, train_all(task, execution, work))
    assert torch.equal(anchors, task.initial_row().expand(len(UNEQUAL), -1))


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_batch_used_twice_is_two_steps_on_all_the_data(execution):
    task = Task("t", federation([20, 9, 1]), mlp())
    rows, _ = train_in_cycles(task, execution, LocalWork(steps=1, batch_size=0), Cycle((0.1, 0.1), (0, 0), onward))
    assert distance(rows, train_all(task, execution, LocalWork(steps=2, batch_size=0, lr=0.1))) < 1e-6


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_rows_and_slots_may_change_places(execution):
    """The step's result goes into the slot and the slot's content becomes the rows: every second result is kept."""
    task = Task("t", federation([20, 9]), mlp())

    def swap(_, before, after, slots):  # noqa: ARG001
        return slots[0], (after,)

    work = LocalWork(steps=1, batch_size=0, lr=0.1)
    rows, anchors = train_in_cycles(task, execution, work, Cycle((0.1,), (0,), swap))
    assert torch.equal(rows, task.initial_row().expand(2, -1))
    assert distance(anchors, train_all(task, execution, work)) < 1e-7


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_pull_sees_the_anchor_as_it_moves(execution):
    """Without a gradient of the data, ``theta <- theta - lr * lam (theta - w)`` and ``w <- w + (theta - w) / 2``."""
    x, y = torch.zeros(1, 1), torch.zeros(1, 1)
    parts = Ragged.of([np.array([0])])
    model = nn.Linear(1, 1, bias=False)
    task = Task("flat", Federation({"x": x, "y": y}, parts, parts, Ragged.empty(1), 1), model, SquaredError())

    def settle(step, before, after, slots):  # noqa: ARG001
        (w,) = slots
        return (after + 1, slots) if step == 0 else (after, (w + (after - w) / 2,))

    cycle = Cycle((0.1, 0.2), (0, 0), settle)
    some = cohort(task, execution, LocalWork(steps=2, batch_size=0))
    rows, anchors = some.train_in_cycles(torch.tensor([[2.0]]), cycle, pull=lambda theta, w: 0.5 * (theta - w))
    theta = w = 2.0
    for _ in range(2):
        theta = theta - 0.1 * 0.5 * (theta - w) + 1
        theta = theta - 0.2 * 0.5 * (theta - w)
        w = w + (theta - w) / 2
    assert rows.item() == pytest.approx(theta, rel=1e-6)
    assert anchors.item() == pytest.approx(w, rel=1e-6)


def sam(lr, rho):
    """Sharpness-aware minimisation as one would write it: uphill by rho, the gradient there, taken from below."""

    def settle(step, before, after, slots):
        if step == 0:
            gradient = before - after  # of a step of size one
            return before + rho * gradient / gradient.norm(dim=1, keepdim=True), (before,)
        return slots[0] + after - before, slots

    return Cycle((1.0, lr), (0, 0), settle)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_norm_in_settle_is_that_of_a_clients_whole_gradient_so_that_sam_is_its_formula(execution):
    """Foret et al., ICLR 2021: ``w - lr * g(w + rho g(w) / |g(w)|)``, over the four tensors of the model."""
    task, work = Task("t", federation(UNEQUAL), mlp()), LocalWork(epochs=2, batch_size=16, lr=0.1)

    def step(w, gradient, positions):
        uphill = gradient(w, positions)
        return w - 0.1 * gradient(w + 0.5 * uphill / uphill.norm(), positions)

    rows, _ = train_in_cycles(task, execution, work, sam(0.1, 0.5))
    for client in range(len(UNEQUAL)):
        assert distance(by_hand(task, work, client, step), rows[client]) < 1e-6


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_result_of_settle_that_is_no_row_per_client_is_refused(execution):
    task = Task("t", federation([20, 9]), mlp())
    cycle = Cycle((0.1,), (0,), lambda _, before, after, slots: (after.mean(1, keepdim=True), slots))  # noqa: ARG005
    with pytest.raises(FedloomError, match=r"settle of a cycle gave a tensor of shape \(\d, 1\) for rows of shape"):
        train_in_cycles(task, execution, LocalWork(), cycle)


# -- the parts of a batch


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_parts_are_disjoint_and_cover_the_batch_or_are_all_of_it(sizes, deals):
    cycle = Cycle((0.1,) * deals, tuple(range(deals)), onward)
    width = max(sizes)
    x = torch.arange(len(sizes) * width).view(len(sizes), width)
    mask = (torch.arange(width) < torch.tensor(sizes)[:, None]).float()
    seen = [[] for _ in sizes]
    for number in range(deals):
        some, labels, real = cycle.deal(x, x, mask, number)
        assert torch.equal(some, labels)
        for client, size in enumerate(sizes):
            part = some[client][real[client].bool()].tolist()
            alone = torch.arange(client * width, client * width + size)
            assert part == alone[cycle.cut(size, number)].tolist()  # what the client sees alone, in the same places
            assert bool(real[client, : len(part)].all())
            seen[client] += part
    for client, size in enumerate(sizes):
        mine = list(range(client * width, client * width + size))
        assert sorted(seen[client]) == sorted(mine * (deals if size < deals else 1))


def test_without_a_cycle_nothing_is_remembered():
    value = torch.ones(2, 3)
    memory = CycleMemory(None, {"a": value})
    memory.before([value])
    memory.settle(0, [value], slice(None))
    assert memory.start.numel() == 0
    assert memory.anchor("a", {"a": value}) is value


# -- MAML's steps, by hand


def by_hand(task, work, client, step):
    """Train one client with ``step(w, gradient, batch)``, where ``gradient(w, positions)`` is autograd's."""
    model = mlp()

    def gradient(row, positions):
        task.layout.fill(model, row)
        loss = F.cross_entropy(model(task.inputs(positions)), task.targets(positions))
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])

    row = task.initial_row()
    for positions in Assignment.of(client, task.federation.train[client], work, 3, 1):
        row = step(row, gradient, positions)
    return row


def deal(positions, parts):
    return [positions[i::parts] if len(positions) >= parts else positions for i in range(parts)]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_first_order_maml_is_its_formula(execution):
    task, work = Task("t", federation(UNEQUAL), mlp()), WORKS["epochs"]

    def step(w, gradient, positions):
        d, other = deal(positions, 2)
        return w - 0.1 * gradient(w - 0.2 * gradient(w, d), other)

    rows, _ = train_in_cycles(task, execution, work, CYCLES["first order"])
    for client in (0, 3, 5, len(UNEQUAL) - 1):
        assert distance(by_hand(task, work, client, step), rows[client]) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_hessian_free_maml_is_its_formula(execution):
    task, work = Task("t", federation(UNEQUAL), mlp()), WORKS["epochs"]

    def step(w, gradient, positions):
        d, other, third = deal(positions, 3)
        g = gradient(w - 0.2 * gradient(w, d), other)
        change = (gradient(w + 0.01 * g, third) - gradient(w - 0.01 * g, third)) / 0.02
        return w - 0.1 * (g - 0.2 * change)

    rows, _ = train_in_cycles(task, execution, work, CYCLES["hessian free"])
    for client in (0, 3, 5, len(UNEQUAL) - 1):
        assert distance(by_hand(task, work, client, step), rows[client]) < 1e-4  # a difference of gradients over 0.02


@pytest.mark.parametrize("order", ["first", "hessian-free"])
@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_maml_on_a_quadratic_by_hand(execution, order):
    """Three samples with curvatures a, one per part: each gradient is ``a_i (w - c_i)``, each Hessian ``a_i``."""
    a, c, w, alpha, lr = [1.0, 2.0, 4.0], [0.0, 1.0, 3.0], 0.5, 0.1, 0.2
    x = torch.tensor(a).sqrt()[:, None]
    parts = Ragged.of([np.arange(3)])
    held = Federation({"x": x, "y": x * torch.tensor(c)[:, None]}, parts, parts, Ragged.empty(1), 1)
    task = Task("quadratic", held, nn.Linear(1, 1, bias=False), SquaredError())
    work = LocalWork(steps=1, batch_size=3)
    method = PerFedAvg(alpha=alpha, order=order)
    cycle = method._first(lr) if order == "first" else method._hessian_free(lr)
    some = cohort(task, execution, work)
    row, _ = some.train_in_cycles(torch.tensor([[w]]), cycle)
    (batch,) = Assignment.of(0, torch.arange(3), work, 3, 1)
    groups = deal(batch, 2 if order == "first" else 3)

    def gradient(w, group):
        return sum(a[i] * (w - c[i]) for i in group.tolist()) / len(group)

    g = gradient(w - alpha * gradient(w, groups[0]), groups[1])
    if order == "hessian-free":
        g = g - alpha * a[int(groups[2])] * g
    assert row.item() == pytest.approx(w - lr * g, abs=2e-5)


# -- BatchNorm, bookkeeping, refusals


def model_with_batch_norm() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5))


def test_batch_norm_cycles_in_the_loop_and_sees_only_its_part():
    """One cycle of two steps with learning rate 0 moves the running mean towards the means of the two parts."""
    task = Task("t", federation([12]), model_with_batch_norm())
    work = LocalWork(steps=1, batch_size=12)
    rows, anchors = train_in_cycles(task, "loop", work, Cycle((0.0, 0.0), (0, 1), onward))
    (batch,) = Assignment.of(0, task.federation.train[0], work, 3, 1)
    mean = torch.zeros(8)
    for part in deal(batch, 2):
        mean = 0.9 * mean + 0.1 * task.model[0](task.inputs(part)).mean(0)
    found = task.layout.views(rows[0])
    assert torch.allclose(found["1.running_mean"], mean, atol=1e-6)
    assert torch.equal(found["0.weight"], task.model[0].weight)
    assert torch.equal(task.layout.views(anchors[0])["1.running_mean"], found["1.running_mean"])


def test_a_part_of_one_that_batch_norm_cannot_take_is_told_with_the_client():
    task = Task("t", federation([12, 14]), model_with_batch_norm())
    with pytest.raises(FedloomError, match="a batch of client 1, split into 2 parts, leaves a single sample"):
        train_in_cycles(task, "loop", LocalWork(batch_size=12), CYCLES["first order"])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_every_gradient_of_a_cycle_counts_as_a_step(execution):
    task = Task("t", federation([33, 9]), mlp())
    some = cohort(task, execution, LocalWork(epochs=2, batch_size=16))
    some.train_in_cycles(some.spread(task.initial_row()), CYCLES["hessian free"])
    assert some.steps.tolist() == [2 * 3 * 4, 2 * 1 * 4]


@pytest.mark.parametrize("how", [{"optimizer": "adam"}, {"momentum": 0.9}], ids=["adam", "momentum"])
def test_cycles_are_refused_where_a_step_is_no_plain_gradient(how):
    task = Task("t", federation([9]), mlp())
    with pytest.raises(FedloomError, match="takes plain gradient steps"):
        train_in_cycles(task, "loop", LocalWork(**how), CYCLES["first order"])


def test_no_steps_leave_rows_and_anchors_as_they_are():
    task = Task("t", federation([8, 8]), mlp())
    rows, anchors = train_in_cycles(task, "vectorised", LocalWork(steps=0), CYCLES["first order"])
    assert torch.equal(rows, task.initial_row().expand(2, -1))
    assert torch.equal(anchors, rows)
