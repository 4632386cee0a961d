"""Which of a model's outputs is trained and evaluated.

A model may return a dict, a tuple or an object of tensors. It declares the one that counts, as it declares its parts:
``output = "logits"`` in its class (``model.output = "logits"`` for a module that somebody else wrote), or the place of
an entry of a tuple. A model that returns one tensor, alone or beside what is None, needs no declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn

from fedloom.core.errors import FedloomError, unknown


def chosen_output(model: nn.Module, returned: Any) -> Tensor:
    """The tensor that counts of what a model returned.

    Args:
        returned: What its forward pass returned.
    """
    if isinstance(returned, Tensor):
        return returned
    name, choices = getattr(model, "output", None), _choices(returned)
    if name is None:
        tensors = [one for one in choices.values() if isinstance(one, Tensor)]
        if len(tensors) == 1 and all(one is None or one is tensors[0] for one in choices.values()):
            return tensors[0]
    if not isinstance(name, str | int):
        raise FedloomError(_refusal(model, returned, choices))
    if isinstance(name, int) and not isinstance(returned, Mapping):
        name = list(choices)[name] if -len(choices) <= name < len(choices) else str(name)
    if name not in choices:
        raise unknown(f"output of {type(model).__name__}:", str(name), [str(choice) for choice in choices])
    chosen: Tensor = choices[name]
    return chosen


def _choices(returned: Any) -> dict[Any, Any]:
    """What a model returned, by name or place."""
    if isinstance(returned, Mapping):
        return dict(returned)
    if isinstance(returned, tuple | list):
        names = getattr(returned, "_fields", range(len(returned)))
        return dict(zip(names, returned, strict=True))
    if is_dataclass(returned):
        return {field.name: getattr(returned, field.name) for field in fields(returned)}
    return {name: value for name, value in getattr(returned, "__dict__", {}).items() if not name.startswith("_")}


def _refusal(model: nn.Module, returned: Any, choices: dict[Any, Any]) -> str:
    what = f"the model {type(model).__name__} returns a {type(returned).__name__}"
    if not choices:
        return f"{what}: return a tensor, the outputs."
    shown, first = ", ".join(map(str, choices)), next(iter(choices))
    return f"{what} of {shown}: declare which of them is trained, for instance output = {first!r} in its class."
