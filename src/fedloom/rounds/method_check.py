"""What a method hands back in a round: a mistake in a user's method is one sentence, and not an error rounds later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.errors import FedloomError
from fedloom.core.message import Reply, Wave


def check_state(algorithm: Algorithm, state: Any, before: State | None = None) -> None:
    """Refuse a server state that is not named tensors, or whose tensors changed in type or form.

    Args:
        algorithm: The method.
        state: The server's state after a round, or before the first one.
        before: The state before the round. The first axis of a tensor may grow (clusters do), that of ``row`` may not.
    """
    name = type(algorithm).__name__
    if not isinstance(state, Mapping):
        raise FedloomError(
            f"{name}: the server's state is {_description(state)}: return a dict of tensors from start, aggregate and "
            "play, for instance {**server, 'row': row}."
        )
    for key, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise FedloomError(f"{name}: '{key}' of the server's state is {_description(tensor)}: make it a tensor.")
        old = (before or {}).get(key)
        if old is None:
            continue
        if tensor.dtype != old.dtype:
            raise FedloomError(
                f"{name}: '{key}' of the server's state was {_type(old)} and is {_type(tensor)} after the round: "
                f"convert it (tensor.to({old.dtype}))."
            )
        fixed = 0 if key == "row" else 1
        if tensor.dim() != old.dim() or tensor.shape[fixed:] != old.shape[fixed:]:
            raise FedloomError(
                f"{name}: '{key}' of the server's state had shape {tuple(old.shape)} and has shape "
                f"{tuple(tensor.shape)} after the round: keep its shape (replies['{key}'] has a row per client, "
                f"replies.mean('{key}') is one row)."
            )
    lost = [key for key in before or {} if key not in state]
    if lost:
        raise FedloomError(
            f"{name}: the server's state lost '{lost[0]}' in the round: return {{**server, ...}} with what changes."
        )


def check_wave(algorithm: Algorithm, wave: Wave) -> None:
    """Refuse a wave that asks clients more often in a round than the method declares: a deployed site would.

    Args:
        algorithm: The method.
        wave: A wave of its round.
    """
    if not 0 <= wave.turn < algorithm.turns:
        raise FedloomError(
            f"{type(algorithm).__name__} sends a wave with turn={wave.turn}, and declares turns = {algorithm.turns}: "
            "turns count from 0, and a method whose rounds ask a client more than once says how often, for instance "
            f"turns = {wave.turn + 1}."
        )


def check_reply(algorithm: Algorithm, reply: Any, clients: int) -> None:
    """Refuse a reply that is not named tensors with one entry per client.

    Args:
        algorithm: The method.
        reply: What ``client_update`` returned.
        clients: How many clients are in the cohort.
    """
    name = type(algorithm).__name__
    if not isinstance(reply, Reply):
        raise FedloomError(f"{name}.client_update returned {_description(reply)}: return fl.Reply({{'row': rows}}).")
    for key, tensor in reply.tensors.items():
        if not isinstance(tensor, Tensor):
            raise FedloomError(f"{name}: '{key}' of the reply is {_description(tensor)}: make it a tensor.")
        if tensor.dim() == 0 or len(tensor) != clients:
            raise FedloomError(
                f"{name}: '{key}' of the reply has shape {tuple(tensor.shape)} for {clients} clients: give one entry "
                "per client."
            )


def _description(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
