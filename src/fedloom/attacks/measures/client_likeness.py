"""Whose samples made images are like: one client's, or anybody's.

Of a class that several clients have, each client has a mean image. An attack on one client tells something of it only
where its image of the class is nearer to the victim's mean than to those of others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.measures.likeness import psnr
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.core.task import Task


@dataclass(frozen=True)
class ClientLikeness:
    """How like images are to a client's, over the classes that it and others have.

    Args:
        nearest: In how many of these classes the image is nearer to the victim's mean than to any other client's.
        chance: How often that is so for an image that says nothing.
        psnr: The PSNR to the victim's means, in dB.
        others: The PSNR to the means of the other clients, in dB.
        classes: How many classes were judged.
    """

    nearest: float
    chance: float
    psnr: float
    others: float
    classes: int

    @property
    def gain(self) -> float:
        """By how many dB images are nearer to the victim's than to others': 0 for those that say nothing of it."""
        return self.psnr - self.others


def client_likeness(task: Task, images: Tensor, victim: int, least: int = 5) -> ClientLikeness:
    """Whose samples an image of each class is like.

    Args:
        images: An image of each class, NaN where there is none.
        victim: Whose samples they are meant to be like.
        least: How many training samples of a class a client must have, for their mean to say something.
    """
    low, high = value_range(task)
    won, chances, mine, theirs = [], [], [], []
    for label, image in enumerate(images):
        means = class_means(task, label, least)
        if victim not in means or len(means) < 2 or bool(image.isnan().any()):
            continue
        near = psnr(image.expand(len(means), *image.shape), torch.stack(list(means.values())), high - low)
        place = list(means).index(victim)
        won.append(float(int(near.argmax()) == place))
        chances.append(1 / len(means))
        mine.append(float(near[place]))
        theirs.append(float((near.sum() - near[place]) / (len(means) - 1)))
    nearest, chance, own, others = (sum(some) / max(len(won), 1) for some in (won, chances, mine, theirs))
    return ClientLikeness(nearest, chance, own, others, len(won))


def class_means(task: Task, label: int, least: int) -> dict[int, Tensor]:
    """The mean image of a class, of each client that has enough of it.

    Args:
        label: The class.
        least: How many samples are enough.
    """
    found = {}
    for client in range(task.federation.clients):
        positions = task.federation.train[client]
        of_class = positions[task.targets(positions) == label]
        if len(of_class) >= least:
            found[client] = inputs_of(task, of_class).mean(0)
    return found
