"""The GAN attack by a client: it learns to make images from the models that it gets.

Whenever the client takes part, the model that it received judges what its generator makes; the generator, a row that
the client keeps, goes on from round to round. Three variants:

- ``added``, the thesis on FedSeq: the received model gets one more dense output, ``sigmoid(v . outputs + b)``, and is
  trained, as a copy, to tell the client's own images from made ones, ``-log D(x) - log(1 - D(G(z)))``, against a
  generator with the loss ``-log D(G(z))``. The client trains honestly beside it: nobody else sees a difference. What
  the model knows of others' images enters only through the copy's first weights.
- ``random``, its control: the same with a copy whose weights say nothing (those of the received model, shuffled within
  each tensor). What it makes comes from the client's own images.
- ``original``: the received model, frozen, is the judge; the generator learns what it takes for the class ``target``,
  and the client trains one pass over ``fakes`` made images that it calls ``label``, after its own: those who have the
  class then teach the model more of it. In the paper ``label`` is a class that nobody else has. With a ``scale`` it is
  poison without a sample of the target (Zhang et al.): the model learns to take the target for ``label``.

Rizzardi's thesis on FedSeq, 2022 (targets are exact here, where its code adds noise to them); Hitaj, Ateniese and
Perez-Cruz, Deep Models Under the GAN: Information Leakage from Collaborative Deep Learning, CCS 2017,
https://arxiv.org/abs/1702.07464; Zhang, Chen, Wu, Chen and Yu, Poisoning Attack in Federated Learning using Generative
Adversarial Nets, TrustCom 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.attacks.global_test import predictions_on_test
from fedloom.attacks.reconstruction.generator import GeneratorKind
from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of, local_change, outputs_of, trained_tensors
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.core.adversary import Adversary
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, Positive, WholeNumber
from fedloom.core.task import Task

GENERATOR = "gan/generator"
BETAS = (0.5, 0.999)
"""Of Adam, as DCGAN has them."""


@dataclass(frozen=True)
class GAN(Adversary):
    """Hostile clients train a generator of images against the models that they get.

    Args:
        variant: ``added``: the received model with one more output, as a copy; ``random``: the same with weights that
            say nothing; ``original``: the received model as it is, and made images among the client's own.
        steps: Steps of the generator whenever a hostile client takes part.
        batch_size: Images per step, made ones and, unless the model is frozen, real ones.
        lr: The learning rate of Adam, for the generator and for the copy.
        latent: How many numbers an image is made of.
        width: The maps of the generator's last hidden layer.
        target: The class that ``original`` is after.
        label: What ``original`` calls the images that it makes; by default the class after the target.
        fakes: How many of them its client trains on.
        scale: How many times as large the change by these images is sent.
    """

    needs: ClassVar[Facts] = {
        Fact.IMAGES: "makes images: use a task on images, or another attack",
        Fact.MODEL_DOWN: "judges images by the model that a client gets: choose another method",
        Fact.WHOLE_MODEL: "judges images by a whole model: choose a method that shares one, such as fedavg",
    }

    breaks: ClassVar[Facts] = {Fact.GRAPHS: "makes images, and no nodes: leave out one of the two"}

    variant: Literal["added", "random", "original"] = "added"
    steps: Count = 50
    batch_size: Count = 32
    lr: Positive = 0.001
    latent: Count = 32
    width: Count = 16
    target: WholeNumber = 0
    label: WholeNumber | None = None
    fakes: Count = 64
    scale: Positive = 1.0

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse classes that do not exist, and what is no image of a class."""
        if not task.classifies or task.has_named_inputs:
            raise FedloomError(f"gan makes images of classes, and task {task.name} has none: use another attack.")
        classes = task.federation.classes
        for name, label in (("target", self.target), ("label", self.label_of(task))):
            if label >= classes:
                raise FedloomError(f"gan: {name}={label}: task {task.name} has classes 0 to {classes - 1}.")
        if self.variant == "original" and self.label == self.target:
            raise FedloomError(f"gan: label and target are both {self.target}: call what it makes another class.")

    def label_of(self, task: Task) -> int:
        """What ``original`` calls the images that it makes."""
        return (self.target + 1) % task.federation.classes if self.label is None else self.label

    def generators_for(self, task: Task) -> GeneratorKind:
        """The generators of its clients.

        Args:
            task: The task, whose images they make.
        """
        low, high = value_range(task)
        return GeneratorKind(tuple(inputs_of(task, task.sample).shape[1:]), low, high, self.latent, self.width)

    def look_at_message(self, message: Message, cohort: Cohort, hostile: Tensor) -> None:
        """Train the generators of the hostile clients against the model that they got, and keep them."""
        if "row" not in message or not self.acts_in(cohort.round):
            return
        kind, received = self.generators_for(cohort.task), cohort.spread(message["row"])
        rows = torch.zeros(len(cohort), kind.layout.width)
        for place in hostile.nonzero().flatten().tolist():
            draws = cohort.generator("gan", place)
            rows[place] = self.learn(received[place], self._row(kind, cohort, place, draws), cohort, place, draws)
        cohort.keep(GENERATOR, rows, only=hostile)

    def _row(self, kind: GeneratorKind, cohort: Cohort, place: int, draws: torch.Generator) -> Tensor:
        """The generator that a client kept, or a new one."""
        if bool(cohort.has(GENERATOR)[place]):
            return cohort.kept[GENERATOR].rows[place]
        return kind.new_row(draws.initial_seed())

    @torch.enable_grad()
    def learn(self, received: Tensor, row: Tensor, cohort: Cohort, place: int, draws: torch.Generator) -> Tensor:
        """The generator of a client after its steps against a model.

        Args:
            received: The model.
            row: The generator before.
            cohort: The clients of the round.
            place: The place of the client among them.
            draws: Draws batches and noise.
        """
        task, kind = cohort.task, self.generators_for(cohort.task)
        network = kind.filled(row)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.lr, betas=BETAS)
        judge = self._judge(task, received, draws)
        own = inputs_of(task, task.federation.train[cohort.ids[place]])
        for _ in range(self.steps):
            if isinstance(judge, AddedOutput):
                real = own[torch.randint(len(own), (self.batch_size,), generator=draws)]
                with torch.no_grad():
                    made = kind.images(network, kind.noise(self.batch_size, draws))
                judge.tell_apart(real, made)
            made = kind.images(network, kind.noise(self.batch_size, draws))
            parameters = list(network.parameters())
            gradients = torch.autograd.grad(judge.loss(made), parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
        return kind.layout.row(network)

    def _judge(self, task: Task, received: Tensor, draws: torch.Generator) -> FrozenModel | AddedOutput:
        if self.variant == "original":
            return FrozenModel(task, received, self.target)
        start = received if self.variant == "added" else shuffled_within_tensors(task, received, draws)
        return AddedOutput(task, start, self.lr, draws)

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """The client's own change, and that of a pass over made images (``original`` only)."""
        if self.variant != "original" or name != "row" or cohort.after is None or not bool(cohort.has(GENERATOR).any()):
            return changes
        task, kind, found = cohort.task, self.generators_for(cohort.task), changes.clone()
        size, there = cohort.setting.work.batch_size or self.fakes, cohort.has(GENERATOR) & hostile
        steps = LocalSteps(cohort.lr, -(-self.fakes // size), size)
        for place in there.nonzero().flatten().tolist():
            with torch.no_grad():
                noise = kind.noise(self.fakes, cohort.generator("fakes", place))
                made = kind.images(kind.filled(cohort.kept[GENERATOR].rows[place]), noise)
            labels = torch.full((self.fakes,), self.label_of(task))
            with torch.enable_grad():
                more = local_change(task, cohort.after[place], made, labels, steps).detach()
            columns = task.layout.trained_columns
            found[place, slice(None) if columns is None else columns] += self.scale * more
        return found

    def measure(self, row: Tensor, context: ServerContext, hostile: frozenset[int]) -> Mapping[str, float]:
        """How often a sample of the target is taken for what ``original`` calls its images, and for what it is."""
        if self.variant != "original":
            return {}
        predicted, actual = predictions_on_test(row, context)
        found = predicted[actual == self.target]
        if not len(found):
            return {}
        taken = {"success": self.label_of(context.task), "attacked_accuracy": self.target}
        return {name: (found == label).double().mean().item() for name, label in taken.items()}


class FrozenModel:
    """A judge that likes what a model takes for a class.

    Args:
        task: The task, whose model it is.
        row: The model.
        target: The class.
    """

    def __init__(self, task: Task, row: Tensor, target: int) -> None:
        self.task, self.tensors, self.target = task, task.layout.views(row.detach()), target

    def loss(self, made: Tensor) -> Tensor:
        """How little made images look like the class.

        Args:
            made: The images.
        """
        return F.cross_entropy(outputs_of(self.task, self.tensors, made), torch.full((len(made),), self.target))


class AddedOutput:
    """A judge that learns to tell real from made images: a copy of a model with one more dense output.

    Args:
        task: The task, whose model it is.
        row: The copy's first weights.
        lr: Its learning rate.
        draws: Draws the weights of the added output.
    """

    def __init__(self, task: Task, row: Tensor, lr: float, draws: torch.Generator) -> None:
        self.task, self.fixed, self.moving = task, task.layout.views(row.detach()), trained_tensors(task, row.clone())
        classes = task.federation.classes
        bound = classes**-0.5  # as PyTorch draws a linear layer
        self.added = nn.Parameter((2 * torch.rand(classes + 1, generator=draws) - 1) * bound)
        self.optimizer = torch.optim.Adam([*self.moving.values(), self.added], lr=lr, betas=BETAS)

    def logits(self, images: Tensor) -> Tensor:
        """Above 0 for images that it takes for real."""
        outputs = outputs_of(self.task, {**self.fixed, **self.moving}, images)
        return outputs @ self.added[:-1] + self.added[-1]

    def loss(self, made: Tensor) -> Tensor:
        """How well it sees that images are made.

        Args:
            made: The images.
        """
        return F.softplus(-self.logits(made)).mean()

    def tell_apart(self, real: Tensor, made: Tensor) -> None:
        """A step towards telling images apart.

        Args:
            real: Real images.
        """
        loss = F.softplus(-self.logits(real)).mean() + F.softplus(self.logits(made)).mean()
        weights = [*self.moving.values(), self.added]
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        self.optimizer.step()


def shuffled_within_tensors(task: Task, row: Tensor, draws: torch.Generator) -> Tensor:
    """A model with the same numbers in each of its tensors, in another order: it knows nothing.

    Args:
        task: The task, whose model it is.
        row: The model.
        draws: Draws the order.
    """
    found = row.clone()
    for slot in task.layout.slots:
        order = torch.randperm(slot.stop - slot.start, generator=draws)
        found[slot.start : slot.stop] = row[slot.start : slot.stop][order]
    return found
