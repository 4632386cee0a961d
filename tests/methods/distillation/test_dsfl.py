"""DS-FL: entropy reduction, and what clients and server distil, by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.methods.distillation.dsfl import reduce_entropy
from support.checkpoints import final
from support.distillation import conv_task, replies_of, three_samples
from support.synthetic import cohort, distance

SENT = torch.tensor([[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]])
MEAN = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]])


def entropy(p):
    return -(p * p.clamp(min=1e-30).log()).sum(1)


def test_entropy_reduction_by_hand():
    """A difference of 0.5 at the temperature 0.5 is a difference of 1 in the exponent."""
    sharp = reduce_entropy(MEAN, 0.5)
    larger = math.e / (math.e + 1)
    assert torch.allclose(sharp, torch.tensor([[larger, 1 - larger], [0.5, 0.5], [1 - larger, larger]]))


@given(st.integers(2, 6), st.integers(0, 10_000), st.integers(1, 10))
def test_entropy_falls_at_temperatures_below_all_probabilities_and_rises_above_all(classes, seed, tenths):
    """``log(q / p) = p / T - log p`` plus a constant, and its slope in p is ``1/T - 1/p``.

    Where T is at most the smallest p, which is at most 1/classes, the ratio q/p rises with p: mass moves to likelier
    classes, q majorises p, and its entropy is lower. Where T is at least the largest p, the ratio falls with p, while q
    itself still rises: p majorises q, and the entropy is higher. In between either may happen.
    """
    generator = torch.Generator().manual_seed(seed)
    mean = torch.softmax(torch.randn(4, classes, generator=generator, dtype=torch.float64), 1)
    sharp = reduce_entropy(mean, mean.min().item() * tenths / 10)
    flat = reduce_entropy(mean, mean.max().item() * 10 / tenths)
    assert bool((entropy(sharp) <= entropy(mean) + 1e-12).all())
    assert bool((entropy(flat) >= entropy(mean) - 1e-12).all())
    for made in (sharp, flat):
        assert bool((made.gather(1, mean.argsort(1)).diff(dim=1) >= 0).all())  # the order of classes stays
        assert torch.allclose(made.sum(1), torch.ones(4, dtype=torch.float64))


def test_the_default_temperature_raises_the_entropy_of_a_hundred_classes():
    """The likeliest has 0.3 and the others 0.7 / 99 each: e^3 against 99 times e^(7/99) leaves it 0.159."""
    mean = torch.tensor([[0.3] + [0.7 / 99] * 99], dtype=torch.float64)
    top = math.exp(3) / (math.exp(3) + 99 * math.exp(7 / 99))
    assert top == pytest.approx(0.159, abs=1e-3)
    made = reduce_entropy(mean, fl.DSFL().temperature)
    assert made[0].tolist() == pytest.approx([top] + [(1 - top) / 99] * 99)
    before, after = (-p * math.log(p) - (1 - p) * math.log((1 - p) / 99) for p in (0.3, top))
    assert (before, after) == (pytest.approx(3.827, abs=1e-3), pytest.approx(4.302, abs=1e-3))
    assert (entropy(mean).item(), entropy(made).item()) == (pytest.approx(before), pytest.approx(after))


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_a_mean_that_is_sure_becomes_less_so_at_any_temperature(temperature):
    """No temperature lowers the entropy of every mean: (1, 0) has none, and becomes (1, e^(-1/T)) / (1 + e^(-1/T))."""
    made = reduce_entropy(torch.tensor([[1.0, 0.0]], dtype=torch.float64), temperature)
    least = math.exp(-1 / temperature)
    assert made[0].tolist() == pytest.approx([1 / (1 + least), least / (1 + least)], rel=1e-6)
    assert entropy(made).item() > 0


class TrainedContext:
    """A server that notes what it was asked to train."""

    task = three_samples()
    work = LocalWork()

    def train(self, row, positions, *, work, loss):
        self.asked = (positions.tolist(), work, loss)
        return row + 1


@pytest.mark.parametrize(("aggregation", "goal"), [("sa", MEAN), ("era", torch.softmax(MEAN / 0.1, 1))])
def test_the_server_sharpens_the_mean_and_distils_it_into_a_model_of_its_own(aggregation, goal):
    replies, context = replies_of({"probabilities": SENT}, (0.5, 0.5)), TrainedContext()
    object.__setattr__(replies, "context", context)
    state = fl.DSFL(aggregation=aggregation, epochs=2).aggregate({"row": torch.zeros(2)}, replies)
    assert torch.allclose(state["probabilities"], goal)
    assert state["row"].tolist() == [1.0, 1.0]
    positions, work, loss = context.asked
    assert (positions, work.epochs) == ([0, 1, 2], 2)
    outputs = torch.tensor([[0.0, math.log(3)]] * 2)  # the probabilities 1/4 and 3/4, twice
    values, counts = loss(lambda x: x, outputs, torch.tensor([2, 0]), {})
    cross = [float(p) * math.log(4) + float(q) * math.log(4 / 3) for p, q in (goal[2], goal[0])]
    assert values.tolist() == pytest.approx(cross, rel=1e-5)
    assert counts.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_step_of_distillation_is_the_gradient_of_the_cross_entropy(execution):
    task = three_samples()
    some = cohort(task, execution, LocalWork(batch_size=0, lr=0.1))
    rows = fl.DSFL().distil(some, some.spread(task.initial_row()), Message({"probabilities": MEAN}))
    loss = F.cross_entropy(task.model(task.inputs(torch.arange(3))), MEAN)
    gradient = torch.autograd.grad(loss, task.model[0].weight)[0].flatten()
    assert torch.allclose(rows[1], task.initial_row() - 0.1 * gradient, atol=1e-6)


def test_clients_send_probabilities(tmp_path):
    task = conv_task()
    state = final(tmp_path / "run", fl.DSFL(aggregation="sa"), task, rounds=1)
    assert torch.allclose(state.server["probabilities"].sum(1), torch.ones(14), atol=1e-5)
    assert distance(state.server["row"], task.initial_row()) > 1e-3


def test_the_servers_model_is_scored_on_the_global_test_set():
    history = fl.run(conv_task(), "dsfl", rounds=1, local={"batch_size": 8})
    assert history.last("global_model/global_test/accuracy") is not None


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"temperature": 0.0}, {"epochs": 0}):
        with pytest.raises(FedloomError):
            fl.DSFL(**wrong)
