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


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_a_low_temperature_reduces_entropy_and_keeps_the_order(classes, seed):
    mean = torch.softmax(torch.randn(4, classes, generator=torch.Generator().manual_seed(seed)), 1)
    sharp = reduce_entropy(mean, 0.05)
    assert torch.equal(sharp.argmax(1), mean.argmax(1))
    assert bool((entropy(sharp) <= entropy(reduce_entropy(mean, 1.0)) + 1e-6).all())
    assert torch.allclose(sharp.sum(1), torch.ones(4))


class TrainedContext:
    """A server that notes what it was asked to train."""

    task = three_samples()
    work = LocalWork()

    def train(self, row, positions, *, work, loss):
        self.asked = (positions.tolist(), work.epochs, loss)
        return row + 1


@pytest.mark.parametrize(("aggregation", "goal"), [("sa", MEAN), ("era", torch.softmax(MEAN / 0.1, 1))])
def test_the_server_sharpens_the_mean_and_distils_it_into_a_model_of_its_own(aggregation, goal):
    replies, context = replies_of({"probabilities": SENT}, (0.5, 0.5)), TrainedContext()
    object.__setattr__(replies, "context", context)
    state = fl.DSFL(aggregation=aggregation, epochs=2).aggregate({"row": torch.zeros(2)}, replies)
    assert torch.allclose(state["probabilities"], goal)
    assert state["row"].tolist() == [1.0, 1.0]
    positions, epochs, loss = context.asked
    assert (positions, epochs) == ([0, 1, 2], 2)
    values, counts = loss(lambda x: x, torch.zeros(2, 2), torch.tensor([2, 0]), {})
    assert torch.allclose(values, torch.full((2,), math.log(2)))
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
