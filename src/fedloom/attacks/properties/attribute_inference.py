"""A sensitive column of a known record, guessed from a model that was trained on it.

Who knows a record but for one column puts each of its values in, and takes the one for which the record's label is
likeliest, ``argmax_v  log p(v | other columns, label) - loss(model, record with v)``. Fredrikson et al., Privacy in
Pharmacogenetics, USENIX Security 2014, and Model Inversion Attacks that Exploit Confidence Information, CCS 2015.

What is right may still be nothing that the model told: columns tell of each other. So two guesses without the model
stand beside it, the most frequent value, and the likeliest given the other columns and the label by logistic regression
on the attacker's own records; only what is above both counts. Jayaraman and Evans, Are Attribute Inference Attacks Just
Imputation?, CCS 2022, https://arxiv.org/abs/2209.01292.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.attacks.measures.interval import clopper_pearson
from fedloom.attacks.reconstruction.gradients import inputs_of, outputs_of
from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.task import Task

MOST_VALUES = 20


@dataclass(frozen=True)
class AttributeGuesses:
    """How often a column was guessed, and how often it is without the model.

    Args:
        right: The share of records whose value was guessed.
        most_frequent: The share that has the most frequent value of the attacker's own records.
        imputed: The share that is guessed from the other columns and the label.
        gained: How many records are right with the model only.
        lost: How many are right without it only.
        records: How many records were judged.
    """

    right: float
    most_frequent: float
    imputed: float
    gained: int
    lost: int
    records: int

    @property
    def baseline(self) -> float:
        """The better of both guesses without the model."""
        return max(self.most_frequent, self.imputed)

    @property
    def told_by_the_model(self) -> bool:
        """Whether the model told something: right above the baseline, and by more than chance (95 %)."""
        changed = self.gained + self.lost
        return self.right > self.baseline and float(clopper_pearson(self.gained, changed)[0]) > 0.5


def attribute_inference(
    task: Task, row: Tensor, asked: Tensor, own: Tensor, columns: Sequence[int]
) -> AttributeGuesses:
    """Guess a column of known records.

    Args:
        task: A task on a table: each sample is a row of numbers, with a class.
        row: The model that an attacker has.
        asked: The positions of the records whose column is guessed; all else of them is known.
        own: The positions of the attacker's own records.
        columns: The input columns that hold the sensitive one: one, or several of an encoded category.
    """
    records, mine = table_of(task, asked), table_of(task, own)
    strange = [column for column in columns if not 0 <= column < records.shape[1]]
    if strange:
        raise FedloomError(f"columns: there is no input column {strange[0]}: there are {records.shape[1]}, from 0.")
    values, places = mine[:, list(columns)].unique(dim=0, return_inverse=True)  # type: ignore[no-untyped-call]
    if not 2 <= len(values) <= MOST_VALUES:
        raise FedloomError(
            f"the attacker's records have {len(values)} values in the sensitive column, and one of 2 to {MOST_VALUES} "
            "is guessed: choose a column of categories."
        )
    truth = torch.cdist(records[:, list(columns)], values).argmin(1)
    known = [
        torch.cat([_without(rows, columns), _classes(task, at)], 1) for rows, at in ((records, asked), (mine, own))
    ]
    usual = _likely_values(known[1], places, known[0], len(values))
    losses = torch.stack([_losses(task, row, records, columns, value, asked) for value in values], 1)
    guessed, imputed = (usual - losses).argmax(1) == truth, usual.argmax(1) == truth
    frequent = truth == int(places.bincount().argmax())
    right, most_frequent, without = (float(hits.double().mean()) for hits in (guessed, frequent, imputed))
    gained, lost = int((guessed & ~imputed).sum()), int((imputed & ~guessed).sum())
    return AttributeGuesses(right, most_frequent, without, gained, lost, len(asked))


def table_of(task: Task, positions: Tensor) -> Tensor:
    """Prepared records; a ``FedloomError`` says that samples are no records.

    Args:
        positions: Where they are.
    """
    if not task.classifies or not isinstance(task.objective, CrossEntropy) or task.has_named_inputs:
        raise FedloomError(f"a column is guessed by the classes of records with one input, and {task.name} has other.")
    records = inputs_of(task, positions)
    if records.dim() != 2 or not records.is_floating_point():
        raise FedloomError(f"a column is guessed of records in a table, and task {task.name} has other samples.")
    return records


def _without(records: Tensor, columns: Sequence[int]) -> Tensor:
    return records[:, [column for column in range(records.shape[1]) if column not in columns]]


def _classes(task: Task, positions: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(task.targets(positions), task.federation.classes).float()


def _likely_values(known: Tensor, values: Tensor, asked: Tensor, number: int) -> Tensor:
    """The logarithm of how likely each value is, without the model: records×values."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(max_iter=1000).fit(known.numpy(), values.numpy())
    found = np.log(fitted.predict_proba(asked.numpy()) + 1e-12)
    return torch.from_numpy(found).reshape(len(asked), number)


def _losses(task: Task, row: Tensor, records: Tensor, columns: Sequence[int], value: Tensor, asked: Tensor) -> Tensor:
    """The loss of each record with a value put in."""
    changed = records.clone()
    changed[:, list(columns)] = value
    with torch.no_grad():
        outputs = outputs_of(task, task.layout.views(row), changed).double()
    return torch.nn.functional.cross_entropy(outputs, task.targets(asked), reduction="none")
