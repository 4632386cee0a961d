"""The generators of a GAN attack as they were after every visit, with the model that judged them.

A run keeps the last generator of each hostile client, and no picture; this has them all, for a measure or for a look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gan import GAN
from fedloom.core.cohort import Cohort
from fedloom.registry.plain_values import hyperparameters


@dataclass(frozen=True, eq=False)
class GeneratorVisit:
    """A round in which a hostile client took part.

    Args:
        received: The model that it got, which judged its images.
        generator: Its generator afterwards.
    """

    round: int
    client: int
    received: Tensor
    generator: Tensor


def with_visits(attack: GAN, tell: Callable[[GeneratorVisit], None]) -> GAN:
    """The same attack, which tells of every visit; in a run without workers of their own.

    Args:
        tell: Is told.
    """
    kind = type(attack)

    class WatchedGAN(kind):  # type: ignore[misc, valid-type]
        def learn(self, received: Tensor, row: Tensor, cohort: Cohort, place: int, draws: torch.Generator) -> Tensor:
            found: Tensor = super().learn(received, row, cohort, place, draws)
            tell(GeneratorVisit(cohort.round, cohort.ids[place], received.clone(), found))
            return found

    WatchedGAN.__name__ = kind.__name__
    watched: GAN = WatchedGAN(**hyperparameters(attack))
    return watched
