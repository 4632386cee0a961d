"""Descriptors: entries chosen by hand, their order, the crop, and the cosine."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from fedloom.methods.fedharm.descriptor import (
    cosine_distance,
    entries_at,
    influences,
    most_influential,
    pool_and_crop,
    pooled_width,
)
from fedloom.models import build
from fedloom.training.functional_network import FunctionalNetwork


def network(model: nn.Module, samples: int) -> FunctionalNetwork:
    return FunctionalNetwork(model, dict(model.named_parameters()), torch.ones(samples))


def linear_toy() -> nn.Module:
    """Two classes; the only stage is the input itself, and the logits are ``W f``."""
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 2, bias=False))
    model[1].weight.data = torch.tensor([[3.0, 0.0, -1.0, 0.5], [0.0, 2.0, 1.0, 0.5]])
    model.stages = ("0",)  # type: ignore[assignment]
    return model


def test_the_influence_of_a_linear_network_is_by_hand() -> None:
    """With two classes the logarithm of the odds is ``(W_c - W_other) f``, however sure the network is."""
    x = torch.tensor([[1.0, 2.0, 0.0, 5.0], [0.0, 0.0, 0.0, 0.0], [-1.0, 1.0, 2.0, 0.0]])
    model = linear_toy()
    labels = torch.tensor([0, 0, 1])
    maps, influence = influences(network(model, 3), x, labels)
    assert torch.equal(maps[0], x)
    apart = torch.tensor([3.0, -2.0, -2.0, 0.0]).abs()  # |W_0 - W_1|
    assert torch.equal(influence[0], apart.expand(3, 4))


def test_a_descriptor_has_the_entries_in_the_order_of_their_influence() -> None:
    x = torch.tensor([[10.0, 20.0, 30.0, 40.0]])
    maps, influence = influences(network(linear_toy(), 1), x, torch.tensor([1]))
    places = most_influential(influence[0], 3)
    assert places.tolist() == [[0, 1, 2]]  # 3, then the first of two 2s
    assert entries_at(maps, places, [3]).tolist() == [[10.0, 20.0, 30.0]]


def test_position_r_is_the_rth_most_influential_entry_whatever_the_order_of_the_units() -> None:
    """Two networks that differ only in the order of their hidden units have the same descriptor."""
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    order = torch.randperm(8)
    second = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    second[0].weight.data, second[0].bias.data = first[0].weight.data[order], first[0].bias.data[order]
    second[2].weight.data, second[2].bias.data = first[2].weight.data[:, order], first[2].bias.data
    x, labels = torch.randn(6, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    found = []
    for model in (first, second):
        model.stages = ("1",)  # type: ignore[assignment]
        maps, influence = influences(network(model, 6), x, labels)
        found.append(entries_at(maps, most_influential(influence[0], 4), [4]))
    assert torch.allclose(found[0], found[1], atol=1e-6)


def test_entries_of_several_blocks_are_beside_each_other() -> None:
    maps = [torch.arange(8.0).view(1, 2, 2, 2), 100 + torch.arange(3.0).view(1, 3)]
    assert entries_at(maps, torch.tensor([[7, 0, 2]]), [2, 1]).tolist() == [[7.0, 0.0, 102.0]]


def test_influences_of_inner_maps_are_those_of_autograd_and_the_same_vectorised() -> None:
    model = build("resnet8", (1, 8, 8), 3, 0, widths=(8, 16)).eval()
    x, labels = torch.randn(4, 1, 8, 8), torch.tensor([0, 2, 1, 1])
    maps, influence = influences(network(model, 4), x, labels)
    stem = model[:3](x)
    first = model[3](stem).detach().requires_grad_()
    second = model[4](first)
    second.retain_grad()
    p = model[5:](second).softmax(1).gather(1, labels.unsqueeze(1)).view(-1, 1, 1, 1)
    p.sum().backward()  # of p itself: the same for each sample, but for a positive factor
    for found, gradient, mine in zip(influence, (first.grad, second.grad), maps, strict=True):
        assert torch.allclose(found * (p * (1 - p)).detach(), gradient.abs(), atol=1e-6)
        assert mine.shape == gradient.shape
    weights = {name: torch.stack([p.detach(), p.detach()]) for name, p in model.named_parameters()}

    def look(tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        maps, both = influences(FunctionalNetwork(model, tensors, torch.ones(4)), x, labels)
        return entries_at(maps[1:], most_influential(both[1], 5), [5]), most_influential(both[0], 3)

    together, places = torch.func.vmap(look)(weights)
    assert torch.allclose(together[1], entries_at(maps[1:], most_influential(influence[1], 5), [5]), atol=1e-5)
    assert torch.equal(places[0], most_influential(influence[0], 3))


def test_no_hook_is_left_behind() -> None:
    model = linear_toy()
    influences(network(model, 1), torch.ones(1, 4), torch.tensor([0]))
    assert not model[0]._forward_hooks


@pytest.mark.parametrize(("place", "expected"), [(0.0, [4.0, 6.0]), (0.5, [6.0, 12.0]), (1.0, [12.0, 14.0])])
def test_pool_and_crop_by_hand(place: float, expected: list[float]) -> None:
    """A 2×2×4 map of 0..15 has the 2×2 maxima 5, 7, 13 and 15; minus one each."""
    last = torch.arange(16.0).view(1, 2, 2, 4) - 1
    assert pool_and_crop(last, 2, place).tolist() == [expected]
    assert pooled_width((2, 2, 4)) == 4


def test_a_map_of_one_place_is_not_pooled() -> None:
    assert pooled_width((7, 1, 1)) == 7
    assert pool_and_crop(torch.arange(3.0).view(1, 3, 1, 1), 3, 0.7).tolist() == [[0.0, 1.0, 2.0]]


def test_the_cosine_distance_by_hand() -> None:
    found = torch.tensor([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0], [0.0, 0.0]])
    goal = torch.tensor([[0.0, 3.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    assert cosine_distance(found, goal).tolist() == pytest.approx([1.0, 1 - 1 / math.sqrt(2), 2.0, 1.0])
