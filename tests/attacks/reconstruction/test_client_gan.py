"""mGAN-AI with representatives made by hand: it makes the victim's images, its control nobody's, and bytes repeat."""

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.attacks.measures.client_likeness import client_likeness
from fedloom.attacks.reconstruction.client_gan import ClientGAN, class_noise, rebuild_client
from fedloom.attacks.reconstruction.generator import GeneratorKind
from fedloom.attacks.reconstruction.gradients import inputs_of
from fedloom.attacks.reconstruction.representatives import Representatives
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Ragged

TINY = ClientGAN(steps=2, batch_size=10, width=4, latent=4)


@pytest.fixture(scope="module")
def task():
    """Two clients with digits, of whom the second one's are negatives, and as many of both at the server."""
    made = fl.task("digits", clients=2)
    x, order = made.federation.columns["x"].clone(), made.federation.train.order
    highest = x.max()
    for first in (150, 400):
        x[order[first : first + 100]] = highest - x[order[first : first + 100]]
    parts = Ragged.of([order[:150], order[150:250]])
    none = Ragged.empty(2)
    held = replace(made.federation, columns={**made.federation.columns, "x": x}, train=parts, test=none, valid=none)
    return replace(made, federation=replace(held, names=(), global_test=order[300:500]), made_from={})


@pytest.fixture(scope="module")
def representatives(task):
    """Samples of the clients themselves: what an attacker would find at best."""
    row, found = task.initial_row(), []
    for number in (1, 2):
        for client in range(2):
            some = task.federation.train[client][20 * number : 20 * number + 20]
            found.append(Representatives(client, number, row, inputs_of(task, some), task.targets(some)))
    return found


def pictures(task, found, victim, settings=TINY, number=3):
    return rebuild_client(task, found, victim, task.federation.global_test, settings).pictures(number)


def test_a_class_is_a_number_behind_the_noise():
    kind = GeneratorKind((1, 8, 8), 0.0, 1.0, latent=7, width=4)
    noise = class_noise(kind, torch.tensor([2, 0]), 3, torch.Generator().manual_seed(0))
    assert noise[:, -3:, 0, 0].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert noise.shape == (2, 7, 1, 1)


def test_there_are_images_of_every_class_in_the_range_of_pixels_and_seeds_give_the_same_bytes(task, representatives):
    made = pictures(task, representatives, 1)
    assert made.shape == (10, 3, 1, 8, 8)
    assert made.min() >= task.inputs(task.federation.train.order).min()
    assert torch.equal(made, pictures(task, representatives, 1))
    assert not torch.equal(made, pictures(task, representatives, 1, replace(TINY, seed=1)))
    assert not torch.equal(made, pictures(task, representatives, 0))


def test_rounds_in_which_the_victim_is_absent_teach_only_whose_images_others_are(task, representatives):
    *earlier, other, _ = representatives
    late = [*earlier, replace(other, round=2)]
    assert torch.equal(pictures(task, late, 1), pictures(task, earlier, 1)), "nothing is trained in them"


def test_it_makes_images_like_the_victims_and_without_identity_like_nobodys(task, representatives):
    def gain(identity):
        settings = ClientGAN(steps=25, batch_size=40, width=8, identity=identity)
        each = [pictures(task, representatives, victim, settings, 8).mean(1) for victim in range(2)]
        return sum(client_likeness(task, images, victim).gain for victim, images in enumerate(each)) / 2

    assert gain(3.0) > 2.0
    assert abs(gain(0.0)) < 1.5


def test_what_cannot_be_asked_is_refused(task, representatives):
    own = task.federation.global_test
    with pytest.raises(FedloomError, match="no update of client 7: name a victim that took part"):
        rebuild_client(task, representatives, 7, own)
    with pytest.raises(FedloomError, match="no client but 0, and tells it from others"):
        rebuild_client(task, [one for one in representatives if one.client == 0], 0, own)
    with pytest.raises(FedloomError, match="steps"):
        ClientGAN(steps=0)
