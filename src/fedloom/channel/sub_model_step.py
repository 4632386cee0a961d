"""The way up of federated dropout: a client sends what belongs to its sub-model (``core/model/sub_models.py``)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.errors import FedloomError
from fedloom.core.model.sub_models import SubModelDraw, SubModels


@dataclass(frozen=True)
class SubModelStep(ChannelStep):
    """Send the columns of a client's sub-model, and the number that it was drawn by. A run puts it first itself."""

    sub_models: SubModels

    def width(self, width: int) -> int:
        """How many weights a sub-model has."""
        if width != self.sub_models.whole:
            raise FedloomError(
                f"federated_dropout cuts rows of {self.sub_models.whole:,} numbers, and a reply has {width:,}: use "
                "another method."
            )
        return self.sub_models.width

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The columns of each client's sub-model."""
        cohort = sender.cohort
        seeds = SubModelDraw(cohort.setting.seed, cohort.round, cohort.turn, cohort.ids).seeds
        return self.sub_models.cut(rows, self.sub_models.columns_of(seeds)), {"seed": torch.tensor(seeds)[:, None]}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """Whole rows, with zeros where the client had nothing."""
        seeds = extras["seed"]
        if seeds.dtype != torch.int64 or tuple(seeds.shape) != (len(rows), 1) or bool((seeds < 0).any()):
            raise ValueError("a client sends one number that its sub-model was drawn by")
        return self.sub_models.spread(rows, self.sub_models.columns_of(seeds.flatten().tolist()))
