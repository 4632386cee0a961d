"""The stages of a model: the modules whose outputs methods look at, besides the model's own outputs.

A model names them in order, as it declares its parts: ``stages = ("3", "4", "5")`` in its class, or
``model.stages = (...)`` for a module that somebody else wrote. A name is that of a submodule.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.model.model_output import chosen_output


def stage_names(model: nn.Module) -> tuple[str, ...]:
    """The names of a model's stages; a model without any, or with a name that it does not have, is refused."""
    names, kind = getattr(model, "stages", ()), type(model).__name__
    if not names or not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise FedloomError(
            f"{kind} names no stages: give it the names of the submodules whose outputs are its stages, for instance "
            "stages = ('3', '4', '5')."
        )
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules or not name:
            raise FedloomError(
                f"the stage '{name}' of {kind} is not one of its submodules: it has {', '.join(list(modules)[1:])}."
            )
    return tuple(names)


def run_with_stages(model: nn.Module, x: Inputs) -> tuple[Tensor, list[Tensor]]:
    """The outputs of a model for prepared inputs, and the outputs of its stages, in order.

    Args:
        x: Prepared inputs.
    """
    names, maps = stage_names(model), {}

    def note(name: str, module: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG001
        if not isinstance(output, Tensor):
            raise FedloomError(
                f"the stage '{name}' of {type(model).__name__} returns a {type(output).__name__} and not a tensor: "
                "name a submodule that returns one."
            )
        maps[name] = output

    hooks = [model.get_submodule(name).register_forward_hook(partial(note, name)) for name in names]
    try:
        outputs = chosen_output(model, model(x))
    finally:
        for hook in hooks:
            hook.remove()
    return outputs, [maps[name] for name in names]


def stage_maps(model: nn.Module, x: Inputs) -> list[Tensor]:
    """The outputs of a model's stages in evaluation mode; the model stays in its own.

    Args:
        x: Prepared inputs.
    """
    trains = model.training
    model.eval()
    try:
        return run_with_stages(model, x)[1]
    finally:
        model.train(trains)


@torch.enable_grad()
def parameters_until(model: nn.Module, x: Inputs, stage: int) -> frozenset[str]:
    """The names of the parameters that a stage's output depends on: those up to and including the stage.

    Args:
        x: Prepared inputs of any samples.
        stage: The stage, counted from 1.
    """
    names = stage_names(model)
    if not 1 <= stage <= len(names):
        raise FedloomError(f"until={stage}: the model has the stages 1 to {len(names)}.")
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    maps = stage_maps(model, x)
    found = torch.autograd.grad(maps[stage - 1].sum(), list(parameters.values()), allow_unused=True)
    return frozenset(name for name, gradient in zip(parameters, found, strict=True) if gradient is not None)
