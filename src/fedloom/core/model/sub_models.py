"""Federated dropout: every client trains a sub-model, some units of every hidden layer, drawn anew in every round.

Only the weights between these units go down, and only their changes come back; the server adds them where they belong,
and what a client did not get it has not changed. A client trains the whole model with zeros in the place of all other
weights: a dropped unit then gives ``f(0) = 0``, which changes no output, and none of its weights gets a gradient. That
is the training of the smaller model itself, for chains of linear and convolutional layers whose functions in between
map 0 to 0. Other models are refused. It saves bytes; in this simulation it saves no work.

Units are not scaled: the whole model, which nobody has trained, sums over more of them than any sub-model.

Caldas, Konečný, McMahan and Talwalkar, Expanding the Reach of Federated Learning by Reducing Client Resource
Requirements, 2018, https://arxiv.org/abs/1812.07210.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.layout import Layout, Slot
from fedloom.core.seeds import key
from fedloom.core.settings import PositiveShare, check_settings

WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d)
KEEPS_ZERO = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Identity),
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d),
    *(nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
)
"""Layers without weights that make zeros of a unit's zeros and keep units apart."""


@dataclass(frozen=True)
class FederatedDropout:
    """Clients train sub-models: some units of every hidden layer.

    Args:
        keep: The share of the units of a hidden layer that a client trains; at least one.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    needs: ClassVar[Facts] = {
        **dict.fromkeys(
            (Fact.EXCHANGES, Fact.WHOLE_MODEL, Fact.TRAINS_LOCALLY, Fact.SHARED_PREDICTION, Fact.PLAIN_MODEL),
            "cuts one model that goes down and comes back: use fedavg, fedprox or one with a server optimiser",
        ),
        Fact.FROM_SERVER: "cuts the model that the server sends: leave out federated_dropout",
    }
    breaks: ClassVar[Facts] = {
        Fact.SAME_WEIGHTS: "lets a client train other weights in every round",
        Fact.SAME_START: "sends other columns of the model to each client: leave out one of the two",
        Fact.MIXED_MODELS: "is made for one model: leave it out, or task.models",
    }

    keep: PositiveShare = 0.75

    def __post_init__(self) -> None:
        check_settings(self, "federated_dropout")

    def sub_models(self, model: nn.Module) -> SubModels:
        """The sub-models of a model; a ``FedloomError`` if it has none.

        Args:
            model: The whole model.
        """
        layers = chain_layers(model)
        kept = tuple(max(1, round(self.keep * layer.units)) for layer in layers[:-1])
        return SubModels(Layout.of(model).width, layers, kept)


@dataclass(frozen=True)
class ChainLayer:
    """A layer with weights: where its tensors lie in a row.

    Args:
        weight: The place of its weights, of shape units × inputs × ...
        bias: The place of its biases, if it has any.
        inputs: How many units the layer before it has; 1 for the input of the model, which nobody drops.
    """

    weight: Slot
    bias: Slot | None
    inputs: int

    @property
    def units(self) -> int:
        """How many units it has."""
        return self.weight.shape[0]

    def columns(self, outs: Tensor, ins: Tensor) -> Tensor:
        """The columns of a row that belong to some of its units and some of the layer before.

        Args:
            outs: Its own units.
            ins: Those of the layer before.
        """
        each = prod(self.weight.shape) // (self.units * self.inputs)
        pairs = (outs[:, None] * self.inputs + ins).flatten()
        found = self.weight.start + (pairs[:, None] * each + torch.arange(each)).flatten()
        return found if self.bias is None else torch.cat([found, self.bias.start + outs])


@dataclass(frozen=True)
class SubModels:
    """The sub-models of a model, all of them of one size.

    Args:
        whole: The width of a row of the model.
        layers: The layers with weights; the last one is never cut.
        kept: How many units of each of the others a sub-model has.
    """

    whole: int
    layers: tuple[ChainLayer, ...]
    kept: tuple[int, ...]

    @property
    def width(self) -> int:
        """The width of a row of a sub-model."""
        return len(self.columns(0))

    def columns(self, seed: int) -> Tensor:
        """The columns of the whole row that a sub-model has.

        Units come from the raw bits of PCG64, which numpy never changes: a site with another version draws the same.

        Args:
            seed: The number that the sub-model is drawn by.
        """
        ins, found = torch.zeros(1, dtype=torch.int64), []
        for number, layer in enumerate(self.layers):
            outs = torch.arange(layer.units)
            if number < len(self.kept):
                bits = np.random.PCG64((seed, number)).random_raw(layer.units)
                outs = torch.from_numpy(np.sort(np.argsort(bits, kind="stable")[: self.kept[number]]))
            found.append(layer.columns(outs, ins))
            ins = outs
        return torch.cat(found)

    def columns_of(self, seeds: list[int]) -> Tensor:
        """The columns of some sub-models, a row each.

        Args:
            seeds: The numbers that they are drawn by.
        """
        return torch.stack([self.columns(seed) for seed in seeds])

    def cut(self, row: Tensor, columns: Tensor) -> Tensor:
        """The weights of some sub-models.

        Args:
            row: One whole row, or one per sub-model.
        """
        return row.expand(len(columns), -1).gather(1, columns)

    def spread(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Whole rows with zeros where a sub-model has nothing.

        Args:
            rows: The weights of some sub-models.
        """
        return rows.new_zeros(len(rows), self.whole).scatter(1, columns, rows)


