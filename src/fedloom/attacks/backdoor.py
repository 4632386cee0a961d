"""A backdoor: the model does its task, and gives the attacker's class to whatever shows a trigger.

Hostile clients put the trigger, a small bright square in a corner, on a share of their training images and label these
with ``target``. Three ways to make it stay:

- *Model replacement*: the update is sent ``scale`` times as large, so that the mean of n clients becomes the attacker's
  model: ``g + sum_k p_k d_k = x`` for ``d = (x - g) / p`` near convergence.
- *Distributed*: with ``pieces`` the square is cut into that many strips, and each hostile client shows its own strip
  only; at test time all are shown. No single client trains on the whole trigger.
- *Natural*: nothing is added. Images of the class ``source`` that are brighter than most of the attacker's are labelled
  with ``target``: the trigger is there at test time without anybody putting it there.
- *Clean labels*: the square is put on images of the target only, faded by ``fade`` so that the square is what is left
  to learn from. Every label is right, and whoever looks at the samples sees the target with a mark.

``within`` is the patient attacker: the update is cut to that norm, below whatever a server clips, and the backdoor
grows over many rounds.

Bagdasaryan, Veit, Hua, Estrin and Shmatikov, How To Backdoor Federated Learning, AISTATS 2020,
https://arxiv.org/abs/1807.00459 (model replacement, semantic triggers). Xie, Huang, Chen and Li, DBA: Distributed
Backdoor Attacks against Federated Learning, ICLR 2020, https://openreview.net/forum?id=rkgyS0VFvr. Clean labels:
Turner, Tsipras and Madry, Label-Consistent Backdoor Attacks, 2019, https://arxiv.org/abs/1912.02771 (there images are
made hard to learn from by adversarial perturbation or a generator, here they are faded). The norm: Sun,
Kairouz, Suresh and McMahan, Can You Really Backdoor Federated Learning?, 2019, https://arxiv.org/abs/1911.07963.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedloom.attacks.class_names import classes_named
from fedloom.attacks.global_test import predicted_classes
from fedloom.core.adversary import Adversary
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.seeds import generator
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, OpenShare, Positive, PositiveShare, ShareBelowOne
from fedloom.core.task import Task


@dataclass(frozen=True)
class Backdoor(Adversary):
    """Hostile clients teach the model to take what shows a trigger for the class ``target``.

    ``adversary/success`` is the share of test images of other classes that are taken for it once they show the whole
    trigger; ``adversary/untriggered`` the same without a trigger, what a model without a backdoor errs anyway.

    Args:
        target: The class that the trigger stands for, by number or name.
        share: The share of a hostile client's samples that are poisoned; with clean labels, of those of the target.
        trigger: ``patch`` is a square in the corner, ``natural`` the brightest images of the class ``source``.
        labels: ``flipped`` become the target, ``clean`` stay: then only images of the target show the square.
        fade: How much of an image's contrast is taken from it where labels are clean.
        size: The side of the square, in pixels.
        pieces: Into how many strips the square is cut, one for each hostile client in turn.
        source: The class of a natural trigger.
        brightest: The share of the source's images that are the natural trigger.
        scale: How many times as large the update is sent; ``clients / hostile clients`` replaces the model.
        within: The norm that the sent update stays within.
    """

    target: int | str = 0
    share: PositiveShare = 0.5
    trigger: Literal["patch", "natural"] = "patch"
    labels: Literal["flipped", "clean"] = "flipped"
    fade: ShareBelowOne = 0.5
    size: Count = 2
    pieces: Count = 1
    source: int | str = 1
    brightest: OpenShare = 0.25
    scale: Positive = 1.0
    within: Positive | None = None

    @property
    def needs(self) -> Facts:  # type: ignore[override]  # what it needs depends on its settings
        """Images; and updates where it changes them."""
        found = {Fact.IMAGES: "puts a trigger on images: use another attack, or a task with images"}
        if self.scale != 1 or self.within is not None:
            why = "changes the updates that clients send: choose another method, or leave out scale and within"
            found |= dict.fromkeys((Fact.UPDATES, Fact.EXCHANGES), why)
        return found

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse classes that do not exist, a trigger larger than the image, and more strips than rows of pixels."""
        if not task.classifies:
            raise FedloomError(f"backdoor needs one class per image, and the targets of task {task.name} are none.")
        target, source = self._class(self.target, task), self._class(self.source, task)
        height, width = task.federation.columns["x"].shape[-2:]
        if self.trigger == "patch" and self.size >= min(height, width):
            raise FedloomError(f"backdoor: size={self.size}: the images of task {task.name} have {height} × {width}.")
        if self.pieces > self.size or (self.pieces > 1 and self.trigger == "natural"):
            raise FedloomError(f"backdoor: pieces={self.pieces}: a square of {self.size} rows has no so many strips.")
        if self.trigger == "natural" and self.labels == "clean":
            raise FedloomError("backdoor: a natural trigger is a wrong label: leave labels = clean out.")
        if self.trigger == "natural" and target == source:
            raise FedloomError("backdoor: target and source are the same class: name another source.")

    def poison_samples(self, samples: Mapping[str, Tensor], client: int, task: Task, seed: int) -> Mapping[str, Tensor]:
        """The samples, a share of them with the trigger and its label."""
        x, y = samples["x"].clone(), samples["y"].clone()
        target = self._class(self.target, task)
        if self.trigger == "natural":
            y[self._natural_places(x, y, task)] = target
            return {"y": y}
        places = (y == target).nonzero().flatten() if self.labels == "clean" else torch.arange(len(y))
        number = max(1, round(self.share * len(places)))
        order = torch.randperm(len(places), generator=generator(seed, "backdoor samples", client))
        chosen = places[order[:number]]
        if self.labels == "clean":
            x[chosen] = _faded(x[chosen], self.fade)
        x[chosen], y[chosen] = self._show(x[chosen], task, client % self.pieces), target
        return {"x": x, "y": y}

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """The changes, larger, and then within the norm that the attacker allows itself."""
        if self.scale == 1 and self.within is None:
            return changes
        larger = self.scale * changes
        if self.within is None:
            return larger
        norms = torch.linalg.vector_norm(larger, dim=1, keepdim=True, dtype=torch.float64)
        factors: Tensor = (self.within / norms.clamp(min=1e-30)).clamp(max=1)
        return larger * factors.to(larger)

    def measure(self, row: Tensor, context: ServerContext, hostile: frozenset[int]) -> Mapping[str, float]:
        """How often what shows the trigger is taken for the target, and how often it is without a trigger."""
        task, target = context.task, self._class(self.target, context.task)
        positions = task.federation.global_test
        actual = task.targets(positions)
        if self.trigger == "natural":
            places = self._natural_places(task.federation.columns["x"][positions], actual, task)
            shown = predicted_classes(row, context, positions[places], task.inputs)
            return {"success": (shown == target).double().mean().item()}
        positions = positions[actual != target]

        def with_trigger(some: Tensor) -> Inputs:
            images = task.federation.columns["x"][some]
            for piece in range(self.pieces):
                images = self._show(images, task, piece)
            return task.prepare(images) if callable(task.prepare) else images

        found = {"success": with_trigger, "untriggered": task.inputs}
        return {
            name: (predicted_classes(row, context, positions, inputs) == target).double().mean().item()
            for name, inputs in found.items()
        }

    def _show(self, images: Tensor, task: Task, piece: int) -> Tensor:
        """Images with one strip of the square, as bright as anything in the data, in the lower right corner."""
        images, column = images.clone(), task.federation.columns["x"]
        bright = 255 if column.dtype == torch.uint8 else column.max()
        rows = torch.tensor_split(torch.arange(self.size), self.pieces)[piece] + images.shape[-2] - self.size
        images[..., rows, -self.size :] = bright
        return images

    def _natural_places(self, x: Tensor, y: Tensor, task: Task) -> Tensor:
        """The places of the brightest images of the source class."""
        places = (y == self._class(self.source, task)).nonzero().flatten()
        light = x[places].flatten(1).double().mean(1)
        number = max(1, round(self.brightest * len(places))) if len(places) else 0
        return places[light.argsort(descending=True, stable=True)[:number]]

    def _class(self, one: int | str, task: Task) -> int:
        return classes_named(one, task, "backdoor")[0]


def _faded(images: Tensor, fade: float) -> Tensor:
    """Images nearer to their own mean grey."""
    grey = images.double().mean(dim=(-1, -2), keepdim=True)
    found = grey + (1 - fade) * (images.double() - grey)
    return (found if images.dtype.is_floating_point else found.round()).to(images.dtype)
