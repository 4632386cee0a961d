"""What a built-in model takes: a decorator above the function that builds it says which inputs fit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Generic, ParamSpec, TypeVar

from torch import nn

from fedloom.models.chain import Shape

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module, covariant=True)


@dataclass(frozen=True)
class ModelKind(Generic[P, M]):
    """A named way to build a model: ``builder(input_shape, classes, **options)``, and the inputs it takes."""

    builder: Callable[P, M]
    takes: str
    fits: Callable[[Shape], bool]
    """Whether it takes inputs of a shape; joined ones, where there are several input columns."""
    columns: bool = False
    """Whether it takes several input columns: a builder of them gets a mapping of shapes by column."""

    def __call__(self, *args: P.args, **options: P.kwargs) -> M:
        return self.builder(*args, **options)

    @property
    def about(self) -> str:
        """What the model is, in one line."""
        return (inspect.getdoc(self.builder) or "").splitlines()[0]

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options that the builder has beyond shape and classes."""
        return tuple(inspect.signature(self.builder).parameters)[2:]


def takes_anything(builder: Callable[P, M]) -> ModelKind[P, M]:
    """A model for inputs of any shape."""
    return ModelKind(builder, "inputs of any shape", lambda shape: prod(shape) > 0)


def takes_images(smallest: int) -> Callable[[Callable[P, M]], ModelKind[P, M]]:
    """A model for images of at least ``smallest`` pixels in both directions."""

    def declare(builder: Callable[P, M]) -> ModelKind[P, M]:
        return ModelKind(
            builder,
            f"images (channels, height, width) of at least {smallest}×{smallest}",
            lambda shape: len(shape) == 3 and min(shape[1:]) >= smallest,
        )

    return declare


def takes_signals(shortest: int) -> Callable[[Callable[P, M]], ModelKind[P, M]]:
    """A model for signals of at least ``shortest`` steps."""

    def declare(builder: Callable[P, M]) -> ModelKind[P, M]:
        return ModelKind(
            builder,
            f"signals (channels, steps) of at least {shortest} steps",
            lambda shape: len(shape) == 2 and shape[1] >= shortest,
        )

    return declare


def takes_tokens(builder: Callable[P, M]) -> ModelKind[P, M]:
    """A model for sequences of tokens."""
    return ModelKind(builder, "sequences of tokens (steps)", lambda shape: len(shape) == 1 and shape[0] > 0)


def takes_sequences(builder: Callable[P, M]) -> ModelKind[P, M]:
    """A model for sequences of unequal length, with a last channel of 1 at real steps and 0 at padding."""
    return ModelKind(
        builder,
        "sequences of unequal length (channels + 1, steps), whose last channel is 1 at real steps",
        lambda shape: len(shape) == 2 and shape[0] >= 2 and shape[1] > 0,
    )


def takes_columns(builder: Callable[P, M]) -> ModelKind[P, M]:
    """A model for several input columns."""
    return ModelKind(builder, "several input columns, of any shapes", lambda _: False, columns=True)