@dataclass(frozen=True)
class SubModelDraw:
    """Who trains a sub-model in which round: server and client draw the same one by it.

    Args:
        turn: How often the clients were already asked in this round.
        ids: The clients.
    """

    seed: int
    round: int
    turn: int
    ids: list[int]

    @property
    def seeds(self) -> list[int]:
        """The number by which the sub-model of each client is drawn."""
        return [key(self.seed, "federated dropout", self.round, client, self.turn) for client in self.ids]


def chain_layers(model: nn.Module) -> tuple[ChainLayer, ...]:
    """The layers with weights of a model that is a chain; a ``FedloomError`` names what cannot be cut.

    Args:
        model: The whole model.
    """
    slots = {slot.name: slot for slot in Layout.of(model).slots}
    found: list[ChainLayer] = []
    before: nn.Module | None = None
    for name, layer in _chain(model):
        if isinstance(layer, WEIGHTED):
            if isinstance(layer, nn.Conv1d | nn.Conv2d) and layer.groups != 1:
                raise FedloomError(f"federated_dropout cannot cut {name}, a convolution in groups: use another model.")
            if isinstance(layer, nn.Linear) and isinstance(before, nn.Conv1d | nn.Conv2d):
                raise FedloomError(
                    f"federated_dropout cannot cut {name}, which mixes positions: put a Flatten before it."
                )
            weight = slots.pop(f"{name}.weight", None)
            if weight is None:
                raise FedloomError(f"federated_dropout cannot cut {name}, which is frozen: use another model.")
            before = layer
            found.append(ChainLayer(weight, slots.pop(f"{name}.bias", None), found[-1].units if found else 1))
        elif isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1):
            before = layer
        elif not isinstance(layer, KEEPS_ZERO):
            raise FedloomError(
                f"federated_dropout cannot cut {name}, a {type(layer).__name__}: the units that a client does not get "
                "must stay 0 in the whole model, which holds for chains of linear and convolutional layers, ReLU and "
                "its like, and pooling."
            )
    if slots or len(found) < 2:
        raise FedloomError("federated_dropout needs a model with a hidden layer, and nothing besides its layers.")
    return tuple(found)


def _chain(model: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]]:
    """The layers of an ``nn.Sequential`` in order, with their names; of any other module itself."""
    if type(model) is not nn.Sequential:
        return [(prefix.removesuffix(".") or "the model", model)]
    return [one for name, layer in model.named_children() for one in _chain(layer, f"{prefix}{name}.")]
