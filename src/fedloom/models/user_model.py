"""A user's own model: a class or a function that makes a ``torch.nn.Module``, in Python or as ``net.py:Net``.

It is called by one rule. A parameter with one of these names gets what the data say: ``inputs`` (how many numbers a
sample has), ``input_shape`` (its shape), ``outputs`` or ``classes`` (how many outputs the model must have). Every other
parameter is an option of the model, or has a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from fedloom.core import seeds
from fedloom.core.errors import FedloomError, unknown
from fedloom.models.chain import Shape
from fedloom.registry.user_classes import user_callable
from fedloom.registry.user_errors import describe_error

Maker = Callable[..., nn.Module]
"""A class of modules, or a function that makes one."""


def user_model(
    model: str | Maker,
    input_shape: Shape | Mapping[str, Shape],
    outputs: int,
    seed: int,
    options: Mapping[str, Any],
) -> nn.Module:
    """A user's module with the initial weights of a seed; torch's own random state is left as it was.

    Args:
        model: ``net.py:Net``, a class or a function.
        input_shape: The shape of one sample; of several input columns, the shapes by column.
        outputs: How many outputs it must have.
        seed: The seed of the initial weights.
        options: Its other arguments.
    """
    name = model if isinstance(model, str) else getattr(model, "__qualname__", repr(model))
    with torch.random.fork_rng(devices=[]):
        maker = user_callable(model, "model") if isinstance(model, str) else model
        arguments = _arguments(name, maker, _sizes(input_shape, outputs), options)
        torch.manual_seed(seeds.key(seed, "model"))
        try:
            made = maker(**arguments)
            if isinstance(made, nn.Module) and not isinstance(input_shape, Mapping):
                _fill_lazy_layers(made, input_shape)
        except FedloomError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise FedloomError(f"model '{name}' cannot be made: {describe_error(error)}.") from error
    if not isinstance(made, nn.Module):
        raise FedloomError(f"model '{name}' gives {_article(made)} and not a torch.nn.Module: return a module.")
    return made


def _sizes(shape: Shape | Mapping[str, Shape], outputs: int) -> dict[str, Any]:
    """What a maker may ask for by name; of several input columns, ``inputs`` and ``input_shape`` are dicts."""
    if isinstance(shape, Mapping):
        inputs: Any = {column: prod(one) for column, one in shape.items()}
        whole: Any = {column: tuple(one) for column, one in shape.items()}
    else:
        inputs, whole = prod(shape), tuple(shape)
    return {"inputs": inputs, "input_shape": whole, "outputs": outputs, "classes": outputs}


def _arguments(name: str, maker: Maker, sizes: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call: the options, and those sizes that the maker has a parameter for."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return dict(options)  # a function of an extension module does not say what it takes
    named = {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for option in options:
            if option not in named:
                raise unknown(f"option of model {name}:", option, named)
    given = {**{size: value for size, value in sizes.items() if size in named}, **options}
    missing = [p.name for p in named.values() if p.default is p.empty and p.name not in given]
    if missing:
        raise FedloomError(
            f"model '{name}' needs '{missing[0]}': give it as an option ({missing[0]}=...) or a default; "
            f"{', '.join(sizes)} come from the data."
        )
    return given


def _fill_lazy_layers(model: nn.Module, shape: Shape) -> None:
    """Let lazy layers find their sizes with one pass of zeros."""
    if any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        with torch.no_grad():
            model(torch.zeros(2, *shape))


def _article(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"
