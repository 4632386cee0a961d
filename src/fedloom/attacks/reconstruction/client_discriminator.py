"""A discriminator that says three things of an image: its class, whether it is real, and whose it is.

It is a copy of a task's model: body and last layer are the model's own and say the class; two more dense layers on what
the last layer sees say whether an image is real, and which of some clients it is like.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.model.model_output import chosen_output
from fedloom.core.network import feature_width, features
from fedloom.core.task import Task


class ClientDiscriminator(nn.Module):
    """The discriminator.

    Args:
        task: The task, whose model it is a copy of.
        clients: How many clients it tells apart.
        draws: Draws the weights of the two heads that the model does not have.
    """

    def __init__(self, task: Task, clients: int, draws: torch.Generator) -> None:
        super().__init__()
        if not (hasattr(task.model, "features") or isinstance(task.model, nn.Sequential)):
            raise FedloomError(
                f"the discriminator needs what the last layer of the model sees, and {type(task.model).__name__} does "
                "not return it: give it a features method."
            )
        self.layout = task.layout
        self.model = copy.deepcopy(task.model).eval()
        width = feature_width(task)
        self.real_head, self.client_head = nn.Linear(width, 1), nn.Linear(width, clients)
        with torch.no_grad():
            for parameter in (*self.real_head.parameters(), *self.client_head.parameters()):
                parameter.copy_((2 * torch.rand(parameter.shape, generator=draws) - 1) * width**-0.5)

    def start_from(self, row: Tensor) -> None:
        """Take a model's weights; the two other heads keep theirs.

        Args:
            row: The model.
        """
        self.layout.fill(self.model, row)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the classes, of being real, and of the clients.

        Args:
            images: Prepared inputs.
        """
        seen = features(self.model, images).flatten(1)
        return chosen_output(self.model, self.model(images)), self.real_head(seen)[:, 0], self.client_head(seen)

    def loss(self, own: tuple[Tensor, Tensor], made: Tensor, representatives: tuple[Tensor, Tensor]) -> Tensor:
        """How badly it tells the classes of real images, real ones from made ones, and clients apart.

        Args:
            own: Real images and their classes.
            made: Made images.
            representatives: Images that stand for a client, and the place of that client.
        """
        classes, real, _ = self(own[0])
        _, fake, _ = self(made)
        _, _, clients = self(representatives[0])
        apart = F.softplus(-real).mean() + F.softplus(fake).mean()
        return F.cross_entropy(classes, own[1]) + apart + F.cross_entropy(clients, representatives[1])

    def dislike(self, made: Tensor, labels: Tensor, client: int, identity: float) -> Tensor:
        """How little made images look real, like their class, and like a client.

        Args:
            made: The images.
            labels: The classes that they are meant to be of.
            client: The place of the client.
            identity: How much the client counts.
        """
        classes, real, clients = self(made)
        place = torch.full((len(made),), client)
        return F.softplus(-real).mean() + F.cross_entropy(classes, labels) + identity * F.cross_entropy(clients, place)
