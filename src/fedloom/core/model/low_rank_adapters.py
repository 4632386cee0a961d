"""Low-rank adapters: beside every linear layer a small product that trains, while the layer itself stays as it is.

``y = W x + b + (alpha / rank) B A x`` with W and b frozen. A (rank × inputs) is random and B (outputs × rank) is zero,
so the first model is the one without adapters. Only A and B train, and only they travel.

Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022, https://arxiv.org/abs/2106.09685. A is uniform
within ``1 / sqrt(inputs)``, as in the authors' code. A server that averages A and B averages factors and not products:
``mean(B) mean(A)`` is not ``mean(B A)`` where clients' factors differ (Sun et al., FFA-LoRA, ICLR 2024).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import matches, part_of_parameters
from fedloom.core.model.frozen_parts import listed, match_names
from fedloom.core.seeds import generator
from fedloom.core.settings import Count, Positive


@dataclass(frozen=True)
class LowRankAdapters:
    """Which linear layers get an adapter, and how large (``task.adapters``).

    Args:
        rank: How many rows A has.
        alpha: The scale of the product is ``alpha / rank``.
        on: The names of linear layers, as patterns (``encoder.*``).
        train: Patterns of parameters that train and travel whole, such as a new head (``head.*``); a layer with such
            parameters gets no adapter.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    rank: Count = 4
    alpha: Positive = 8.0
    on: tuple[str, ...] = ("*",)
    train: tuple[str, ...] = ()


class LowRankLinear(nn.Module):
    """A frozen linear layer and its adapter."""

    def __init__(self, base: nn.Linear, rank: int, alpha: float, randomness: torch.Generator) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        with torch.random.fork_rng(devices=[]):  # the layers draw weights, which are replaced
            self.down = nn.Linear(base.in_features, rank, bias=False)
            self.up = nn.Linear(rank, base.out_features, bias=False)
        bound = base.in_features**-0.5
        nn.init.uniform_(self.down.weight, -bound, bound, generator=randomness)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's outputs, and the adapter's."""
        out: Tensor = self.base(x) + self.scale * self.up(self.down(x))
        return out

    def merged(self) -> nn.Linear:
        """One linear layer that does the same."""
        made = copy.deepcopy(self.base)
        with torch.no_grad():
            made.weight += self.scale * self.up.weight @ self.down.weight
        return made


def with_adapters(model: nn.Module, adapters: LowRankAdapters, seed: int) -> nn.Module:
    """A copy of a model that has adapters, and in which nothing else trains but what ``adapters.train`` names.

    Args:
        seed: The seed of the matrices A.
    """
    made = copy.deepcopy(model)
    names = [name for name, _ in made.named_parameters()]
    whole = match_names(names, adapters.train, "task.adapters.train", "parameter")
    layers = [name for name, layer in made.named_modules() if name and type(layer) is nn.Linear]
    if not layers:
        raise FedloomError(
            f"task.adapters: {type(model).__name__} has no nn.Linear inside, and only those get adapters: leave it "
            "out, or freeze parts with task.frozen."
        )
    chosen = [
        name
        for name in match_names(layers, adapters.on, "task.adapters.on", "nn.Linear")
        if not any(matches(f"{name}.{leaf}", adapters.train) for leaf in ("weight", "bias"))
    ]
    if not chosen:
        raise FedloomError(
            f"task.adapters: train names all layers of on ({listed(layers)}), so none gets an adapter: leave it out."
        )
    training = [name for name, parameter in made.named_parameters() if parameter.requires_grad]
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name in whole)
    for place, name in enumerate(chosen):
        owner, _, leaf = name.rpartition(".")
        base, randomness = cast(nn.Linear, made.get_submodule(name)), generator(seed, "adapters", place)
        setattr(made.get_submodule(owner), leaf, LowRankLinear(base, adapters.rank, adapters.alpha, randomness))
    made.parts = _declared_parts(model, chosen)  # type: ignore[assignment]
    made.frozen_parameters = tuple(name for name in training if name not in whole)  # type: ignore[assignment]
    return made


def _declared_parts(model: nn.Module, adapted: Collection[str]) -> dict[str, list[str]]:
    """The parts of a model as a declaration that still holds with adapters: an adapter is in its layer's part.

    Args:
        model: The model without adapters.
        adapted: The layers that get one.
    """
    parts: dict[str, list[str]] = {}
    for name, part in part_of_parameters(model).items():
        layer = name.rpartition(".")[0]
        pattern = f"{layer}.*" if layer in adapted else name
        if part != "body" and pattern not in parts.setdefault(part, []):
            parts[part].append(pattern)
    return parts


def _adapter_layers(model: nn.Module) -> Iterator[tuple[str, LowRankLinear]]:
    """The layers with adapters, by name."""
    return ((name, layer) for name, layer in model.named_modules() if isinstance(layer, LowRankLinear))


def adapted_names(model: nn.Module) -> dict[str, str]:
    """What the tensors of a model without adapters are called in this model, where that is another name."""
    return {
        f"{name}.{leaf}": f"{name}.base.{leaf}"
        for name, layer in _adapter_layers(model)
        for leaf, _ in layer.base.named_parameters()
    }


def adapter_tensors(model: nn.Module) -> set[str]:
    """The names of the matrices A and B of a model."""
    return {f"{name}.{matrix}.weight" for name, _ in _adapter_layers(model) for matrix in ("down", "up")}


def merge_adapters(model: nn.Module) -> nn.Module:
    """A copy of a model whose adapters are added to their layers: an ordinary module with the same outputs.

    Args:
        model: A model with adapters, such as ``history.model(task)`` gives; any other is only copied.
    """
    return _with_layers(model, LowRankLinear.merged)


def without_adapters(model: nn.Module) -> nn.Module:
    """A copy of a model whose adapters are dropped, as it was before it had them.

    Args:
        model: A model with adapters; any other is only copied.
    """
    return _with_layers(model, lambda layer: layer.base)


def _with_layers(model: nn.Module, plain: Callable[[LowRankLinear], nn.Linear]) -> nn.Module:
    """A copy of a model with plain layers in the places of those with adapters."""
    made = copy.deepcopy(model)
    for name, layer in list(_adapter_layers(made)):
        owner, _, leaf = name.rpartition(".")
        setattr(made.get_submodule(owner), leaf, plain(layer))
    return made
