"""Views of images: the same generator gives the same bytes, geometry by hand, and what each change leaves alone."""

from __future__ import annotations

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.methods.selfsupervised.augmentation import Augmentation, blur, crop_and_flip, grey, sample_boxes, turn_hue

NOTHING = Augmentation(crop=1, flip=0, jitter=0, grayscale=0, blur=0)
EVERYTHING = Augmentation(crop=0.3, flip=0.5, jitter=0.8, grayscale=0.3, blur=0.5)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 6, channels: int = 3, side: int = 8) -> torch.Tensor:
    return torch.randn(count, channels, side, side, generator=drawn(9))


def test_the_same_generator_gives_the_same_bytes_and_another_one_does_not():
    one, two, other = (EVERYTHING.two_views(images(), drawn(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert one.shape == (6, 2, 3, 8, 8)


def test_the_two_views_of_an_image_differ_and_belong_to_it():
    views = Augmentation(crop=0.9, jitter=0.1, flip=0, grayscale=0).two_views(images(), drawn()).flatten(2)
    assert not torch.allclose(views[:, 0], views[:, 1])
    near = torch.cdist(views[:, 0], views[:, 1]).argmin(1)
    assert near.tolist() == list(range(6))


def test_without_any_change_a_view_is_the_image():
    torch.testing.assert_close(NOTHING.view(images(), drawn()), images())


@pytest.mark.parametrize("channels", [1, 3])
def test_views_do_not_depend_on_how_inputs_were_normalised(channels):
    """Brightness is in standard deviations and nothing is clamped, so a view commutes with ``a * x + b``."""
    x = images(channels=channels)
    wanted = 3 * EVERYTHING.view(x, drawn(4)) - 2
    torch.testing.assert_close(EVERYTHING.view(3 * x - 2, drawn(4)), wanted, rtol=1e-4, atol=1e-4)


def test_crops_and_blur_stay_in_the_range_of_their_image():
    x = images()
    views = Augmentation(jitter=0, grayscale=0, blur=1).two_views(x, drawn())
    low, high = (getattr(x.flatten(1), name)(1).values for name in ("min", "max"))
    assert bool((views.flatten(1).amin(1) >= low - 1e-5).all())
    assert bool((views.flatten(1).amax(1) <= high + 1e-5).all())


def test_a_box_by_hand_is_the_quarter_of_the_image_that_it_names():
    """The upper right quarter of a 4×4 ramp, twice as large: bilinear between the centres of its pixels."""
    ramp = torch.arange(4.0).view(1, 1, 1, 4).expand(1, 1, 4, 4)  # grows to the right
    box = torch.tensor([[[0.5, 0.0, 0.5], [0.0, 0.5, -0.5]]])
    torch.testing.assert_close(sample_boxes(ramp, box)[0, 0, 0], torch.tensor([1.75, 2.25, 2.75, 3.0]))
    mirrored = box * torch.tensor([-1.0, 1.0, 1.0])
    torch.testing.assert_close(sample_boxes(ramp, mirrored)[0, 0, 0], torch.tensor([3.0, 2.75, 2.25, 1.75]))
    down = ramp.transpose(2, 3)  # grows downwards: the upper half of it
    torch.testing.assert_close(sample_boxes(down, box)[0, 0, :, 0], torch.tensor([0.0, 0.25, 0.75, 1.25]))


def test_flips_alone_mirror_an_image_or_leave_it():
    x = images(40)
    flipped = crop_and_flip(x, 1.0, 0.5, drawn())
    mirrored = [torch.allclose(a, b.flip(2), atol=1e-5) for a, b in zip(flipped, x, strict=True)]
    same = [torch.allclose(a, b, atol=1e-5) for a, b in zip(flipped, x, strict=True)]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 10 < sum(mirrored) < 30


def test_crops_have_the_shares_of_the_area_that_are_asked_for():
    """On a ramp from left to right and one downwards, a box shows its width and height as ranges."""
    side, count = 64, 200
    right = torch.linspace(0, 1, side).view(1, 1, side).expand(1, side, side)
    ramps = torch.cat([right, right.transpose(1, 2)]).expand(count, 2, side, side)
    crops = crop_and_flip(ramps, 0.25, 0.0, drawn())
    spans = crops.amax((2, 3)) - crops.amin((2, 3))
    area, ratio = spans.prod(1), spans[:, 0] / spans[:, 1]
    assert 0.23 < float(area.min()) < 0.35
    assert float(area.max()) > 0.85
    assert 0.74 < float(ratio.min()) < 0.85
    assert 1.18 < float(ratio.max()) < 1.36


def test_greys_keep_their_hue_and_luminance_is_kept_by_every_turn():
    x, angles = images(), torch.linspace(-3, 3, 6)
    torch.testing.assert_close(grey(turn_hue(x, angles)), grey(x), rtol=1e-4, atol=1e-4)
    flat = x[:, :1].expand(6, 3, 8, 8)
    torch.testing.assert_close(turn_hue(flat, angles), flat, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(turn_hue(turn_hue(x, angles), -angles), x, rtol=1e-4, atol=1e-4)


def test_four_of_five_views_have_other_colours():
    x = images(500)
    views = Augmentation(crop=1, flip=0, jitter=0.5, grayscale=0).view(x, drawn())
    change = (views - x).flatten(1).abs().amax(1)
    assert 0.75 < float((change > 1e-4).float().mean()) < 0.85


def test_grey_views_have_one_value_per_pixel():
    view = Augmentation(crop=1, flip=0, jitter=0, grayscale=1).view(images(), drawn())
    torch.testing.assert_close(view, grey(images()).expand(6, 3, 8, 8))


def test_a_blurred_point_is_the_gaussian_by_hand():
    point = torch.zeros(1, 1, 5, 5)
    point[0, 0, 2, 2] = 1.0
    side = torch.exp(torch.tensor(-0.5))
    centre = 1 / (1 + 2 * side)
    found = blur(point, torch.ones(1))[0, 0]
    torch.testing.assert_close(found[2, 1:4], centre**2 * torch.stack([side, torch.ones(()), side]))
    torch.testing.assert_close(found[1, 1], (centre * side) ** 2)
    torch.testing.assert_close(found.sum(), torch.ones(()))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"crop": 0}, "crop=0: it must be above 0 and at most 1"),
        ({"jitter": 2}, "jitter=2: it must be at least 0 and at most 1"),
        ({"flip": -1}, "flip=-1: it must be at least 0 and at most 1"),
    ],
)
def test_impossible_settings_are_refused_with_a_sentence(settings, sentence):
    with pytest.raises(FedloomError, match=sentence):
        Augmentation(**settings)
