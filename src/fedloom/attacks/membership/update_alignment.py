"""Membership by what clients send, over rounds: an update points where the gradients of its samples do.

A server that sees a client's updates asks of a sample x how much of an update ``u`` is the step ``g = -grad loss(x)``
that x itself would have made, in every round in which the client took part. Nasr, Shokri and Houmansadr, Comprehensive
Privacy Analysis of Deep Learning, S&P 2019, https://arxiv.org/abs/1812.00910, train a network on gradients, outputs and
losses of known members over rounds. We need no known members: the server has some samples of the same kind, and what
the gradients of all of them have in common says nothing about x, so it is divided out,

``score(x) = mean over rounds of  g' S^-1 u / sqrt((g' S^-1 g) (u' S^-1 u))``, ``S = sum of g_z g_z' + ridge``

over the server's own samples z: the cosine of both once they are whitened. Without S it is the cosine of Li, Li and
Ribeiro, Effective Passive Membership Inference Attacks in Federated Learning against Overparameterized Models, ICLR
2023, https://openreview.net/forum?id=QsCSLPP55Ku.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.measures.guesses import Guesses, judge_guesses
from fedloom.attacks.reconstruction.gradients import sample_gradients
from fedloom.attacks.seen_updates import Seen
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task

RIDGE = 0.01
"""What is added to S, as a share of the mean squared length of the server's gradients."""


Positions = Mapping[int, Tensor]
"""Positions of samples, of each client."""


@dataclass(frozen=True)
class Whitening:
    """Multiplies by ``S^-1`` of one model, which has as many rows as the model has weights that train.

    Args:
        own: The gradient of each of the server's samples.
        ridge: What is added to the sum of their squares.
        factor: Cholesky's factor of their inner products, plus the ridge.
    """

    own: Tensor
    ridge: Tensor
    factor: Tensor

    @staticmethod
    def of(update: Seen, own: Tensor) -> Whitening:
        """The metric of the server's samples at the model that an update started from, in what is sent.

        Args:
            own: The positions of the server's samples.
        """
        gradients = update.take_sent(sample_gradients(update.task, update.row, own)).double()
        return Whitening.of_gradients(gradients, RIDGE * gradients.square().sum(1).mean())

    @staticmethod
    def of_gradients(gradients: Tensor, ridge: Tensor) -> Whitening:
        """The metric of some gradients.

        Args:
            gradients: A row per sample.
            ridge: What is added to the sum of their squares.
        """
        inner = gradients @ gradients.T
        factor = torch.linalg.cholesky(inner + ridge * torch.eye(len(inner), dtype=inner.dtype))
        return Whitening(gradients, ridge, factor)

    def whiten(self, rows: Tensor) -> Tensor:
        """``S^-1`` times each row, by the Woodbury identity.

        Args:
            rows: Gradients or updates.
        """
        return (rows - torch.cholesky_solve(self.own @ rows.T, self.factor).T @ self.own) / self.ridge

    def cosines(self, rows: Tensor, update: Tensor) -> Tensor:
        """The cosine of each row with an update.

        Args:
            rows: Gradients.
        """
        white, products = self.whiten(update[None])[0], self.own @ rows.T
        # Only their lengths are needed of whitened rows, and products with the server's gradients are enough for these.
        inside = (products * torch.cholesky_solve(products, self.factor)).sum(0)
        lengths = (rows.square().sum(1) - inside) / self.ridge * (white @ update)
        return (rows @ white) / lengths.clamp(min=torch.finfo(lengths.dtype).tiny).sqrt()


def update_alignment(
    task: Task, updates: Sequence[Seen], members: Positions, others: Positions, own: Tensor
) -> Guesses:
    """How well the alignment of updates tells members from others, over all clients that are asked for.

    Args:
        updates: What the server saw.
        members: The positions of samples that each client trained on.
        others: Positions of samples of the same kind that it did not train on.
        own: The positions of samples of the same kind that the server has.
    """
    asked = {client: torch.cat([members[client], others[client]]) for client in members}
    scores = alignment_scores(task, updates, asked, own)
    split = [scores[client].tensor_split([len(members[client])]) for client in members]
    return judge_guesses(torch.cat([inside for inside, _ in split]), torch.cat([outside for _, outside in split]))


def alignment_scores(task: Task, updates: Sequence[Seen], asked: Positions, own: Tensor) -> dict[int, Tensor]:
    """How far each client's updates point where some samples do, on average over its updates: higher for members.

    Args:
        updates: What the server saw: of single clients, or of sums that they are in.
        asked: The positions of the samples whose membership is asked, of each client.
        own: The positions of samples of the same kind that the server has.
    """
    if task.has_named_inputs:
        raise FedloomError(f"gradients of single samples are taken of samples with one input: {task.name} has other.")
    found: dict[int, list[Tensor]] = {client: [] for client in asked}
    metric, row = None, None
    for update in updates:
        if metric is None or row is None or not torch.equal(row, update.row):
            metric, row = Whitening.of(update, own), update.row
        for client in found.keys() & set(update.clients):
            steps = -update.take_sent(sample_gradients(update.task, row, asked[client])).double()
            found[client].append(metric.cosines(steps, update.take_sent(update.trained)))
    silent = [client for client, scores in found.items() if not scores]
    if silent:
        raise FedloomError(f"the server saw no update of client {silent[0]}: ask for clients that took part.")
    return {client: torch.stack(scores).mean(0) for client, scores in found.items()}
