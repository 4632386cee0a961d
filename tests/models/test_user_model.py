"""A user's own model: what it is called with, and the sentences for what cannot be made."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.models import build

FILE = """from torch import nn


class Net(nn.Module):
    def __init__(self, inputs, classes, width=16):
        super().__init__()
        self.body, self.head = nn.Linear(inputs, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)).relu())


def lazy(outputs):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, outputs))


def shaped(input_shape):
    return nn.Conv2d(input_shape[0], 1, input_shape[1])


def hungry(depth):
    return nn.Linear(depth, 1)


def nothing(classes):
    return classes


def broken():
    return nn.Linear(3, 2).missing


net = nn.Linear(3, 2)
several = 3
"""


@pytest.fixture
def net(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(FILE)
    return path


def test_sizes_come_from_the_data_and_the_rest_are_options(net):
    made = build(f"{net}:Net", (1, 8, 8), 10, 3, width=5)
    assert (made.body.weight.shape, made.head.weight.shape) == ((5, 64), (10, 5))
    assert build(f"{net}:shaped", (1, 8, 8), 10, 3).weight.shape == (1, 1, 8, 8)
    assert build(f"{net}:lazy", (1, 8, 8), 10, 3)[1].weight.shape == (8, 64)


def test_of_several_columns_sizes_are_dicts():
    seen = {}

    def make(inputs, input_shape, classes):
        seen.update(inputs=inputs, input_shape=input_shape)
        return nn.Linear(1, classes)

    build(make, {"scan": (2, 3), "age": (1,)}, 4, 0)
    assert seen == {"inputs": {"scan": 6, "age": 1}, "input_shape": {"scan": (2, 3), "age": (1,)}}


@pytest.mark.parametrize("name", ["Net", "lazy"])
def test_the_seed_decides_the_initial_weights_and_nothing_else_changes(net, name):
    state = torch.get_rng_state()
    one, same, other = (build(f"{net}:{name}", (4,), 3, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    rows = [torch.cat([p.flatten() for p in model.parameters()]) for model in (one, same, other)]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("Nett", {}, "has no class or function Nett"),
        ("several", {}, "has no class or function several"),
        ("Net", {"wdth": 3}, "Did you mean 'width'"),
        ("hungry", {}, "needs 'depth': give it as an option"),
        ("nothing", {}, "gives an int and not a torch.nn.Module"),
        ("broken", {}, r"AttributeError: .* \(net.py, line 30\)"),
    ],
)
def test_what_cannot_be_made_is_refused_in_a_sentence(net, name, options, said):
    with pytest.raises(FedloomError, match=said):
        build(f"{net}:{name}", (4,), 3, 0, **options)


def test_a_class_and_its_file_are_the_same_task(net):
    named = fl.task("digits", clients=3, model=f"{net}:Net:width=4", seed=2)
    kind = type(named.model)
    given = fl.task("digits", clients=3, model=kind, model_options={"width": 4}, seed=2)
    assert torch.equal(named.initial_row(), given.initial_row())
    assert named.made_from == given.made_from  # a config can name both
    assert named.made_from["model"] == f"{net}:Net"
    assert not fl.task(
        "digits", clients=3, model=lambda classes: nn.Sequential(nn.Flatten(), nn.Linear(64, classes))
    ).is_named


def test_a_class_makes_the_model_of_a_federation():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    federation = fl.from_arrays(x.numpy(), (x[:, 0] > 0).long().numpy(), torch.arange(40).numpy() % 4)
    task = fl.task_of(
        federation,
        lambda inputs, classes, width: nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, classes)),
        model_options={"width": 3},
    )
    assert task.layout.width == 6 * 3 + 3 + 3 * 2 + 2
    assert fl.run(task, "fedavg", rounds=1).last("global_model/global_test/accuracy") is not None
