"""Declarations: what the tensors in a method's messages and replies are.

A method declares what it receives and sends, by name (``Algorithm.receives``, ``Algorithm.sends``), and what stays with
clients (``Algorithm.keeps``). From a declaration follow the checks on arrival, the norm bound, what a channel does to a
tensor, what an attack can change, and the words of ``fedloom deploy explain``. A tensor that no method declares is
counted, checked and bounded like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from fedloom.core.message import Message

if TYPE_CHECKING:
    from fedloom.core.algorithm import Algorithm
    from fedloom.core.task import Task

Columns = Callable[["Task"], Tensor]
"""A mask over the columns of a task's row."""


def columns_of_part(part: str) -> Columns:
    """The columns of a named part of a model, such as ``body``."""
    return lambda task: task.layout.columns(part)


@dataclass(frozen=True)
class Declaration:
    """A tensor that is sent.

    Args:
        about: What it is, in a few words, seen from a site.
        bounded: Whether the norm bound of a deployment (``max_norm``) applies to it.
        single: Whether the server needs each client's value; otherwise a sum over clients is enough.
        refuse: Finds the clients whose values the method cannot use, and why, by their places: they are named and left
            out.
    """

    about: str
    bounded: bool = False
    single: bool = False
    refuse: Callable[[Tensor], Mapping[int, str]] | None = None


@dataclass(frozen=True)
class Model(Declaration):
    """Weights, a row per client: of a whole model or of a part of one. A channel sees the difference to what the client
    received.

    Args:
        about: What it is, in a few words, seen from a site.
        bounded: Whether the norm of that difference is bounded.
        single: Whether the server needs each client's value.
        of: The received tensor that the client started from; by default the one of the same name. Where clients choose
            it, a function of the message and the reply.
        each: Whether each client receives one of its own (``Message.each``), and not all of them the same.
        refuse: Finds the clients whose values the method cannot use, and why, by their places.
        columns: Which columns of the whole model's row it has, as a mask over them, in their order; all of them by
            default. A server that looks needs to know it.
    """

    bounded: bool = True
    of: str | Callable[[Message, Mapping[str, Tensor]], Tensor] | None = None
    each: bool = False
    columns: Columns | None = None


@dataclass(frozen=True)
class Update(Declaration):
    """A difference of weights already, a row per client.

    Args:
        about: What it is, in a few words, seen from a site.
        bounded: Whether its norm is bounded.
        single: Whether the server needs each client's value.
        refuse: Finds the clients whose values the method cannot use, and why, by their places.
        like: The received tensor that it is a difference of; its rows are as wide.
        columns: Which columns of the whole model's row it has, as a mask over them, in their order; all of them by
            default. A server that looks needs to know it.
    """

    bounded: bool = True
    like: str = "row"
    columns: Columns | None = None


@dataclass(frozen=True)
class Statistic(Declaration):
    """Numbers about a client's data or model: prototypes, logits, counts. Channels leave it as it is, unless it is
    ``coded``.

    Args:
        about: What it is, in a few words, seen from a site.
        bounded: Whether the norm bound of a deployment (``max_norm``) applies to it.
        single: Whether the server needs each client's value; otherwise a sum over clients is enough.
        counts: Whether its numbers count samples; a deployment compares them with what the site announced.
        refuse: Finds the clients whose values the method cannot use, and why, by their places.
        coded: Whether steps of a channel that keep no memory, such as ``qsgd``, act on it: many numbers, of which each
            may be a little off.
    """

    counts: bool = False
    coded: bool = False


@dataclass(frozen=True)
class Scalar(Declaration):
    """One number. Channels leave it as it is.

    Args:
        about: What it is, in a few words, seen from a site.
        bounded: Whether the norm bound of a deployment (``max_norm``) applies to it.
        single: Whether the server needs each client's value; otherwise a sum over clients is enough.
        counts: Whether its numbers count samples; a deployment compares them with what the site announced.
        refuse: Finds the clients whose values the method cannot use, and why, by their places.
    """

    counts: bool = False


Declared = Mapping[str, Declaration]
"""Declarations by the names of the tensors."""
Kept = Mapping[str, str]
"""What stays with clients, in words, by the names of their state."""


def default_declaration(name: str, received: bool) -> Declaration:
    """What a reply's tensor is taken for if its method does not declare it.

    Args:
        name: The name of the tensor.
        received: Whether the clients received a tensor of this name, which they then have changed.
    """
    about = f"a tensor that the method defines, named {name}"
    return Model(about, single=True) if received else Update(about, single=True)


def declaration_of(algorithm: Algorithm, name: str, message: Message) -> Declaration:
    """What a tensor of a reply is.

    Args:
        algorithm: The method.
        name: The name of the tensor.
        message: The message that the reply answers.
    """
    return algorithm.sends[name] if name in algorithm.sends else default_declaration(name, name in message)


def start_of(algorithm: Algorithm, name: str, message: Message, reply: Mapping[str, Tensor]) -> Tensor | None:
    """The weights that clients started from when they made a reply's ``Model``: one row, or one per client.

    None if the message has no such tensor; the reply is then taken as a difference.

    Args:
        algorithm: The method.
        name: The name of the reply's tensor.
        message: The message that the reply answers, as the clients of the reply got it.
        reply: What the clients replied, of which a choice among models may be a part.
    """
    return start_of_model(declaration_of(algorithm, name, message), name, message, reply)


def start_of_model(kind: Declaration, name: str, message: Message, reply: Mapping[str, Tensor]) -> Tensor | None:
    """The same by what a tensor was declared to be.

    Args:
        kind: What the tensor was declared to be.
        name: The name of the reply's tensor.
        message: The message that the reply answers, as the clients of the reply got it.
        reply: What the clients replied.
    """
    if not isinstance(kind, Model):
        return None
    return kind.of(message, reply) if callable(kind.of) else message.get(kind.of or name)
