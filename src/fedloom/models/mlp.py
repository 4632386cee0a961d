"""Models for vectors, and for anything else once it is flattened: the two every comparison starts with."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import nn

from fedloom.models.chain import Shape, chain, dense
from fedloom.models.model_kind import takes_anything


@takes_anything
def logistic(input_shape: Shape, classes: int) -> nn.Sequential:
    """Multinomial logistic regression: one linear layer on the flattened input."""
    return chain([nn.Flatten()], nn.Linear(prod(input_shape), classes))


@takes_anything
def mlp(input_shape: Shape, classes: int, hidden: Sequence[int] | int = (200,)) -> nn.Sequential:
    """Multi-layer perceptron with ReLU between its layers.

    The default, one hidden layer of 200, is half of the 2NN of McMahan et al., Communication-Efficient Learning of
    Deep Networks from Decentralized Data, AISTATS 2017, which has ``hidden=(200, 200)``: 199,210 parameters on MNIST.
    """
    widths = [hidden] if isinstance(hidden, int) else list(hidden)
    inputs = prod(input_shape)
    return chain([nn.Flatten(), *dense(inputs, widths)], nn.Linear([inputs, *widths][-1], classes))
