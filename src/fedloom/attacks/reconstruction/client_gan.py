"""mGAN-AI: a GAN at the server that makes images of each class as one client has them.

In every round the server seeks representatives of each client's samples from its update (``representatives.py``). They
teach a discriminator, which starts from the model that the victim got, whose images are whose; the server's own images
teach it classes, and what is real (``client_discriminator.py``). A generator that is given a class learns to make
images that are of the class, real, and the victim's:

``loss_G = -log D_real(G(z, c)) - log D_class(c | G(z, c)) - identity * log D_client(victim | G(z, c))``.

With ``identity = 0`` it is a GAN of classes, which knows of nobody: the control. Wang, Song, Zhang, Song, Wang and Qi,
Beyond Inferring Class Representatives: User-Level Privacy Leakage From Federated Learning, INFOCOM 2019,
https://doi.org/10.1109/INFOCOM.2019.8737416. Passive is this with what a server sees of a run as it is
(``updates_of_run``), active with a victim that trains alone (``updates_of_isolated``). Our own choices: the
discriminator names one of all clients, and learns from the representatives of all rounds so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.attacks.reconstruction.client_discriminator import ClientDiscriminator
from fedloom.attacks.reconstruction.generator import GeneratorKind
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.attacks.reconstruction.representatives import Representatives
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.core.settings import Count, NonNegative, Positive, WholeNumber, check_settings
from fedloom.core.task import Task

BETAS = (0.5, 0.999)
"""Of Adam, as DCGAN has them."""


@dataclass(frozen=True)
class ClientGAN:
    """How a server trains generator and discriminator.

    Args:
        identity: How much it counts whose image it is; 0 for a GAN of classes.
        steps: Steps of both in each round.
        batch_size: Images of each kind per step.
        lr: The learning rate of Adam.
        latent: How many numbers an image is made of, beside its class.
        width: The maps of the generator's last hidden layer.
        seed: Keys its draws.
    """

    identity: NonNegative = 3.0
    steps: Count = 100
    batch_size: Count = 64
    lr: Positive = 0.003
    latent: Count = 16
    width: Count = 16
    seed: WholeNumber = 0

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, eq=False)
class ClassGenerator:
    """A generator of images of classes.

    Args:
        kind: Its architecture, whose noise has a number per class at its end.
        row: Its weights.
        classes: How many classes there are.
    """

    kind: GeneratorKind
    row: Tensor
    classes: int

    @torch.no_grad()
    def pictures(self, number: int, seed: int = 0) -> Tensor:
        """Images of every class from noise that is always the same: classes×number×channels×height×width.

        Args:
            number: How many of each class.
            seed: Keys the noise.
        """
        labels = torch.arange(self.classes).repeat_interleave(number)
        noise = class_noise(self.kind, labels, self.classes, torch.Generator().manual_seed(seed))
        made = self.kind.images(self.kind.filled(self.row), noise)
        return made.view(self.classes, number, *made.shape[1:])


def rebuild_client(
    task: Task, found: Sequence[Representatives], victim: int, own: Tensor, settings: ClientGAN | None = None
) -> ClassGenerator:
    """A generator of images as one client has them.

    Args:
        found: The representatives of all clients, round by round.
        victim: The client.
        own: The positions of the server's own samples, with their labels.
        settings: How it is trained.
    """
    training = _Training(task, found, victim, own, settings or ClientGAN())
    for round_number, some in groupby(found, key=lambda one: one.round):
        training.play_round(round_number, list(some))
    return ClassGenerator(training.kind, training.kind.layout.row(training.network), task.federation.classes)


def class_noise(kind: GeneratorKind, labels: Tensor, classes: int, draws: torch.Generator) -> Tensor:
    """What images of classes are made of: noise, and a number per class that is 1 for its own.

    Args:
        labels: The classes.
        draws: Draws the noise.
    """
    noise = kind.noise(len(labels), draws)
    noise[:, -classes:, 0, 0] = F.one_hot(labels, classes).float()
    return noise


class _Training:
    """Generator and discriminator of one victim, and the representatives of the rounds so far."""

    def __init__(
        self, task: Task, found: Sequence[Representatives], victim: int, own: Tensor, settings: ClientGAN
    ) -> None:
        clients = sorted({one.client for one in found})
        if victim not in clients:
            raise FedloomError(f"the server saw no update of client {victim}: name a victim that took part.")
        if len(clients) < 2:
            raise FedloomError(
                f"the server saw no client but {victim}, and tells it from others: let others take part."
            )
        self.settings, self.places = settings, {client: place for place, client in enumerate(clients)}
        self.victim, self.classes = victim, task.federation.classes
        self.images, self.labels = inputs_of(task, own), task.targets(own)
        low, high = value_range(task)
        shape, latent = tuple(self.images.shape[1:]), settings.latent + self.classes
        self.kind = GeneratorKind(shape, low, high, latent, settings.width)
        draws = generator(settings.seed, "client gan", victim)
        self.network = self.kind.network(draws.initial_seed())
        self.judge = ClientDiscriminator(task, len(clients), draws)
        self.learns = torch.optim.Adam(self.network.parameters(), lr=settings.lr, betas=BETAS)
        self.pool = (self.images[:0], self.labels[:0])

    def play_round(self, round_number: int, some: Sequence[Representatives]) -> None:
        """Go on with the representatives of one more round, against the model that the victim got in it."""
        images, owners = self.pool
        places = [torch.full((len(one.images),), self.places[one.client]) for one in some]
        self.pool = (torch.cat([images, *(one.images for one in some)]), torch.cat([owners, *places]))
        received = [one.row for one in some if one.client == self.victim]
        if not received:
            return
        self.judge.start_from(received[0])
        judges = torch.optim.Adam(self.judge.parameters(), lr=self.settings.lr, betas=BETAS)
        draws = generator(self.settings.seed, "client gan", self.victim, round_number)
        for _ in range(self.settings.steps):
            self._step(judges, draws)

    @torch.enable_grad()
    def _step(self, judges: torch.optim.Optimizer, draws: torch.Generator) -> None:
        size = self.settings.batch_size
        own = torch.randint(len(self.images), (size,), generator=draws)
        shown = torch.randint(len(self.pool[0]), (size,), generator=draws)
        labels = torch.arange(size) % self.classes
        made = self.kind.images(self.network, class_noise(self.kind, labels, self.classes, draws))
        loss = self.judge.loss(
            (self.images[own], self.labels[own]), made.detach(), (self.pool[0][shown], self.pool[1][shown])
        )
        judges.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        judges.step()
        dislike = self.judge.dislike(made, labels, self.places[self.victim], self.settings.identity)
        self.learns.zero_grad()
        dislike.backward()  # type: ignore[no-untyped-call]
        self.learns.step()
