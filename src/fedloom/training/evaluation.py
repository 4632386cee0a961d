"""Forward passes that train nothing: outputs, features, losses and scores of rows on given samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.training.local_trainer import LocalTrainer
from fedloom.training.network import Net
from fedloom.training.stacked import run_chain, run_vmap

EVALUATION_BATCH = 512
EVALUATION_CHUNK = 64


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


@torch.no_grad()
def outputs_of(trainer: LocalTrainer, rows: Tensor, inputs: Tensor) -> Tensor:
    """The outputs of every row on the same prepared inputs: B×n×..."""
    if trainer.execution == "loop":
        return torch.stack([_outputs(trainer, row, inputs) for row in rows])
    stacks, x = trainer.layout.stacks(rows), inputs.expand(len(rows), *inputs.shape)
    return run_chain(trainer.chain, stacks, x, None) if trainer.chain else run_vmap(trainer.model, stacks, x, None)


def _outputs(trainer: LocalTrainer, row: Tensor, inputs: Tensor) -> Tensor:
    trainer.layout.fill(trainer.model, row)
    trainer.model.eval()
    outputs: Tensor = trainer.model(inputs)
    return outputs


@torch.no_grad()
def features_of(trainer: LocalTrainer, row: Tensor, positions: Tensor) -> Tensor:
    """What the head sees of some samples under one row: n×features."""
    trainer.layout.fill(trainer.model, row)
    trainer.model.eval()
    net = Net(trainer.model, dict(trainer.model.named_parameters()))
    return torch.cat(
        [net.features(trainer.task.inputs(chunk)).flatten(1) for chunk in torch.split(positions, EVALUATION_BATCH)]
    )


def scores_of(trainer: LocalTrainer, rows: Tensor, lists: Iterable[Tensor]) -> Scores:
    """Loss and score of each row on its own list of samples, in batched passes where the model allows it."""
    own = list(lists)
    if trainer.execution != "loop" and trainer.chain is not None:
        return Scores(*score_together(trainer, rows, own))
    found = [score(trainer, rows[i], positions) for i, positions in enumerate(own)]
    return Scores(*(torch.stack(column) for column in zip(*found, strict=True)))


@torch.no_grad()
def score_together(trainer: LocalTrainer, rows: Tensor, lists: list[Tensor]) -> list[Tensor]:
    """Sums of loss, score and count of many rows, each on samples of its own, in batched passes."""
    sizes = torch.tensor([len(positions) for positions in lists])
    sums = torch.zeros(3, len(lists), dtype=torch.float64)
    widest, stacks, chain = int(sizes.max()), trainer.layout.stacks(rows), trainer.chain or []
    positions = torch.nn.utils.rnn.pad_sequence(lists, batch_first=True)
    for start in range(0, widest, EVALUATION_CHUNK):
        chunk = positions[:, start : start + EVALUATION_CHUNK]
        some = sizes > start
        chunk, places = chunk[some], some.nonzero().flatten()
        outputs = run_chain(
            chain, {name: stack[some] for name, stack in stacks.items()}, trainer.task.inputs(chunk), None
        )
        outputs, targets = outputs.flatten(0, 1), trainer.task.targets(chunk).flatten(0, 1)
        losses, counts = trainer.task.objective.losses(outputs, targets)
        scores, _ = trainer.task.objective.scores(outputs, targets)
        real = (torch.arange(start, start + chunk.shape[1]) < sizes[some, None]).double()
        for row, values in zip(sums, (losses, scores, counts), strict=True):
            row[places] += (values.view(chunk.shape).double() * real).sum(1)
    return list(sums)


@torch.no_grad()
def score(trainer: LocalTrainer, row: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of loss, score and count of one row on some samples."""
    each = score_samples(trainer, row, positions)
    return each[0].sum(), each[1].sum(), each[2].sum()


@torch.no_grad()
def score_samples(trainer: LocalTrainer, row: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, score and count of one row for each of some samples."""
    task = trainer.task
    trainer.layout.fill(trainer.model, row)
    trainer.model.eval()
    columns: list[list[Tensor]] = [[], [], []]
    for chunk in torch.split(positions, EVALUATION_BATCH):
        if not len(chunk):
            break
        outputs, targets = trainer.model(task.inputs(chunk)), task.targets(chunk)
        losses, counts = task.objective.losses(outputs, targets)
        scores, _ = task.objective.scores(outputs, targets)
        for column, values in zip(columns, (losses, scores, counts), strict=True):
            column.append(values.double())
    empty = torch.zeros(0, dtype=torch.float64)
    loss, right, counts = (torch.cat(column) if column else empty for column in columns)
    return loss, right, counts
