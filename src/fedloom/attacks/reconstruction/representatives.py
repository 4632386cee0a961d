"""What a client's update says of its samples as a whole: images, a few for each class, that would have made it.

``X' = argmin mean_l (1 - cos(grad_l(X', y), change_l)) + tv * TV(X')``, with as many images of a class as the update
says that the client has of it. A client has more samples than an update tells apart, so that what is found is no
sample but something like their mean: representatives of its classes. Wang et al. (``client_gan.py``) seek them by
the squared distance of updates and a penalty on noise; we follow the direction (``inverting.py``), which needs neither
the learning rate nor the number of local steps, and take the update for one gradient: repeating forty steps of a client
in every iteration costs forty times as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of
from fedloom.attacks.reconstruction.inverting import invert_gradient
from fedloom.attacks.reconstruction.labels import label_counts, last_bias, mean_prediction
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.attacks.seen_updates import Seen
from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.seeds import generator
from fedloom.core.task import Task


@dataclass(frozen=True, eq=False)
class Representatives:
    """Images that stand for a client's samples in a round.

    Args:
        client: Whose samples.
        row: The model that it got.
        images: Prepared inputs.
        labels: Their classes.
    """

    client: int
    round: int
    row: Tensor
    images: Tensor
    labels: Tensor


def client_representatives(
    task: Task,
    updates: Sequence[Seen],
    own: Tensor,
    *,
    number: int = 20,
    iterations: int = 200,
    smoothness: float = 0.01,
    seed: int = 0,
) -> list[Representatives]:
    """The representatives of every client in every round, in the order of the updates.

    Args:
        updates: What the server saw.
        own: The positions of the server's own samples, which say what the model predicts on average.
        number: How many images a client has in a round.
        iterations: Steps of the search.
        smoothness: How much smooth images are preferred; tv in the formula.
        seed: Keys the starting points.
    """
    check_representatives(task, updates)
    low, high = value_range(task)
    found = []
    for update in updates:
        client, round_number = update.clients[0], update.context.round
        labels = labels_of_update(task, update, own, number)
        guess = invert_gradient(
            *(task, update.row, update.trained.float(), labels, LocalSteps()),
            low=low,
            high=high,
            smoothness=smoothness,
            iterations=iterations,
            generator=generator(seed, "representatives", round_number, client),
        )
        found.append(Representatives(client, round_number, update.row, guess.inputs, labels))
    return found


def mean_representatives(found: Sequence[Representatives], client: int, classes: int) -> Tensor:
    """The mean of a client's representatives of each class over all rounds; NaN where there is none.

    Args:
        found: The representatives of all clients.
        classes: How many classes there are.
    """
    own = [one for one in found if one.client == client]
    images, labels = torch.cat([one.images for one in own]), torch.cat([one.labels for one in own])
    return torch.stack([images[labels == label].mean(0) for label in range(classes)])


def with_shuffled_clients(found: Sequence[Representatives], seed: int = 0) -> list[Representatives]:
    """The same representatives, dealt anew to the clients of each round: a control in which nobody's are their own.

    Args:
        found: The representatives of all clients, round by round.
        seed: Keys who gets whose.
    """
    dealt = []
    for number, together in groupby(found, key=lambda one: one.round):
        some = list(together)
        order = torch.randperm(len(some), generator=generator(seed, "shuffled clients", number))
        dealt += [replace(some[place], client=one.client) for one, place in zip(some, order.tolist(), strict=True)]
    return dealt


def check_representatives(task: Task, updates: Sequence[Seen]) -> None:
    """Refuse samples that are no images of a class, models that tell no labels, and sums.

    Args:
        updates: What the server saw.
    """
    if not task.classifies or task.has_named_inputs or not isinstance(task.objective, CrossEntropy):
        raise FedloomError(f"representatives are images of classes, and task {task.name} has none: use such a task.")
    if inputs_of(task, task.sample).dim() != 4:
        raise FedloomError(
            f"representatives are images, and the samples of task {task.name} are not: use a task on images."
        )
    if last_bias(task) is None:
        raise FedloomError(
            "representatives find labels by the bias of the model's last layer, which has none: use a model whose last "
            "layer has a bias."
        )
    if any(update.row.numel() != task.layout.width for update in updates):
        raise FedloomError("representatives are sought with the task's model, and clients of this run have others.")
    if any(update.columns is not None for update in updates):
        raise FedloomError("representatives are sought in a whole model, and clients of this run send a part of it.")
    if any(update.of_sum for update in updates):
        raise FedloomError("a secure sum shows what all of its clients have, and no single one can be rebuilt from it.")


def labels_of_update(task: Task, update: Seen, own: Tensor, number: int) -> Tensor:
    """The classes of a client's representatives: in the shares in which it seems to have them.

    Args:
        own: The positions of the server's own samples.
        number: How many representatives there are.
    """
    context = update.context
    steps = LocalSteps.of(context.work, update.samples, context.round, context.rounds)
    gradient = -update.trained / (steps.lr * max(steps.count, 1))  # where there was one step, it is one
    bias = gradient[-task.federation.classes :]  # the last columns that train
    counts = label_counts(bias, mean_prediction(task, update.row, inputs_of(task, own)), number)
    return torch.repeat_interleave(torch.arange(len(counts)), counts)
