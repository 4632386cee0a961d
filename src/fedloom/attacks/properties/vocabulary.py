"""Which tokens a client uses, by the embedding rows that its update moved.

Of an embedding table only rows that were looked up have a gradient: whose row moved by local SGD, its owner has the
token. In a flow recommender these are an organisation's actions, modules and attributes. Melis, Song, De Cristofaro and
Shmatikov, Exploiting Unintended Feature Leakage in Collaborative Learning, S&P 2019, https://arxiv.org/abs/1805.04049,
section 4.1, say the same of words.

Most organisations use the most frequent tokens, so that a list of these is right too: beside each guess stands the one
that names as many tokens by how often the server's own samples have them. Only what is above it counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.attacks.measures.guesses import auc
from fedloom.attacks.seen_updates import Seen
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task

MOVED = 1e-3
"""From which share of the farthest row's way on a row has moved: far above the rounding of a secure sum."""
BATCH = 256


@dataclass(frozen=True)
class VocabularyGuess:
    """How much of the tokens of a client, or of all clients of a sum, an update gives away.

    Args:
        clients: Whose update it is.
        table: The name of the embedding table.
        tokens: How many tokens the table has.
        used: How many of them these clients use.
        precision: Which share of the guessed tokens they use.
        recall: Which share of their tokens was guessed.
        usual_precision: The precision of as many guesses by how often the server's own samples have a token.
        usual_recall: Their recall.
        auc: How well the way of its row tells a used token from another; 0.5 is chance.
        usual_auc: How well its frequency in the server's own samples does.
    """

    clients: tuple[int, ...]
    table: str
    tokens: int
    used: int
    precision: float
    recall: float
    usual_precision: float
    usual_recall: float
    auc: float
    usual_auc: float


def vocabulary_guesses(task: Task, updates: Sequence[Seen], table: str, own: Tensor) -> list[VocabularyGuess]:
    """How much of the vocabulary of each client, or of each sum, is given away.

    Args:
        updates: What the server saw.
        table: The name of an embedding table of the model, as ``embedding_tables`` lists them.
        own: The positions of samples that the server has.
    """
    usual = token_counts(task, own, table).double()
    found = []
    for update in updates:
        positions = torch.cat([task.federation.train[client] for client in update.clients])
        moved = row_moves(task, update, table)
        found.append(_judge(update.clients, table, moved, usual, token_counts(task, positions, table) > 0))
    return found


def embedding_tables(task: Task) -> dict[str, nn.Embedding]:
    """The embedding tables of a model, by the names of their weights."""
    found = {name: module for name, module in task.model.named_modules() if isinstance(module, nn.Embedding)}
    names = {slot.name for slot in task.layout.trainable}
    return {f"{name}.weight": module for name, module in found.items() if f"{name}.weight" in names}


def row_moves(task: Task, update: Seen, table: str) -> Tensor:
    """How far each row of a table moved.

    Args:
        update: What the server saw.
    """
    _needed_table(task, table)
    moves: Tensor = update.layout.views(update.change)[table].norm(dim=1)
    return moves


def token_counts(task: Task, positions: Tensor, table: str) -> Tensor:
    """How often the tokens of a table are looked up for some samples.

    Args:
        positions: The samples.
    """
    module = _needed_table(task, table)
    counts = torch.zeros(module.num_embeddings, dtype=torch.int64)

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        counts.add_(given[0].flatten().bincount(minlength=len(counts)))

    task.model.eval()
    handle = module.register_forward_pre_hook(note)
    try:
        with torch.no_grad():
            for some in torch.split(positions, BATCH):
                task.model(task.inputs(some))
    finally:
        handle.remove()
    if module.padding_idx is not None:
        counts[module.padding_idx] = 0
    return counts


def _needed_table(task: Task, table: str) -> nn.Embedding:
    tables = embedding_tables(task)
    if table not in tables:
        there = f"its tables are {', '.join(tables)}" if tables else "it has none: use a task of flows or of words"
        raise FedloomError(f"the model of task {task.name} has no embedding table '{table}': {there}.")
    return tables[table]


def _judge(clients: tuple[int, ...], table: str, moved: Tensor, usual: Tensor, used: Tensor) -> VocabularyGuess:
    guessed = moved > MOVED * moved.max()
    frequent = torch.zeros_like(guessed)
    frequent[usual.argsort(descending=True, stable=True)[: int(guessed.sum())]] = True
    rates = [_precision_and_recall(guess, used) for guess in (guessed, frequent)]
    areas = [auc(scores[used], scores[~used]) if bool((~used).any()) else 0.5 for scores in (moved, usual)]
    return VocabularyGuess(clients, table, len(used), int(used.sum()), *rates[0], *rates[1], *areas)


def _precision_and_recall(guessed: Tensor, used: Tensor) -> tuple[float, float]:
    right = float((guessed & used).sum())
    return right / max(int(guessed.sum()), 1), right / max(int(used.sum()), 1)
