"""Low-rank adapters: the first model, one step by hand, what trains, and back to an ordinary module."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.core.local_work import LocalWork
from fedloom.core.model.low_rank_adapters import LowRankAdapters, merge_adapters, with_adapters, without_adapters
from fedloom.core.task import Task
from support.synthetic import distance, federation, mlp, perturb, train_all

X = torch.randn(9, 20, generator=torch.Generator().manual_seed(0))


def adapted(**settings: object) -> nn.Module:
    return with_adapters(mlp(), LowRankAdapters(**settings), seed=3)  # type: ignore[arg-type]


def test_the_first_model_is_the_one_without_adapters_to_the_byte():
    assert torch.equal(adapted()(X), mlp()(X))
    assert adapted()[1].down.weight.abs().max() > 0
    assert adapted()[1].down.weight.abs().max() <= 20**-0.5


def test_the_same_seed_gives_the_same_matrices_and_leaves_torchs_own_state_alone():
    before = torch.get_rng_state()
    one, again, other = adapted(), adapted(), with_adapters(mlp(), LowRankAdapters(), seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one[1].down.weight, again[1].down.weight)
    assert not torch.equal(one[1].down.weight, other[1].down.weight)


def test_only_the_matrices_train_and_each_is_in_its_layers_part():
    layout = Layout.of(adapted(rank=2))
    assert {slot.name: (slot.shape, slot.part) for slot in layout.slots} == {
        "1.down.weight": ((2, 20), "body"),
        "1.up.weight": ((16, 2), "body"),
        "4.down.weight": ((2, 16), "head"),
        "4.up.weight": ((5, 2), "head"),
    }


def test_a_new_head_may_train_whole():
    layout = Layout.of(adapted(rank=2, train=("4.*",)))
    assert {slot.name: slot.part for slot in layout.slots} == {
        "1.down.weight": "body", "1.up.weight": "body", "4.weight": "head", "4.bias": "head"
    }  # fmt: skip


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_step_of_one_client_by_hand(execution):
    """With B = 0 the gradient of A is zero: the first step moves B alone, by (alpha / rank) g (A x)."""
    model = with_adapters(nn.Sequential(nn.Linear(20, 5)), LowRankAdapters(rank=2, alpha=6), seed=1)
    task = Task("t", federation([12]), model)
    row = train_all(task, execution, LocalWork(lr=0.1, steps=1, batch_size=0))[0]
    x, y = task.federation.columns["x"], task.federation.columns["y"]
    layer = model[0]
    g = (F.softmax(layer.base(x), 1).detach() - F.one_hot(y, 5)) / 12
    views = task.layout.views(row)
    assert torch.equal(views["0.down.weight"], layer.down.weight)
    by_hand = -0.1 * 3 * g.T @ (x @ layer.down.weight.detach().T)
    assert distance(by_hand, views["0.up.weight"]) < 1e-5


def test_all_executions_agree():
    task = Task("t", federation([33, 9, 50]), adapted())
    work = LocalWork(lr=0.1, epochs=2, batch_size=8)
    loop, batched = (train_all(task, how, work) for how in ("loop", "vectorised"))
    assert distance(loop, batched) < 1e-5


def trained() -> nn.Module:
    made = adapted()
    layout = Layout.of(made)
    layout.fill(made, perturb(layout.row(made), 1))
    return made


def test_merged_it_is_an_ordinary_module_with_the_same_outputs():
    merged = merge_adapters(trained())
    assert [type(layer) for layer in merged] == [type(layer) for layer in mlp()]
    assert distance(trained()(X), merged(X)) < 1e-5
    assert merged.state_dict().keys() == mlp().state_dict().keys()


def test_dropped_it_is_the_model_it_was():
    plain = without_adapters(trained())
    assert all(torch.equal(a, b) for a, b in zip(plain.state_dict().values(), mlp().state_dict().values(), strict=True))


class Tower(nn.Module):
    """Linear layers of several depths, and a convolution, whose author froze all but the head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.inner, self.head = nn.Conv1d(1, 2, 3), nn.Sequential(nn.Linear(36, 4)), nn.Linear(4, 5)
        self.conv.requires_grad_(False)
        self.inner.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.inner(self.conv(x.unsqueeze(1)).flatten(1))))


def test_layers_are_chosen_by_name_and_convolutions_are_left_alone():
    names = {slot.name for slot in Layout.of(with_adapters(Tower(), LowRankAdapters(on=("inner.*",)), 0)).slots}
    assert names == {"inner.0.down.weight", "inner.0.up.weight"}


def test_a_module_that_its_author_froze_wholly_can_have_adapters():
    made = with_adapters(mlp().requires_grad_(False), LowRankAdapters(), 0)
    assert Layout.of(made).parts == ("body", "head")


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        (nn.Sequential(nn.Conv1d(1, 1, 1)), {}, "Sequential has no nn.Linear inside"),
        (mlp(), {"on": ("nose",)}, "the pattern 'nose' matches no nn.Linear: the model has 1, 4"),
        (mlp(), {"train": ("nose",)}, "the pattern 'nose' matches no parameter: the model has 1.weight"),
        (mlp(), {"train": ("*",)}, "names all layers"),
    ],
)
def test_what_gives_no_adapter_is_refused(model, settings, message):
    with pytest.raises(FedloomError, match=message):
        with_adapters(model, LowRankAdapters(**settings), 0)
