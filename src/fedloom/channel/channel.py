"""The channel of a run: its steps applied to replies at the clients, and undone at the server.

A reply under the name ``row`` travels as ``row`` (its encoded rows) and ``row@0/positions`` and so on: what step 0
sends beside them. Without steps a reply is sent as it is, and no number changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.channel.coded_statistics import coded_names, coding_steps, decode_statistic, encode_statistic, is_coded
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Model, Update, declaration_of, start_of
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Reply


@dataclass(frozen=True)
class Channel:
    """The steps between the clients of a method and its server."""

    algorithm: Algorithm
    steps: tuple[ChannelStep, ...] = ()

    def encode(self, reply: Reply, message: Message, cohort: Cohort) -> Reply:
        """A reply as it is sent.

        Args:
            reply: What the method's clients replied.
            message: The message that it answers.
            cohort: The clients, who keep what the steps need.
        """
        if not self.steps:
            return reply
        self._refuse_undeclared(reply.tensors, message)
        names = self.update_names(reply.tensors, message)
        coded = self._coded_names(reply.tensors, message)
        if not names and not coded and not any(step.covers_replies for step in self.steps):
            return reply
        tensors = {name: tensor for name, tensor in reply.tensors.items() if name not in (*names, *coded)}
        covering = [step for step in self.steps if step.covers_replies]
        if covering and tensors:
            raise FedloomError(
                f"{type(self.algorithm).__name__} replies with {next(iter(tensors))}, which is not an update and would "
                f"leave without {type(covering[0]).__name__.lower()}: use a method that sends updates only."
            )
        plain = Reply(tensors).cost(len(cohort)) if tensors else torch.zeros(len(cohort), dtype=torch.int64)
        sent: dict[str, Tensor] = {}
        for name in coded:
            finite = _finite_rows(reply.tensors[name].flatten(1))
            sent |= _mark_rows(encode_statistic(name, reply.tensors[name], self.steps, cohort), finite)
        for name in names:
            received = base_of(self.algorithm, name, message, reply.tensors)
            rows = reply.tensors[name] if received is None else reply.tensors[name] - received
            finite, own = _finite_rows(rows), dict[str, Tensor]()
            for number, step in enumerate(self.steps):
                width = rows.shape[1]
                encoded = step.encode(rows, Sender(cohort, f"channel/{number}/{name}", received))
                if not (isinstance(encoded, tuple) and len(encoded) == 2):
                    raise FedloomError(
                        f"channel step {type(step).__name__}: encode must return rows and a dictionary, got "
                        f"{type(encoded).__name__}."
                    )
                rows, extras = encoded
                _check_encoded(step, rows, extras, len(cohort), width)
                if step.covers_replies:  # what it sends of an update that is not finite is for the step to say
                    finite = _finite_rows(rows)
                own |= {f"{name}@{number}/{extra}": tensor for extra, tensor in extras.items()}
            sent |= _mark_rows(own | {name: rows}, finite)
        return Reply(tensors | sent, bytes=plain + Reply(sent).cost(len(cohort)))

    def silent(self, reply: Reply, message: Message, cohort: Cohort) -> Tensor | None:
        """A mask of the clients that send nothing in this round; None where no step may say so.

        A client with several updates is silent if it is so with all of them.

        Args:
            reply: What the method's clients replied.
            message: The message that it answers.
            cohort: The clients, who keep what the steps need.
        """
        steps = [(number, step) for number, step in enumerate(self.steps) if step.may_be_silent]
        names = self.update_names(reply.tensors, message) if steps else []
        if not names:
            return None
        silent = torch.ones(len(cohort), dtype=torch.bool)
        for name in names:
            rows = change_of(self.algorithm, name, message, reply.tensors)
            origin = self._origin(name, message, reply.tensors)
            masks = [step.silent(rows, origin, Sender(cohort, f"channel/{number}/{name}")) for number, step in steps]
            silent &= torch.stack(masks).any(0)
        return silent

    def decode(self, tensors: Mapping[str, Tensor], message: Message) -> dict[str, Tensor]:
        """Replies as the method's server gets them.

        Args:
            tensors: The replies as they were sent.
            message: The message that they answer, as these clients got it.
        """
        if not self.steps:
            return dict(tensors)
        plain = {name: tensor for name, tensor in tensors.items() if "@" not in name}
        for name in self.encoded_names(plain, message):
            base = start_of(self.algorithm, name, message, plain)
            change = self._decode(name, tensors, self._width(name, message, plain))
            plain[name] = change if base is None else base + change
        return plain | {name: decode_statistic(name, tensors, self.steps) for name in coded_names(tensors)}

    def changes(self, tensors: Mapping[str, Tensor], message: Message) -> dict[str, Tensor]:
        """The change that each bounded tensor of some replies makes, decoded; the tensor itself if it is a statistic.

        Args:
            tensors: The replies as they were sent.
            message: The message that they answer, as these clients got it.
        """
        replies, found = self.decode(tensors, message), {}
        for name in replies:
            if declaration_of(self.algorithm, name, message).bounded:
                found[name] = change_of(self.algorithm, name, message, replies)
        return found

    def _coded_names(self, tensors: Mapping[str, Tensor], message: Message) -> list[str]:
        """The names of the statistics that steps act on."""
        if not coding_steps(self.steps):
            return []
        return [name for name, t in tensors.items() if is_coded(declaration_of(self.algorithm, name, message), t)]

    def update_names(self, tensors: Mapping[str, Tensor], message: Message) -> list[str]:
        """The names of the replies that steps act on: rows that are declared a ``Model`` or an ``Update``."""
        found = []
        for name, tensor in tensors.items():
            kind = declaration_of(self.algorithm, name, message)
            if not isinstance(kind, Model | Update):
                continue
            if tensor.dim() == 2 and tensor.is_floating_point():
                found.append(name)
            elif name in self.algorithm.sends:
                raise FedloomError(
                    f"{type(self.algorithm).__name__} declares its reply {name} as a {type(kind).__name__}, which is a "
                    f"row of numbers per client, but its shape is {tuple(tensor.shape)}: declare it as a Statistic."
                )
        return found

    def encoded_names(self, tensors: Mapping[str, Tensor], message: Message) -> list[str]:
        """The names of the replies that steps have acted on; what they made of numbers may be packed bits.

        Args:
            tensors: The replies as they were sent, without what steps send beside them.
            message: The message that they answer.
        """
        declared = {name: declaration_of(self.algorithm, name, message) for name in tensors}
        return [
            name for name, kind in declared.items() if isinstance(kind, Model | Update) and tensors[name].dim() == 2
        ]

    def _width(self, name: str, message: Message, tensors: Mapping[str, Tensor]) -> int:
        """The width of a reply's rows before any step."""
        return int(self._origin(name, message, tensors).shape[-1])

    def _origin(self, name: str, message: Message, tensors: Mapping[str, Tensor]) -> Tensor:
        """What a reply's rows are a change of: what the clients started from, or the model."""
        kind, source = declaration_of(self.algorithm, name, message), start_of(self.algorithm, name, message, tensors)
        if source is None and isinstance(kind, Update):
            source = message.get(kind.like)
        if source is None:
            raise FedloomError(
                f"{type(self.algorithm).__name__} declares its reply {name} as a {type(kind).__name__}, and its "
                "message has no tensor that it is a change of: name one with of= or like= in the declaration."
            )
        return source

    def _refuse_undeclared(self, tensors: Mapping[str, Tensor], message: Message) -> None:
        """Refuse a reply that would bypass the channel because it is not declared."""
        strange = [name for name in tensors if "@" in name]
        if strange:
            raise FedloomError(f"{type(self.algorithm).__name__} replies with {strange[0]}: a name must not contain @.")
        strange = [
            name
            for name in tensors
            if name not in self.algorithm.sends and base_of(self.algorithm, name, message, tensors) is None
        ]
        if strange:
            raise FedloomError(
                f"{type(self.algorithm).__name__} replies with {strange[0]}, which it does not declare, so the channel "
                "cannot tell what to do with it: add it to the method's sends, as Model, Update, Statistic or Scalar."
            )

    def _decode(self, name: str, tensors: Mapping[str, Tensor], width: int) -> Tensor:
        widths = [width]
        for step in self.steps:
            widths.append(step.width(widths[-1]))
        rows = tensors[name]
        for number, step in reversed(list(enumerate(self.steps))):
            prefix = f"{name}@{number}/"
            extras = {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
            rows = step.decode(rows, extras, widths[number])
        return rows


def _finite_rows(rows: Tensor) -> Tensor:
    """Which rows have neither NaN nor infinity."""
    finite = torch.isfinite(rows.sum(1))
    return finite if bool(finite.all()) else torch.isfinite(rows).all(1)


def _mark_rows(sent: dict[str, Tensor], finite: Tensor) -> dict[str, Tensor]:
    """What some clients send; where the update was not finite it is NaN, so that a step that leaves entries out, or
    packs them, does not hide that."""
    if bool(finite.all()):
        return sent
    if not any(tensor.is_floating_point() for tensor in sent.values()):
        raise FedloomError(
            "an update is not finite (NaN or infinity), and the channel's steps send whole numbers only, which cannot "
            "tell: let a step send a scale beside them, or lower the learning rate."
        )
    return {
        name: tensor.masked_fill(~finite.view(-1, *[1] * (tensor.dim() - 1)), torch.nan)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in sent.items()
    }


def _check_encoded(step: ChannelStep, rows: Tensor, extras: Extras, clients: int, width: int) -> None:
    """Refuse what a user-defined step may get wrong."""
    name = type(step).__name__
    if tuple(rows.shape) != (clients, step.width(width)):
        raise FedloomError(
            f"channel step {name} encodes {clients} rows of {width} numbers as {tuple(rows.shape)}, and its width() "
            f"says {step.width(width)}: return a row per client, and say in width() how wide it is."
        )
    for extra, tensor in extras.items():
        if tensor.dim() == 0 or len(tensor) != clients:
            raise FedloomError(f"channel step {name} sends {extra} without an entry per client: give it one for each.")


def change_of(algorithm: Algorithm, name: str, message: Message, tensors: Mapping[str, Tensor]) -> Tensor:
    """A reply's tensor as a change: the difference to what its clients started from, or itself.

    Args:
        algorithm: The method.
        name: The name of the tensor.
        message: The message that the reply answers, as its clients got it.
        tensors: All tensors of the reply.
    """
    base = base_of(algorithm, name, message, tensors)
    return tensors[name] if base is None else tensors[name] - base


def base_of(algorithm: Algorithm, name: str, message: Message, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """What clients started from when they made a reply's tensor; None if it is not a difference to anything received.

    A method may reply under the name of something that it received, and not with a changed version of it. If it says
    so in no declaration, the shapes tell.

    Args:
        algorithm: The method.
        name: The name of the tensor.
        message: The message that the reply answers, as its clients got it.
        tensors: All tensors of the reply, before any step or after all decoders.
    """
    base, tensor = start_of(algorithm, name, message, tensors), tensors[name]
    if base is None:
        return None
    if tensor.is_floating_point() and base.is_floating_point() and base.shape in (tensor.shape, tensor.shape[1:]):
        return base
    if name in algorithm.sends:
        raise FedloomError(
            f"{type(algorithm).__name__} declares its reply {name} as a Model, and its shape {tuple(tensor.shape)} "
            f"does not match {tuple(base.shape)}, which its clients received: name another tensor with of=, or declare "
            "a Statistic."
        )
    return None
