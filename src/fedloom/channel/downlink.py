"""What goes down: the models in a message, encoded at the server and decoded at the client.

Models are what a method declares as such (``Algorithm.receives``); everything else goes as it is. What clients hand to
each other counts as going down too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedloom.channel.model_differences import Outgoing, restore_models, take_differences
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Model
from fedloom.core.errors import Diverged
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message
from fedloom.core.model.sub_models import SubModelDraw, SubModels
from fedloom.core.settings import check_settings


@dataclass(frozen=True)
class DownChannel:
    """The way of a method's messages to its clients; without a setting they go as they are."""

    algorithm: Algorithm
    setting: Downlink | None = None
    sub_models: SubModels | None = None

    def encode(self, message: Message, draw: SubModelDraw | None = None) -> Message:
        """A message as it is sent.

        Args:
            message: What the method's server sends.
            draw: Who trains which sub-model; None where whole models go down.
        """
        rounded = self._with_models(message, self._round)
        if self.sub_models is None or draw is None:
            return rounded
        columns = self.sub_models.columns_of(draw.seeds)
        return _with_row(rounded, self.sub_models.cut(rounded["row"], columns))

    def decode(self, message: Message, draw: SubModelDraw | None = None) -> Message:
        """A message as the method's clients get it.

        Args:
            message: What was sent.
            draw: Who trains which sub-model; None where whole models went down.
        """
        received = self._with_models(message, lambda _, tensor: tensor.float())
        if self.sub_models is None or draw is None:
            return received
        return _with_row(received, self.sub_models.spread(received["row"], self.sub_models.columns_of(draw.seeds)))

    def outgoing(self, message: Message, draw: SubModelDraw, memory: Mapping[str, Tensor]) -> Outgoing:
        """A message in the forms in which it goes to its clients.

        Args:
            message: What the method's server sends.
            draw: The clients, and who trains which sub-model.
            memory: What the server remembers of what clients have.
        """
        if self.takes_differences:
            return take_differences(message, list(draw.ids), memory, self._is_model)
        return Outgoing([(list(draw.ids), self.encode(message, draw))], self.server_view(message))

    def restore(self, message: Message, cohort: Cohort) -> Message:
        """A message of differences with whole models, which its clients keep.

        Args:
            message: What they got.
            cohort: The clients.
        """
        return restore_models(message, cohort, self._is_model) if self.takes_differences else message

    @property
    def takes_differences(self) -> bool:
        """Whether models go down as differences."""
        return self.setting is not None and self.setting.delta

    def server_view(self, message: Message) -> Message:
        """What the server takes for what its clients started from: whole models, as precise as they arrived.

        Args:
            message: What the method's server sends.
        """
        return self.decode(self.encode(message))

    def _with_models(self, message: Message, change: Callable[[str, Tensor], Tensor]) -> Message:
        if self.setting is None or self.setting.delta:
            return message

        def changed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: change(name, t) if self._is_model(name, t) else t for name, t in tensors.items()}

        return Message(changed(message.shared), changed(message.each))

    def _is_model(self, name: str, tensor: Tensor) -> bool:
        return isinstance(self.algorithm.receives.get(name), Model) and tensor.is_floating_point()

    def _round(self, name: str, tensor: Tensor) -> Tensor:
        if self.setting is None:
            return tensor
        sent = tensor.to(TYPES[self.setting.precision])
        if bool(sent.isinf().any()):
            largest = float(tensor.nan_to_num().abs().max())
            raise Diverged(
                f"the model that goes down ({name}) has numbers up to {largest:.3g}, beyond the end of "
                f"{self.setting.precision}, {torch.finfo(sent.dtype).max:.3g}: use downlink.precision = 'bfloat16', or "
                "a lower learning rate."
            )
        return sent


def _with_row(message: Message, rows: Tensor) -> Message:
    """A message whose clients have a row each."""
    shared = {name: tensor for name, tensor in message.shared.items() if name != "row"}
    return Message(shared, {**message.each, "row": rows})


TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
"""Types of numbers of 16 bits."""


@dataclass(frozen=True)
class Downlink:
    """Models go down to clients in fewer bits, rounded to nearest; clients compute in 32 bits as ever.

    The server takes what arrived, not what it had, for what its clients started from.

    Args:
        precision: ``float16`` is off by at most ``2^-11`` of a number and ends at 65,504; ``bfloat16`` by at most
            ``2^-8``, and ends where 32 bits do.
        delta: Whether a client that has the last model gets the difference to it, in 8 bits per number; others get the
            whole model in 32. What rounding leaves out is in the next difference. ``precision`` is not used then.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    precision: Literal["float16", "bfloat16"] = "float16"
    delta: bool = False

    @property
    def needs(self) -> Facts:
        """What the downlink needs of other parts, and why."""
        codes = "codes the model that goes down: leave out downlink"
        found = {Fact.MODEL_DOWN: codes, Fact.EXCHANGES: codes, Fact.READABLE: codes}
        if not self.delta:
            return found
        return found | {
            Fact.SAME_WEIGHTS: "with delta sends differences to a whole model: leave out one of the two",
            Fact.ALL_ANSWER: "with delta needs to know who has the model, which answers tell: leave out one of the two",
            Fact.SAME_MODEL: "with delta is for a model that all clients get: leave it out",
            Fact.FROM_SERVER: "with delta is for models that the server sends: leave it out",
        }

    @property
    def breaks(self) -> Facts:
        """What other parts cannot rely on, and why."""
        one = {Fact.MIXED_MODELS: "is made for one model: leave it out, or task.models"}
        if not self.delta:
            return one
        return one | {
            Fact.SAME_START: "sends different bytes to clients that have the last model",
            Fact.HIDDEN_DRAWS: "with delta sends fewer bytes to clients that were drawn before",
        }

    def __post_init__(self) -> None:
        check_settings(self, "downlink")
