"""Local work: what a client does between receiving a model and answering.

Epochs or steps, batch size, optimiser, learning rate and how it changes over rounds and within a round, clipping, and
which share of clients only manages part of its work in a round (Li et al., FedProx, MLSys 2020, section 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.facts import Fact, Facts
from fedloom.core.schedules import RoundSchedule, RoundShape, within_round
from fedloom.core.settings import Count, NonNegative, Positive, Share, ShareBelowOne, WholeNumber, check_settings

OPTIMIZERS: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum", "nesterov", "weight_decay"),
    "adam": ("beta1", "beta2", "epsilon", "weight_decay"),
    "adamw": ("beta1", "beta2", "epsilon", "weight_decay"),
    "rmsprop": ("smoothing", "epsilon", "momentum", "centered", "weight_decay"),
    "adagrad": ("epsilon", "weight_decay"),
}
"""The local optimisers, and which settings each has."""
OPTIMIZER_SETTINGS = tuple(dict.fromkeys(name for names in OPTIMIZERS.values() for name in names))
WEIGHT_DECAY, EPSILON, USUAL_EPSILON = {"adamw": 0.01}, {"adagrad": 1e-10}, 1e-8
"""The defaults of ``torch.optim``: others have no weight decay, and the usual epsilon."""

StepRates = Callable[[int, int], float]
"""The learning rate of a step (counted from 0) of so many steps in a round."""


@dataclass(frozen=True)
class LocalWork(RoundSchedule):
    """How a client trains.

    Args:
        epochs: Passes over the client's training data per round.
        steps: Gradient steps per round, instead of ``epochs``.
        batch_size: Samples per step; 0 takes all of the client's samples at once.
        accumulate: How many batches make one step, along the mean of their samples' gradients.
        optimizer: The local optimiser: sgd, adam, adamw, rmsprop, adagrad, or any class of ``torch.optim``'s kind as
            ``torch.optim:Adamax`` or ``my_file.py:Mine``.
        optimizer_options: The arguments of such a class, besides the learning rate.
        lr: The learning rate.
        momentum: Momentum of sgd and rmsprop.
        nesterov: Whether sgd uses Nesterov's momentum.
        weight_decay: The L2 penalty on the weights; of adamw, by which share of the learning rate weights shrink. None
            is 0.01 for adamw, and 0 for others.
        beta1: Decay of the first moment of adam and adamw.
        beta2: Decay of their second moment.
        smoothing: Decay of the mean of squares of rmsprop (torch's alpha).
        centered: Whether rmsprop divides by the deviation of the gradients, and not by their size.
        epsilon: Added to the denominator; None is 1e-10 for adagrad, and 1e-8 for others.
        clip: Bound on the norm of a client's gradient; None sets no bound.
        schedule: How the learning rate changes over rounds: ``constant``; ``step`` multiplies it by ``lr_decay`` every
            ``lr_every`` rounds; ``exponential`` does so every round; ``cosine`` falls to ``lr_decay`` of it at the last
            round; ``onecycle`` rises to it and falls to almost nothing; ``my_file.py:rate`` is a function of your own
            of any of ``round``, ``rounds``, ``step`` and ``steps``, which gives its factor.
        lr_decay: The factor of the schedule.
        lr_every: Rounds between two steps of the schedule ``step``.
        warmup: Rounds in which the learning rate rises in equal steps, before the schedule begins.
        round_schedule: How the learning rate changes within each round: ``constant``, or ``linear`` or ``cosine``,
            which fall to ``round_decay`` of the round's rate at a client's last step.
        round_decay: The factor of a round's last step.
        partial: The share of clients that do only part of their work in a round.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    epochs: WholeNumber = 1
    steps: WholeNumber | None = None
    batch_size: WholeNumber = 32
    accumulate: Count = 1
    optimizer: str = "sgd"
    optimizer_options: dict[str, Any] = field(default_factory=dict, hash=False)
    lr: Positive = 0.1
    momentum: ShareBelowOne = 0.0
    nesterov: bool = False
    weight_decay: NonNegative | None = None
    beta1: ShareBelowOne = 0.9
    beta2: ShareBelowOne = 0.999
    smoothing: ShareBelowOne = 0.99
    centered: bool = False
    epsilon: Positive | None = None
    clip: Positive | None = None
    round_schedule: RoundShape = "constant"
    round_decay: Positive = 1.0
    partial: Share = 0.0

    def __post_init__(self) -> None:
        check_settings(self, "local")
        if ":" not in self.optimizer and self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, [*OPTIMIZERS, "torch.optim:Adamax", "my_file.py:Mine"])
        if self.weight_decay is None:
            object.__setattr__(self, "weight_decay", WEIGHT_DECAY.get(self.optimizer, 0.0))
        if self.epsilon is None:
            object.__setattr__(self, "epsilon", EPSILON.get(self.optimizer, USUAL_EPSILON))
        self._check_optimizer_settings()
        self.check_schedule("local")
        if self.nesterov and self.momentum == 0:
            raise FedloomError("nesterov=true needs a momentum above 0.")
        if (self.round_schedule == "constant") != (self.round_decay == 1):
            raise FedloomError(
                f"local.round_schedule={self.round_schedule} with round_decay={self.round_decay:g}: set both, for "
                "instance to linear and 0.1, or none."
            )
        if self.accumulate > 1 and self.batch_size == 0:
            raise FedloomError(
                f"local.accumulate={self.accumulate} with batch_size=0: a step takes all samples already; leave "
                "accumulate out, or give a batch_size."
            )

    def _check_optimizer_settings(self) -> None:
        """Refuse settings that the optimiser does not have; what is as usual says nothing."""
        has = OPTIMIZERS.get(self.optimizer, ())
        usual = {one.name: one.default for one in fields(self)} | {"weight_decay": 0.0, "epsilon": USUAL_EPSILON}
        extra = [name for name in OPTIMIZER_SETTINGS if name not in has and getattr(self, name) != usual[name]]
        if extra and has:
            raise FedloomError(
                f"local.{extra[0]}={getattr(self, extra[0])}: {self.optimizer} has no {extra[0]}, it has "
                f"{', '.join(has)}: leave it out, or choose another local.optimizer."
            )
        if extra:
            raise FedloomError(
                f"local.{extra[0]}={getattr(self, extra[0])}: the optimizer {self.optimizer} gets its arguments from "
                "local.optimizer_options: put it there under the name that the class has for it."
            )
        if has and self.optimizer_options:
            raise FedloomError(
                f"local.optimizer_options are for a class such as torch.optim:Adamax; {self.optimizer} has the "
                f"settings {', '.join(has)}."
            )

    def for_epochs(self, epochs: int | None) -> LocalWork:
        """The same work for a number of epochs; None leaves it as it is."""
        return self if epochs is None else replace(self, epochs=epochs, steps=None)

    @property
    def has_own_optimizer(self) -> bool:
        """Whether the optimiser is a class by its place, and none of the library's."""
        return ":" in self.optimizer

    @property
    def is_plain_sgd(self) -> bool:
        """Whether a local step is ``w - lr * gradient``: SGD without momentum."""
        return self.optimizer == "sgd" and self.momentum == 0

    @property
    def decay(self) -> float:
        """The weight decay."""
        return self.weight_decay or 0.0

    @property
    def gradient_decay(self) -> float:
        """How much of the weights is added to their gradient; weight decay may also be beside it."""
        return 0.0 if self.optimizer == "adamw" else self.decay

    @property
    def changes_within_round(self) -> bool:
        """Whether the learning rate changes from step to step."""
        return self.round_schedule != "constant" or self.has_own_steps

    @property
    def needs(self) -> Facts:
        """What must hold for a run with this work, and why."""
        if not self.changes_within_round:
            return {}
        return {
            Fact.ONE_STEP: "changes the learning rate from step to step: leave out local.round_schedule, or a schedule "
            "of your own that depends on steps"
        }

    @property
    def breaks(self) -> Facts:
        """What does not hold for a run with this work, and why."""
        if self.has_own_optimizer:
            return {Fact.KNOWN_STEPS: f"lets {self.optimizer} make the steps: use {', '.join(OPTIMIZERS)}"}
        if self.accumulate > 1:
            return {Fact.KNOWN_STEPS: "makes a step of several batches: raise local.batch_size, without accumulate"}
        return {}

    def lr_at(self, round_number: int, rounds: int) -> float:
        """The learning rate of a round, counted from 1; of its first step, where it changes within the round."""
        return self.lr * self.factor_at(round_number, rounds)

    def rates_in(self, round_number: int, rounds: int) -> StepRates | None:
        """The learning rates of a round's steps, where they change within the round; None where they are the same.

        Args:
            round_number: The round, counted from 1.
            rounds: How many rounds the run has.
        """
        if not self.changes_within_round:
            return None

        def rate(step: int, steps: int) -> float:
            factor = self.factor_at(round_number, rounds, step, steps)
            return self.lr * factor * within_round(self.round_schedule, self.round_decay, step, steps)

        return rate

    @property
    def samples_per_step(self) -> int:
        """How many samples a step takes; 0 for all."""
        return self.batch_size * self.accumulate

    def steps_per_epoch(self, samples: int) -> int:
        """How many steps an epoch over ``samples`` samples has, the partial last one included."""
        return 1 if self.batch_size == 0 else math.ceil(samples / self.samples_per_step)

    def steps_for(self, samples: int) -> int:
        """How many gradient steps a client with ``samples`` samples makes when it does all of its work."""
        return self.steps if self.steps is not None else self.epochs * self.steps_per_epoch(samples)
