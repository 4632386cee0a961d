"""The discriminator of three heads: what it takes from a model, its loss by hand, and that it learns who sent."""

from dataclasses import replace
from math import log

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.attacks.reconstruction.client_discriminator import ClientDiscriminator
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=3, model="logistic")


def draws():
    return torch.Generator().manual_seed(0)


def test_it_says_the_class_as_the_model_does_that_it_starts_from(task):
    row = torch.randn(task.layout.width, generator=draws())
    judge = ClientDiscriminator(task, 3, draws())
    before = judge.client_head.weight.clone()
    judge.start_from(row)
    images = inputs_of(task, task.federation.train[0])
    said = torch.func.functional_call(task.model, task.layout.views(row), (images,))
    assert torch.equal(judge(images)[0], said)
    assert torch.equal(judge.client_head.weight, before), "heads that the model does not have go on"
    assert not torch.equal(task.initial_row(), row), "the task's own model stays as it is"


def test_the_losses_by_hand_of_one_that_knows_nothing(task):
    """With all weights 0: log 10 of ten classes, log 2 for real and for made, log 4 of four clients."""
    judge = ClientDiscriminator(task, 4, draws())
    with torch.no_grad():
        for parameter in judge.parameters():
            parameter.zero_()
    images = inputs_of(task, task.federation.train[0][:5])
    labels = torch.zeros(5, dtype=torch.int64)
    loss = judge.loss((images, labels), images, (images, labels)).item()
    assert loss == pytest.approx(log(10) + 2 * log(2) + log(4))
    for identity in (0.0, 2.0):
        wanted = log(2) + log(10) + identity * log(4)
        assert judge.dislike(images, labels, 3, identity).item() == pytest.approx(wanted)


def test_the_identity_head_learns_who_sent(task):
    """Clients with bright images and with dark ones: of images that it never saw it says whose they are like."""
    images = inputs_of(task, task.federation.train.order)
    labels = task.targets(task.federation.train.order)
    seen, fresh = images[:100], images[100:200]
    judge = ClientDiscriminator(task, 2, draws())
    judge.start_from(task.initial_row())
    optimizer = torch.optim.Adam(judge.parameters(), lr=0.01)
    owners = torch.tensor([0, 1]).repeat_interleave(100)
    for _ in range(60):
        optimizer.zero_grad()
        judge.loss((seen, labels[:100]), torch.zeros_like(seen), (torch.cat([seen, 1 - seen]), owners)).backward()
        optimizer.step()
    said = judge(torch.cat([fresh, 1 - fresh]))[2].argmax(1)
    assert float((said == owners).double().mean()) > 0.95


def test_a_model_that_does_not_show_what_its_head_sees_is_refused(task):
    class Closed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(64, 10)

        def forward(self, x):
            return self.inner(x.flatten(1))

    with pytest.raises(FedloomError, match="what the last layer of the model sees, and Closed does not return it"):
        ClientDiscriminator(replace(task, model=Closed()), 2, draws())
