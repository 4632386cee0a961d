"""A model from its name or from a user's code, and which one a kind of data gets by default."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from fedloom.core import seeds
from fedloom.core.errors import FedloomError, unknown
from fedloom.models.chain import Shape
from fedloom.models.model_kind import ModelKind
from fedloom.models.user_model import Maker, user_model
from fedloom.registry.kinds import MODELS
from fedloom.registry.user_errors import describe_error


def build(
    name: str | Maker, input_shape: Shape | Mapping[str, Shape], classes: int, seed: int, **options: object
) -> nn.Module:
    """A new model with the initial weights of a seed; torch's own random state is left as it was.

    Args:
        name: A name of ``fedloom list models``, or a user's class or function (``net.py:Net``, or itself).
        input_shape: The shape of one sample; of several input columns, the shapes by column. A model that takes one
            tensor is built for the columns joined along their first axis.
        classes: The number of outputs.
        seed: The seed of the initial weights.
        **options: Options of the model.
    """
    if classes < 1:
        raise FedloomError(f"classes={classes}: a model needs at least one output.")
    if not isinstance(name, str) or ":" in name:
        return user_model(name, input_shape, classes, seed, options)
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    offered = MODELS[name]
    if not isinstance(offered, ModelKind):  # a package's class or function
        return user_model(offered, input_shape, classes, seed, options)
    kind: ModelKind[..., nn.Module] = offered
    shape: object = input_shape
    if not (isinstance(input_shape, Mapping) and kind.columns):
        shape = one = _one_shape(name, input_shape)
        if not kind.fits(one):
            several = isinstance(input_shape, Mapping)
            able = [other for other, k in builtin_kinds() if k.fits(one) or (several and k.columns)]
            fitting = ", ".join(able) or "none"
            raise FedloomError(
                f"model '{name}' takes {kind.takes}, but the inputs have shape {one}: models that fit are {fitting}."
            )
    for option in options:
        if option not in kind.options:
            known = f"it has {', '.join(kind.options)}" if kind.options else "it has none"
            raise FedloomError(f"model '{name}' has no option '{option}': {known}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.key(seed, "model"))
        try:
            return kind.builder(shape, classes, **options)
        except (TypeError, ValueError, RuntimeError) as error:  # an option of a wrong type or size
            _refuse_wrong_types(name, kind, options)
            shown = ", ".join(f"{option}={value}" for option, value in options.items())
            raise FedloomError(f"model '{name}' cannot be made with {shown}: {describe_error(error)}.") from error


def builtin_kinds() -> Iterator[tuple[str, ModelKind[..., nn.Module]]]:
    """The built-in models by name."""
    for name in MODELS.builtin:
        yield name, MODELS[name]


def _refuse_wrong_types(name: str, kind: ModelKind[..., nn.Module], options: Mapping[str, object]) -> None:
    """Name the first option whose value is of another type than the builder's; torch's word names none."""
    types, usual = get_type_hints(kind.builder), inspect.signature(kind.builder).parameters
    for option, value in options.items():
        try:
            TypeAdapter(types[option]).validate_python(value)
        except ValidationError:
            default = usual[option].default
            example = list(default) if isinstance(default, tuple) else default
            raise FedloomError(
                f"model '{name}' cannot be made with {option}={value!r}: give a value such as {example}."
            ) from None


def _one_shape(name: str, shapes: Shape | Mapping[str, Shape]) -> tuple[int, ...]:
    """The shape of one input, or of several columns joined along their first axis."""
    if not isinstance(shapes, Mapping):
        return tuple(shapes)
    if len({tuple(shape[1:]) for shape in shapes.values()}) > 1:
        shown = ", ".join(f"{column} {tuple(shape)}" for column, shape in shapes.items())
        able = ", ".join(other for other, kind in builtin_kinds() if kind.columns)
        raise FedloomError(
            f"model '{name}' takes one tensor, but the input columns {shown} cannot be joined along their first axis: "
            f"models that take columns are {able}."
        )
    rest = next(iter(shapes.values()))[1:]
    return (sum(shape[0] for shape in shapes.values()), *rest)


KINDS = ("table", "image", "signal", "characters", "words")


def default_for(input_shape: Shape | Mapping[str, Shape], classes: int, kind: str) -> str:
    """The name of the model that a kind of data (one of ``KINDS``) gets by default."""
    if kind not in KINDS:
        raise unknown("kind of data", kind, KINDS)
    if isinstance(input_shape, Mapping):
        return "late-fusion"
    if kind == "image":
        if min(input_shape[1:]) < 16:
            return "mlp"
        if input_shape[0] > 1:
            return "lenet"
        return "lenet-small" if classes <= 10 else "emnist-cnn"
    return {"table": "mlp", "signal": "conv1d", "characters": "char-lstm", "words": "word-lstm"}[kind]
