"""A folder of images: its pixels as they are, and its sub-folders as classes."""

import numpy as np

from fedloom.data.readers.image_folder import read_image_folder
from support.site_tasks import write_image


def test_colour_images_of_bytes_stay_bytes(tmp_path):
    pixels = np.random.default_rng(2).integers(0, 256, (2, 4, 5, 3), np.uint8)
    for number, some in enumerate(pixels):
        write_image(tmp_path / "pets" / "dog" / f"{number}.png", some)
    x, y = read_image_folder(tmp_path / "pets", (3, 4, 5), ("cat", "dog"))
    assert np.array_equal(x, pixels.transpose(0, 3, 1, 2))
    assert x.dtype == np.uint8
    assert y.tolist() == [1, 1]
