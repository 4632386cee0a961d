"""Reading samples out of a linear first layer that has a bias: a division, and exact.

For ``z = W x + b`` the gradients of one sample are ``dW_i = g_i x`` and ``db_i = g_i``, whatever comes after the
layer: ``x = dW_i / db_i`` for any i with ``db_i != 0``. Of a batch both are sums, and neuron i gives the mean of
samples weighted by ``g_i``: a sample itself, where i was active for that sample alone. Updates do as well as
gradients, since a learning rate cancels, and of one sample any number of local steps. Phong, Aono, Hayashi, Wang and
Moriai, Privacy-Preserving Deep Learning via Additively Homomorphic Encryption, IEEE TIFS 2018,
https://doi.org/10.1109/TIFS.2017.2787987.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.core.layout import Slot
from fedloom.core.task import Task

LEAST = 1e-6
"""A bias that moved by less than this share of the one that moved most is noise of rounding."""


@dataclass(frozen=True)
class FirstLayer:
    """The linear layer that sees samples as they are.

    Args:
        name: The name of the layer.
        weight: Where its weight lies in a row.
        bias: Where its bias lies.
        next: Where the weight of the linear layer lies that sees its outputs after a ReLU; None if there is none.
    """

    name: str
    weight: Slot
    bias: Slot
    next: Slot | None = None


def first_linear_layer(task: Task) -> FirstLayer | None:
    """The linear layer with a bias that a model's inputs reach unchanged; None if there is none.

    It is found by what the layers get of an input of noise, and so in any module.
    """
    if task.has_named_inputs:
        return None
    shape = inputs_of(task, task.sample).shape
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    seen = _linear_calls(task.model, noise)
    slots = {slot.name: slot for slot in task.layout.trainable}
    for name, (given, made) in seen.items():
        weight, bias = slots.get(f"{name}.weight".lstrip(".")), slots.get(f"{name}.bias".lstrip("."))
        if weight is None or bias is None or given.numel() != noise.numel() or weight.shape[1] != noise.numel():
            continue  # a layer that sees a sequence step by step gives mixtures of its steps away, and no sample
        if torch.equal(given.flatten(), noise.flatten()):
            after = (other for other, (got, _) in seen.items() if _is(got, made.relu()))
            return FirstLayer(name, weight, bias, slots.get(f"{next(after, '')}.weight"))
    return None


def read_linear_layer(weight_change: Tensor, bias_change: Tensor, least: float = LEAST) -> Tensor:
    """``dW_i / db_i`` of every neuron whose bias moved, the most moved first.

    Args:
        weight_change: The change, or gradient, of the weight: neurons×inputs.
        bias_change: The same of the bias, one number per neuron.
        least: The smallest share of the largest change of a bias that is not taken for rounding.
    """
    size = bias_change.abs()
    moved = (size > least * size.max()) & (size > 0)
    order = size.argsort(descending=True)
    order = order[moved[order]]
    return weight_change[order] / bias_change[order, None]


def _linear_calls(model: nn.Module, inputs: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """What each linear layer gets and makes of some inputs."""
    found: dict[str, tuple[Tensor, Tensor]] = {}

    def note(name: str) -> Any:
        def hook(_: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
            found.setdefault(name, (given[0].detach(), made.detach()))

        return hook

    linear = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    hooks = [layer.register_forward_hook(note(name)) for name, layer in linear]
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()(inputs)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return found


def _is(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)
