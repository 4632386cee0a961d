"""A cohort: some clients that work together, and the primitives a method is written with.

A method's client half is written for B rows and true for B = 1: in simulation a cohort has many clients, on a
deployed machine it has one, and the method cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.batches import Assignment
from fedloom.core.local import Given, Loom, Request, gradients_of
from fedloom.core.net import Loss
from fedloom.core.optimizer import clip_
from fedloom.core.seeds import generator, key
from fedloom.core.stacked import Pull, run_chain, run_vmap
from fedloom.core.task import Task
from fedloom.core.work import LocalWork
from fedloom.errors import FedloomError

EVALUATION_BATCH = 512
EVALUATION_CHUNK = 64


@dataclass(frozen=True)
class Setting:
    """What all cohorts of a run share: the local work, the seed, and how many rounds there are."""

    work: LocalWork
    seed: int
    rounds: int


@dataclass
class Scores:
    """Sums over each client's samples: of losses, of scores, and of what they count."""

    loss: Tensor
    score: Tensor
    counts: Tensor

    @property
    def mean_loss(self) -> Tensor:
        """Each client's mean loss (NaN for a client without samples)."""
        return self.loss / self.counts

    @property
    def mean_score(self) -> Tensor:
        """Each client's accuracy (NaN for a client without samples)."""
        return self.score / self.counts


class Cohort:
    """B clients in one round: their data, the state they kept, and what can be done with them."""

    def __init__(
        self, ids: list[int], loom: Loom, setting: Setting, round_number: int, kept: Mapping[str, Tensor] | None = None
    ) -> None:
        self.ids, self.loom, self.setting, self.round = ids, loom, setting, round_number
        self.task: Task = loom.task
        self.state: dict[str, Tensor] = dict(kept or {})
        self.changed: set[str] = set()
        self.steps = torch.zeros(len(ids), dtype=torch.int64)
        self.trainings = 0
        self.before: Tensor | None = None
        self.after: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def samples(self) -> Tensor:
        """How many training samples each client has."""
        return self.task.federation.train.sizes[torch.tensor(self.ids)]

    @property
    def lr(self) -> float:
        """The local learning rate of this round."""
        return self.setting.work.lr_at(self.round, self.setting.rounds)

    def spread(self, row: Tensor) -> Tensor:
        """One row for all clients of the cohort, without a copy."""
        return row.expand(len(self), -1)

    def generator(self, purpose: str, place: int) -> torch.Generator:
        """A random generator of one client's own for one purpose of a method."""
        return generator(self.setting.seed, purpose, self.round, self.ids[place])

    # -- state that stays with clients

    def kept(self, name: str, default: Tensor) -> Tensor:
        """What the clients kept under a name; a client that kept nothing yet gets its row of ``default``."""
        if name not in self.state:
            return default
        has = self.state[f"{name}/has"].bool().view(-1, *[1] * (default.dim() - 1))
        return torch.where(has, self.state[name], default)

    def keep(self, name: str, rows: Tensor) -> None:
        """Keep a row (any width) per client until its next round."""
        self.state[name] = rows.detach().clone()
        self.state[f"{name}/has"] = torch.ones(len(self))
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
    ) -> Tensor:
        """The rows after local training on each client's own data.

        ``work`` (default: the run's) says how much and with which optimiser; ``part`` names the only part that may
        move; ``pull(rows, received, **given)`` is an extra gradient, elementwise on pieces of rows; ``loss`` replaces
        the task's loss. ``given`` are rows that ``pull`` and ``loss`` need.
        """
        if rows.dim() != 2 or len(rows) != len(self):
            raise FedloomError(
                f"cohort.train got rows of shape {tuple(rows.shape)} for {len(self)} clients: it needs a row per "
                "client; a shared row becomes that with cohort.spread(row)."
            )
        work = work or self.setting.work
        seed = self.setting.seed
        if self.trainings:  # a second training in the same round has batches of its own
            seed = key(seed, "training", self.trainings)
        self.trainings += 1
        train = self.task.federation.train
        assignments = [Assignment.of(client, train[client], work, seed, self.round) for client in self.ids]
        lr = work.lr_at(self.round, self.setting.rounds)
        request = Request(rows, work, lr, assignments, seed, self.round, part, pull, given or {}, loss)
        self.before = rows if self.before is None else self.before
        self.after = self.loom.train(request)
        self.steps += torch.tensor([a.steps for a in assignments])
        return self.after

    def gradient(self, rows: Tensor) -> Tensor:
        """The gradient rows of each client's mean loss over all of its training data, with the run's weight decay and
        clipping; without dropout and augmentation."""
        task, loom = self.task, self.loom
        self.before = rows if self.before is None else self.before
        out = torch.zeros(len(self), loom.layout.width)
        moving = {slot.name for slot in loom.layout.trainable}
        parameters = {name: p for name, p in loom.model.named_parameters() if name in moving}
        for place, client in enumerate(self.ids):
            loom.layout.fill(loom.model, rows[place])
            loom.model.eval()
            for parameter in parameters.values():
                parameter.requires_grad_(True)
            views = loom.layout.views(out[place])
            positions, total = task.federation.train[client], 0.0
            for chunk in torch.split(positions, EVALUATION_BATCH):
                losses, counts = task.objective.losses(loom.model(task.inputs(chunk)), task.targets(chunk))
                gradients = gradients_of(losses.sum(), list(parameters.values()))
                for name, gradient in zip(parameters, gradients, strict=True):
                    views[name] += gradient
                total += float(counts.sum())
            out[place] /= total
        work, trained = self.setting.work, loom.layout.trained_columns
        if work.clip is not None:
            clip_([out], work.clip)
        decay = work.weight_decay * rows
        self.steps += 1
        return out + (decay if trained is None else decay * trained)

    def evaluate(self, rows: Tensor, part: str = "test") -> Scores:
        """Loss and score of each client's row on its own train, valid or test part."""
        lists = getattr(self.task.federation, part)
        own = [lists[client] for client in self.ids]
        if self.loom.execution != "loop" and self.loom.chain is not None:
            return Scores(*score_together(self.loom, rows, own))
        found = [score(self.loom, rows[i], positions) for i, positions in enumerate(own)]
        return Scores(*(torch.stack(column) for column in zip(*found, strict=True)))

    def forward(self, rows: Tensor, inputs: Tensor) -> Tensor:
        """The outputs of every client's row on the same prepared inputs: B×n×..."""
        loom = self.loom
        with torch.no_grad():
            if loom.execution == "loop":
                return torch.stack([_outputs(loom, row, inputs) for row in rows])
            stacks, x = loom.layout.stacks(rows), inputs.expand(len(rows), *inputs.shape)
            return run_chain(loom.chain, stacks, x, None) if loom.chain else run_vmap(loom.model, stacks, x, None)


