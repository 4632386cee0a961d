"""Whose samples an image is like: by hand, with images of one grey."""

from math import log10

import pytest
import torch

import fedloom as fl
from fedloom.attacks.measures.client_likeness import class_means, client_likeness
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.data.federation import Federation, Ragged

GREYS = [0.0, 0.5, 1.0]


@pytest.fixture(scope="module")
def task():
    """Three clients of one grey each, six samples of class 0; the last one also has class 1, which nobody else has."""
    shades = torch.tensor(GREYS).repeat_interleave(6)
    x = torch.cat([shades, torch.zeros(6)])[:, None, None, None].expand(-1, 1, 8, 8).clone()
    y = torch.cat([torch.zeros(18), torch.ones(6)]).long()
    parts = Ragged.of([range(6), range(6, 12), range(12, 24)])
    return fl.task_of(Federation({"x": x, "y": y}, parts, parts, Ragged.empty(3), 2), "mlp")


def grey(task, *shades):
    """Prepared images, of which 0 is the lowest value and 1 the highest."""
    low, high = value_range(task)
    return (low + torch.tensor(shades) * (high - low))[:, None, None, None].expand(-1, 1, 8, 8)


def test_an_image_near_the_victims_mean_gains_what_the_formula_says(task):
    found = client_likeness(task, grey(task, 0.1, 0.7), victim=0)
    assert (found.nearest, found.chance, found.classes) == (1.0, pytest.approx(1 / 3), 1)
    assert found.psnr == pytest.approx(20.0, abs=1e-4)  # 10 log10(1 / 0.1²)
    assert found.others == pytest.approx(-10 * (log10(0.4**2) + log10(0.9**2)) / 2, abs=1e-4)
    assert found.gain == pytest.approx(found.psnr - found.others)


def test_an_image_near_another_client_speaks_against_it(task):
    found = client_likeness(task, grey(task, 0.1, 0.7), victim=2)
    assert found.nearest == 0.0
    assert found.gain < 0


def test_over_all_victims_one_image_for_all_is_nearest_to_one_of_them_and_gains_nothing(task):
    found = [client_likeness(task, grey(task, 0.3, 0.3), victim) for victim in range(3)]
    assert sum(one.nearest for one in found) == 1
    assert sum(one.gain for one in found) == pytest.approx(0.0, abs=1e-6)


def test_classes_that_nobody_else_has_and_missing_images_are_not_judged(task):
    assert list(class_means(task, 1, least=5)) == [2]
    assert list(class_means(task, 0, least=7)) == []
    assert client_likeness(task, grey(task, float("nan"), 0.5), victim=2).classes == 0
