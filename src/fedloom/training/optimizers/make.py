"""Which class makes the steps of some local work."""

from __future__ import annotations

from torch import Tensor

from fedloom.core.local_work import LocalWork
from fedloom.training.optimizers.adagrad import Adagrad
from fedloom.training.optimizers.adam import Adam
from fedloom.training.optimizers.adamw import AdamW
from fedloom.training.optimizers.optimizer import Optimizer, Rate
from fedloom.training.optimizers.rmsprop import RMSprop
from fedloom.training.optimizers.sgd import SGD

KINDS: dict[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "rmsprop": RMSprop, "adagrad": Adagrad}


def make_optimizer(
    work: LocalWork, lr: Rate, values: list[Tensor], state: list[list[Tensor]] | None = None
) -> Optimizer:
    """The optimiser of a cohort; arguments as those of ``Optimizer``."""
    return KINDS[work.optimizer](work, lr, values, state)
