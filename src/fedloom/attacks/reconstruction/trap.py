"""Trap weights: a first layer that sorts samples into bins, so that differences of adjacent neurons are single samples.

All neurons of the layer measure the same of a sample, ``h(x) = <h, x>``, and neuron i is active above the i-th quantile
of it: ``W_i = scale h``, ``b_i = -scale c_i``, ``c_1 < c_2 < ...``. All have the same weight ``v`` into the next layer,
so that a sample adds the same ``g(x)`` to the gradient of each neuron that it activates. Then

    ``(dW_i - dW_(i+1)) / (db_i - db_(i+1)) = sum g(x) x / sum g(x)`` over the samples between c_i and c_(i+1):

a sample itself, wherever it is alone in its bin. Fowl, Geiping, Czaja, Goldblum and Goldstein, Robbing the Fed:
Directly Obtaining Private Data in Federated Learning with Modified Models, ICLR 2022,
https://arxiv.org/abs/2110.13057. They add such a layer to any model; we set the weights of a model that begins with a
linear layer and ReLU, which no site can refuse by its shape.

``v`` alternates in sign, so that predictions stay even. It is exact for one step. Further local steps start from
weights that have moved: samples change their bin by what was added to the first layer, less so where ``scale`` is
large and ``v`` small, and neurons differ by what was added to ``v``, less so where it is the other way round. The
defaults lie between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.linear_layer import LEAST, FirstLayer, read_linear_layer
from fedloom.core.task import Task

PUBLIC = 2000
"""How many samples the quantiles are taken of, at most."""


def measurement(inputs: int, generator: torch.Generator) -> Tensor:
    """What is measured of a sample: a random direction, in which hardly two samples are alike.

    Args:
        inputs: How many numbers a sample has.
        generator: Draws the direction.
    """
    direction: Tensor = torch.randn(inputs, generator=generator) / inputs**0.5
    return direction


def bin_edges(task: Task, direction: Tensor, bins: int) -> Tensor:
    """The edges between which samples are equally frequent, by the test samples that the server has.

    Args:
        direction: What is measured.
        bins: How many there are.
    """
    positions = task.federation.global_test[:PUBLIC]
    measured = inputs_of(task, positions).flatten(1) @ direction
    shares = (torch.arange(bins) + 0.5) / bins
    return torch.quantile(measured, shares)


def set_trap(
    task: Task, row: Tensor, first: FirstLayer, generator: torch.Generator, scale: float, push: float
) -> Tensor:
    """The model with a trap for its first layer; the layers after the second one stay.

    Args:
        task: The task, whose model it is.
        row: The model.
        first: Its first layer, and the one after it.
        generator: Draws what is measured.
        scale: How large the weights of the first layer are.
        push: How large those of the second one are.
    """
    if first.next is None:
        raise ValueError("a trap needs a linear layer after the first one")
    trapped = row.clone()
    views = task.layout.views(trapped)
    neurons, inputs = first.weight.shape
    direction = measurement(inputs, generator)
    views[first.weight.name].copy_((scale * direction).expand(neurons, inputs))
    views[first.bias.name].copy_(-scale * bin_edges(task, direction, neurons))
    outputs = first.next.shape[0]
    signs = torch.where(torch.arange(outputs) % 2 == 0, 1.0, -1.0)
    views[first.next.name].copy_((push * signs)[:, None].expand(outputs, neurons))
    return trapped


def read_trap(weight_change: Tensor, bias_change: Tensor, least: float = LEAST) -> Tensor:
    """A candidate per bin that is not empty: differences of adjacent neurons, and the last neuron alone.

    Args:
        weight_change: The change of the first layer's weight: neurons×inputs.
        least: The smallest share of the largest change that is not taken for rounding.
    """
    nothing = torch.zeros_like(weight_change[:1])
    weights = weight_change - torch.cat([weight_change[1:], nothing])
    biases = bias_change - torch.cat([bias_change[1:], nothing[:, 0]])
    return read_linear_layer(weights, biases, least)