def _outputs(loom: Loom, row: Tensor, inputs: Tensor) -> Tensor:
    loom.layout.fill(loom.model, row)
    loom.model.eval()
    outputs: Tensor = loom.model(inputs)
    return outputs


@torch.no_grad()
def score_together(loom: Loom, rows: Tensor, lists: list[Tensor]) -> list[Tensor]:
    """Sums of loss, score and count of many rows, each on samples of its own, in batched passes."""
    sizes = torch.tensor([len(positions) for positions in lists])
    sums = torch.zeros(3, len(lists), dtype=torch.float64)
    widest, stacks, chain = int(sizes.max()), loom.layout.stacks(rows), loom.chain or []
    positions = torch.nn.utils.rnn.pad_sequence(lists, batch_first=True)
    for start in range(0, widest, EVALUATION_CHUNK):
        chunk = positions[:, start : start + EVALUATION_CHUNK]
        some = sizes > start
        chunk, places = chunk[some], some.nonzero().flatten()
        outputs = run_chain(chain, {name: stack[some] for name, stack in stacks.items()}, loom.task.inputs(chunk), None)
        outputs, targets = outputs.flatten(0, 1), loom.task.targets(chunk).flatten(0, 1)
        losses, counts = loom.task.objective.losses(outputs, targets)
        scores, _ = loom.task.objective.scores(outputs, targets)
        real = (torch.arange(start, start + chunk.shape[1]) < sizes[some, None]).double()
        for row, values in zip(sums, (losses, scores, counts), strict=True):
            row[places] += (values.view(chunk.shape).double() * real).sum(1)
    return list(sums)


@torch.no_grad()
def score(loom: Loom, row: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of loss, score and count of one row on some samples."""
    each = score_samples(loom, row, positions)
    return each[0].sum(), each[1].sum(), each[2].sum()


@torch.no_grad()
def score_samples(loom: Loom, row: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, score and count of one row for each of some samples."""
    task = loom.task
    loom.layout.fill(loom.model, row)
    loom.model.eval()
    columns: list[list[Tensor]] = [[], [], []]
    for chunk in torch.split(positions, EVALUATION_BATCH):
        if not len(chunk):
            break
        outputs, targets = loom.model(task.inputs(chunk)), task.targets(chunk)
        losses, counts = task.objective.losses(outputs, targets)
        scores, _ = task.objective.scores(outputs, targets)
        for column, values in zip(columns, (losses, scores, counts), strict=True):
            column.append(values.double())
    empty = torch.zeros(0, dtype=torch.float64)
    loss, right, counts = (torch.cat(column) if column else empty for column in columns)
    return loss, right, counts
