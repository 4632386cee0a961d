"""Models as differences: a client that has the last model gets the difference to it, which takes fewer bits.

Server and client keep the same reference, the model that the client had last. The server sends ``C(x - r)``, rounded to
few bits, and both set ``r <- r + C(x - r)``, which is what the client works with: what rounding left out is in the next
difference. Whoever does not have the reference (it is new, or was away) gets the new one whole.

Tang et al., DoubleSqueeze, ICML 2019, https://arxiv.org/abs/1905.05957; Gruntkowska, Tyurin and Richtárik, EF21-P and
Friends, ICML 2023, https://arxiv.org/abs/2209.15218 (there for the primal model, as here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, message_digest

DELTA, SCALES, DIGEST = "@delta", "@scales", "@reference"
"""Endings of the names of a difference, its scales, and the digest of what it is a difference to."""
KEPT = "down/"
"""Before the names of what clients keep."""
HAVE = "have"
"""The name under which the server notes who has its references."""
CHUNK = 256
"""Numbers that share a scale."""


@dataclass(frozen=True)
class DifferenceMessage(Message):
    """A message with differences, and what clients make of it.

    Args:
        shared: Tensors that every client gets.
        each: Tensors with one entry per client.
        view: The message with whole models.
    """

    view: Message = field(default_factory=Message)


@dataclass(frozen=True)
class Outgoing:
    """A message in the forms in which it goes down.

    Args:
        parts: Which clients get it in which form.
        view: What all of them make of it.
        references: The models that they have then, by name; empty where nobody keeps any.
    """

    parts: list[tuple[list[int], Message]]
    view: Message
    references: Mapping[str, Tensor] = field(default_factory=dict)


def take_differences(
    message: Message, ids: list[int], memory: Mapping[str, Tensor], is_model: Callable[[str, Tensor], bool]
) -> Outgoing:
    """A message as differences to what some of its clients have.

    Args:
        message: What the method's server sends.
        ids: The clients.
        memory: What the server remembers: its references, and who has them.
        is_model: Tells models from other tensors.
    """
    if any(is_model(name, tensor) for name, tensor in message.each.items()):
        raise FedloomError("downlink.delta is for a model that all clients get, and these get one each: leave it out.")
    models = {name: tensor for name, tensor in message.shared.items() if is_model(name, tensor)}
    rest = {name: tensor for name, tensor in message.shared.items() if name not in models}
    have = set(memory[HAVE].tolist()) if HAVE in memory else set[int]()
    known = {name: memory[name] for name in models if name in memory and memory[name].shape == models[name].shape}
    there = [client for client in ids if client in have] if len(known) == len(models) else []
    if not there:
        return Outgoing([(ids, message)], message, models)
    coded, references = dict[str, Tensor](), dict[str, Tensor]()
    for name, model in models.items():
        levels, scales = round_to_bytes(model - known[name])
        coded |= {f"{name}{DELTA}": levels, f"{name}{SCALES}": scales}
        references[name] = known[name] + from_bytes(levels, scales)
    coded[DIGEST] = torch.tensor(list(message_digest(known)), dtype=torch.uint8)
    view = Message({**rest, **references}, message.each)
    others = [client for client in ids if client not in set(there)]
    parts: list[tuple[list[int], Message]] = [(there, DifferenceMessage({**rest, **coded}, message.each, view))]
    return Outgoing([*parts, (others, view)] if others else parts, view, references)


def restore_models(message: Message, cohort: Cohort, is_model: Callable[[str, Tensor], bool]) -> Message:
    """The message with whole models, which the clients keep; a ``FedloomError`` if they do not have its references.

    Args:
        message: What they got.
        cohort: The clients.
        is_model: Tells models from other tensors.
    """
    names = [name.removesuffix(DELTA) for name in message.shared if name.endswith(DELTA)]
    if not names:
        models = {name: tensor for name, tensor in message.shared.items() if is_model(name, tensor)}
        return _keep(message, models, cohort)
    known = {}
    for name in names:
        if not bool(cohort.has(f"{KEPT}{name}").all()):
            raise FedloomError(f"the client does not have the model that the difference applies to ({name})")
        known[name] = cohort.kept[f"{KEPT}{name}"].rows[0].view(message.shared[f"{name}{DELTA}"].shape)
    if bytes(message.shared[DIGEST].tolist()) != message_digest(known):
        raise FedloomError("the client has a different model from the one that the difference applies to")
    models = {
        name: row + from_bytes(message.shared[f"{name}{DELTA}"], message.shared[f"{name}{SCALES}"])
        for name, row in known.items()
    }
    rest = {name: tensor for name, tensor in message.shared.items() if "@" not in name}
    return _keep(Message({**rest, **models}, message.each), models, cohort)


def note_references(outgoing: Outgoing, accepted: Iterable[int]) -> dict[str, Tensor]:
    """What the server remembers after an exchange.

    Args:
        outgoing: What it sent.
        accepted: The clients whose answers count: of all others it is not known what they have.
    """
    if not outgoing.references:
        return {}
    return {**outgoing.references, HAVE: torch.tensor(sorted(accepted), dtype=torch.int64)}


def round_to_bytes(row: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers as bytes: multiples of a 127th of the largest magnitude in a chunk, to the nearest.

    Args:
        row: The numbers, in any shape.

    Returns:
        The multiples, and the scale of every chunk: a number is off by at most half of it.
    """
    chunks = torch.nn.functional.pad(row.flatten(), (0, -row.numel() % CHUNK)).view(-1, CHUNK)
    scales = (chunks.abs().amax(1) / 127).clamp(min=torch.finfo(row.dtype).tiny)
    levels = (chunks / scales[:, None]).round().clamp(-127, 127).to(torch.int8)
    return levels.flatten()[: row.numel()].view(row.shape), scales


def from_bytes(levels: Tensor, scales: Tensor) -> Tensor:
    """The numbers that ``round_to_bytes`` made bytes of.

    Args:
        levels: The multiples.
        scales: The scale of every chunk.
    """
    return levels.to(scales.dtype) * scales.repeat_interleave(CHUNK)[: levels.numel()].view(levels.shape)


def _keep(message: Message, models: Mapping[str, Tensor], cohort: Cohort) -> Message:
    for name, row in models.items():
        cohort.keep(f"{KEPT}{name}", row.flatten().expand(len(cohort), -1))
    return message
