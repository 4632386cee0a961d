"""Label flipping: hostile clients swap the labels of some classes in their training data, and train honestly on them.

Both ways by default (0 becomes 2, and 2 becomes 0), as in the thesis on FedSeq; one way, source to target, is the
original. *Fixed*: all attackers swap the same pairs. *Random*: each has its own pairing of the same classes, drawn
once, independently of the others. Test data stay as they are.

Tolpegin, Truex, Gursoy and Liu, Data Poisoning Attacks Against Federated Learning Systems, ESORICS 2020,
https://arxiv.org/abs/2007.08432.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import MinLen
from torch import Tensor

from fedloom.attacks.class_names import classes_named
from fedloom.attacks.global_test import predictions_on_test
from fedloom.core.adversary import Adversary
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.server_context import ServerContext
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task


@dataclass(frozen=True)
class LabelFlipping(Adversary):
    """Hostile clients train on swapped labels.

    ``adversary/attacked_accuracy`` is the mean accuracy of the attacked classes on the global test set, and
    ``adversary/success`` the share of their samples that are taken for the class that the attack wants (with random
    pairings, for any other attacked class).

    Args:
        classes: Lists of classes, by number or name, which are swapped in pairs: the first of a list with the second,
            the third with the fourth. Of tagged text, ``PER`` is ``B-PER`` and ``I-PER``. By default class c is
            swapped with the last but c.
        pairing: ``fixed`` swaps these pairs; ``random`` draws pairs within each list, for each hostile client its own.
        one_way: Whether only the first of a pair becomes the second.
    """

    classes: Annotated[list[list[int | str]], MinLen(1)] | None = None
    pairing: Literal["fixed", "random"] = "fixed"
    one_way: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for some in self.classes or ():
            if not some or len(some) % 2 or len(set(some)) < len(some):
                raise FedloomError(
                    f"{type(self).__name__.lower()}: classes has {some}: give an even number of different classes."
                )

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse targets that are no classes, and classes that do not exist or that two pairs name."""
        if task.kind not in ("classes", "tokens"):
            raise FedloomError(
                f"labelflipping swaps classes, and the targets of task {task.name} are {task.kind}: use another attack."
            )
        self.numbers(task)

    def numbers(self, task: Task) -> list[list[list[int]]]:
        """The lists of classes by number; a class stands for several where it names several tags."""
        last, name = task.federation.classes - 1, type(self).__name__.lower()
        usual = [label for pair in zip(range(last // 2 + 1), range(last, -1, -1), strict=False) for label in pair]
        lists: Sequence[Sequence[int | str]] = self.classes or [usual[: (last + 1) // 2 * 2]]
        found = [[classes_named(one, task, name) for one in some] for some in lists]
        named = [label for some in found for one in some for label in one]
        if len(named) != len(set(named)):
            raise FedloomError(f"{name}: classes names a class twice: name each class once.")
        for some in found:
            if len({len(one) for one in some}) > 1:
                raise FedloomError(f"{name}: classes of one list do not have the same tags (B- and I-).")
        return found

    def pairs(self, task: Task, draws: np.random.Generator | None = None) -> list[tuple[int, int]]:
        """The pairs of classes that are swapped, by number.

        Args:
            draws: Where a random pairing is drawn from; without it the pairs are those of the lists.
        """
        found = list[tuple[int, int]]()
        for some in self.numbers(task):
            order = some if draws is None else [some[place] for place in draws.permutation(len(some))]
            for one, other in zip(order[::2], order[1::2], strict=True):
                found += zip(one, other, strict=True)
        return found

    def poison_samples(self, samples: Mapping[str, Tensor], client: int, task: Task, seed: int) -> Mapping[str, Tensor]:
        """The same samples with other labels."""
        draws = numpy_generator(seed, "label pairing", client) if self.pairing == "random" else None
        becomes = torch.arange(task.federation.classes)
        for one, other in self.pairs(task, draws):
            becomes[one] = other
            if not self.one_way:
                becomes[other] = one
        y = samples["y"]
        flipped = becomes[y.clamp(min=0)].to(y.dtype)
        return {"y": torch.where(y == IGNORED, y, flipped)}

    def measure(self, row: Tensor, context: ServerContext, hostile: frozenset[int]) -> Mapping[str, float]:
        """Accuracy of the attacked classes, and how often a sample is taken for what the attack wants."""
        predicted, actual = predictions_on_test(row, context)
        wants = self._wanted(context.task)
        attacked = sorted({label for some in self.numbers(context.task) for one in some for label in one})
        right, success = list[float](), list[float]()
        for label in attacked:
            found = predicted[actual == label]
            if len(found):
                right.append((found == label).double().mean().item())
            if len(found) and label in wants:
                success.append(torch.isin(found, torch.tensor(wants[label])).double().mean().item())
        if not right:
            return {}
        return {"attacked_accuracy": sum(right) / len(right), "success": sum(success) / max(len(success), 1)}

    def _wanted(self, task: Task) -> dict[int, list[int]]:
        """What the attack wants a class to be taken for; with a random pairing, any other class of its list."""
        if self.pairing == "fixed":
            pairs = self.pairs(task)
            return {one: [other] for one, other in pairs} | {b: [a] for a, b in pairs if not self.one_way}
        lists = [[label for one in some for label in one] for some in self.numbers(task)]
        return {label: [other for other in some if other != label] for some in lists for label in some}
