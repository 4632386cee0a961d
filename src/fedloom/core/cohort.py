"""A cohort: some clients that work together, and the primitives a method is written with.

A method's client half is written for B rows, and B may be 1: a cohort has many clients in simulation and
one on a deployed machine, and the method is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.cycle import Cycle
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Augment, Inputs
from fedloom.core.kept_rows import KeptRows
from fedloom.core.local_work import LocalWork
from fedloom.core.metric import Scores
from fedloom.core.network import Collect, Loss
from fedloom.core.pull import Pull
from fedloom.core.seeds import generator, key
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task
from fedloom.core.trainer import Given, LossStep, StepNoise, Trainer, TrainingRequest
from fedloom.core.training_checks import check_positions, check_private_work, check_rows, check_training


@dataclass(frozen=True)
class RunSetting:
    """What all cohorts of a run share: the local work, the seed, how many rounds there are, and the privacy of single
    samples, if there is any."""

    work: LocalWork
    seed: int
    rounds: int
    sample_privacy: StepNoise | None = None


class Cohort:
    """B clients in one round: their data, the state they kept, and the operations on them.

    Args:
        ids: The clients.
        trainer: Trains and evaluates their rows.
        setting: The local work, the seed and the number of rounds of the run.
        round_number: The round, counted from 1; 0 is the prelude.
        kept: What the clients kept from earlier rounds, by name.
        turn: How often these clients already worked in this round: each turn has batches of its own.
    """

    def __init__(
        self,
        ids: list[int],
        trainer: Trainer,
        setting: RunSetting,
        round_number: int,
        kept: Mapping[str, KeptRows] | None = None,
        turn: int = 0,
    ) -> None:
        self.ids, self.setting, self.round, self.turn = ids, setting, round_number, turn
        self.trainer = trainer.at(round_number)
        self.task: Task = self.trainer.task.at(round_number)
        self.kept: dict[str, KeptRows] = dict(kept or {})
        self.changed: set[str] = set()
        self.steps = torch.zeros(len(ids), dtype=torch.int64)
        self.rates = torch.zeros(len(ids))
        """The sums of the learning rates of all steps that these clients made in local training."""
        self.trainings = 0
        self.before: Tensor | None = None
        self.after: Tensor | None = None
        """The rows measured as the trained model: of the last training, unless a method names others."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def samples(self) -> Tensor:
        """How many training samples each client has."""
        return self.task.federation.train.sizes[torch.tensor(self.ids)]

    @property
    def architecture(self) -> int:
        """The architecture of these clients' models; 0 where all clients have the same."""
        return self.task.architecture

    @property
    def points(self) -> Tensor:
        """How many samples each client has in all: train, validation and test."""
        return self.task.federation.points[torch.tensor(self.ids)]

    def classes(self) -> Tensor:
        """How many training samples of each class each client has: B×classes; samples without a label do not count."""
        lists, classes = self.task.federation.train, self.task.federation.classes
        targets = (self.task.targets(lists[client]) for client in self.ids)
        return torch.stack([y[y != IGNORED].bincount(minlength=classes) for y in targets])

    @property
    def lr(self) -> float:
        """The local learning rate of this round; of its first step, where it changes within the round."""
        return self.setting.work.lr_at(self.round, self.setting.rounds)

    def spread(self, row: Tensor) -> Tensor:
        """One row for all clients of the cohort, without a copy; rows stay as they are.

        Args:
            row: One row, or a row per client.
        """
        return row.expand(len(self), -1)

    def shared_generator(self, purpose: str) -> torch.Generator:
        """A random generator that is the same for all clients of a round, on whichever machine they are.

        Args:
            purpose: What the randomness is for: each purpose has its own.
        """
        return generator(self.setting.seed, purpose, self.round)

    def generator(self, purpose: str, place: int) -> torch.Generator:
        """A random generator for one client and one purpose of a method.

        Args:
            purpose: What the randomness is for: each purpose has its own.
            place: The place of the client in the cohort.
        """
        return generator(self.setting.seed, purpose, self.round, self.ids[place])

    # -- state that stays with clients

    def has(self, name: str) -> Tensor:
        """Which clients have kept something under a name."""
        return self.kept[name].has if name in self.kept else torch.zeros(len(self), dtype=torch.bool)

    def kept_rows(self, name: str, default: Tensor) -> Tensor:
        """What the clients kept under a name; a client that kept nothing yet gets its row of ``default``.

        Args:
            default: A row per client.
        """
        return self.kept[name].or_default(default) if name in self.kept else default

    def keep(self, name: str, rows: Tensor, only: Tensor | None = None) -> None:
        """Keep a row (any width) per client until its next round.

        Args:
            name: The name under which ``kept_rows`` finds it.
            rows: A row per client.
            only: A mask of the clients that keep it; all of them by default.
        """
        new = KeptRows.of_all(rows.detach())
        self.kept[name] = new if only is None else new.where(only, self.kept.get(name) or KeptRows.of_nobody(new.rows))
        self.changed.add(name)

    # -- work on the clients' own data

    def train(
        self,
        rows: Tensor,
        *,
        work: LocalWork | None = None,
        part: str | None = None,
        pull: Pull | None = None,
        given: Given | None = None,
        loss: Loss | None = None,
        only: Tensor | None = None,
        on: Tensor | None = None,
        also: Tensor | None = None,
        augment: Augment | None = None,
        steps: Sequence[LossStep] = (),
    ) -> Tensor:
        """The rows after local training on each client's own data, or on samples that all clients have.

        Args:
            rows: A row per client; use ``spread`` for a shared row.
            work: How much is trained and with which optimiser; the run's local work by default.
            part: The only part of the model that is trained; all parts by default.
            pull: An extra gradient ``pull(rows, received, **given)``, elementwise on pieces of rows.
            given: What ``pull`` and ``loss`` need, by name: rows, one number per client, or for a loss any tensor with
                one entry per client.
            loss: A loss that replaces the task's, ``loss(network, x, y, given)``: values and counts of one client's
                samples (see ``core.network.Loss``).
            only: A mask of the clients that train; the rows of the others are returned unchanged.
            on: Sorted positions of samples that all clients train on instead of their own, such as the communal set.
                The task's augmentation is not applied to them. A loss of the method's own gets their places in ``on``
                (0 to n-1) as ``y``, and looks up there what it knows of them.
            also: Positions of samples that all clients train on beside their own, such as exemplars of earlier tasks.
            augment: ``augment(x, generator)`` replaces the task's augmentation of prepared inputs, client by client. It
                may return several views of each sample, along a new second axis.
            steps: What is done with each batch, if it is used for several optimiser steps; they replace ``loss``.
        """
        return self._train(rows, work, part, pull, given, loss, only, None, on, also, augment, tuple(steps))[0]

    def train_in_cycles(
        self,
        rows: Tensor,
        cycle: Cycle,
        *,
        pull: Pull | None = None,
        given: Given | None = None,
        loss: Loss | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The rows after training in which every batch is used for a cycle of steps, and the cycle's anchor rows.

        Args:
            rows: A row per client.
            cycle: What is done with each batch.
            pull: An extra gradient, as in ``train``.
            given: What ``pull`` and ``loss`` need, as in ``train``.
            loss: A loss that replaces the task's, as in ``train``.
        """
        return self._train(rows, None, None, pull, given, loss, None, cycle)

    def _train(
        self,
        rows: Tensor,
        work: LocalWork | None,
        part: str | None,
        pull: Pull | None,
        given: Given | None,
        loss: Loss | None,
        only: Tensor | None,
        cycle: Cycle | None = None,
        on: Tensor | None = None,
        also: Tensor | None = None,
        augment: Augment | None = None,
        steps: tuple[LossStep, ...] = (),
    ) -> tuple[Tensor, Tensor]:
        check_rows(rows, given or {}, len(self), self.task.layout.width)
        check_training(self.task, on, augment, loss, steps)
        work = work or self.setting.work
        if self.setting.sample_privacy is not None:
            check_private_work(work, self.setting.work)
        seed = self.setting.seed
        if self.turn or self.trainings:  # a second training in the same round has batches of its own
            seed = key(seed, "training", *[self.turn] * bool(self.turn), self.trainings)
        self.trainings += 1
        if on is None and also is None and not bool(self.samples.all()):  # in a stream, who lacks a task's classes
            only = self.samples > 0 if only is None else only & (self.samples > 0)
        self.before = rows if self.before is None else self.before
        self.after = rows
        places = torch.arange(len(self)) if only is None else only.nonzero().flatten()
        if not len(places):
            return rows, rows
        clients, train = [self.ids[place] for place in places.tolist()], self.task.federation.train
        own = [train[client] if on is None else on for client in clients]
        request = TrainingRequest(
            rows=rows if only is None else rows[places],
            clients=clients,
            positions=own if also is None else [torch.cat([positions, also]) for positions in own],
            work=work,
            lr=work.lr_at(self.round, self.setting.rounds),
            seed=seed,
            round=self.round,
            part=part,
            pull=pull,
            given={name: value if only is None else value[places] for name, value in (given or {}).items()},
            loss=loss,
            cycle=cycle,
            privacy=self.setting.sample_privacy,
            on=on,
            augment=augment,
            steps=steps,
            rates=work.rates_in(self.round, self.setting.rounds),
        )
        result = self.trainer.train(request)
        self.steps[places] += result.steps
        self.rates[places] += result.rates
        self.after = result.rows if only is None else rows.index_copy(0, places, result.rows)
        return self.after, result.anchors if only is None else self.after

    def gradient(self, rows: Tensor) -> Tensor:
        """The gradient rows of each client's mean loss over all of its training data, with the run's weight decay and
        clipping; without dropout and augmentation.

        Args:
            rows: A row per client.
        """
        if self.setting.sample_privacy is not None:
            raise FedloomError(
                "sample_privacy protects local training, and this method sends the gradient of all samples: use fedavg."
            )
        self.before = rows if self.before is None else self.before
        train = self.task.federation.train
        self.steps += 1
        return self.trainer.gradients(rows, [train[client] for client in self.ids], self.setting.work)

    def evaluate(self, rows: Tensor, part: str = "test", label: int | None = None) -> Scores:
        """Loss and score of each client's row on its own data.

        Args:
            rows: A row per client.
            part: ``train``, ``valid`` or ``test``.
            label: The only class whose samples count; all of them by default.
        """
        lists = getattr(self.task.federation, part)
        own = [lists[client] for client in self.ids]
        if label is not None:
            own = [positions[self.task.targets(positions) == label] for positions in own]
        return self.trainer.scores(rows, own)

    def forward(self, rows: Tensor, inputs: Inputs) -> Tensor:
        """The outputs of every client's row on the same prepared inputs: B×n×...

        Args:
            rows: A row per client.
            inputs: Prepared inputs, the same for all clients.
        """
        return self.trainer.outputs(rows, inputs)

    def collect(self, rows: Tensor, positions: Tensor, function: Collect) -> dict[str, Tensor]:
        """What a function finds of every client's network on the same samples, by name: B×n×...

        The networks are in evaluation mode, and no gradient is kept.

        Args:
            rows: A row per client.
            positions: Sorted positions of the samples, such as the communal set.
            function: ``function(network, x, places)`` returns tensors with one entry per sample, by name (see
                ``core.network.Collect``): logits, features, maps of stages.
        """
        check_positions(positions)
        return self.trainer.collect(rows, positions, function)

    def collect_own(self, rows: Tensor, function: Collect) -> list[dict[str, Tensor]]:
        """What a function finds of each client's network on the client's own training samples, by name: n×...

        Args:
            rows: A row per client.
            function: As in ``collect``; it looks at each sample alone.
        """
        lists = [self.task.federation.train[client] for client in self.ids]
        return self.trainer.collect_each(rows, lists, function)

    def features(self, row: Tensor, place: int) -> tuple[Tensor, Tensor]:
        """What the head of a row sees of one client's training samples (n×features), and their targets.

        Args:
            place: The place of the client in the cohort.
        """
        positions = self.task.federation.train[self.ids[place]]
        return self.trainer.features(row, positions), self.task.targets(positions)
