"""Samples on a page are the samples: images to the pixel, rows as numbers."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from matplotlib.image import imread

from fedloom.audits.of_run.page.samples import pairs, png
from fedloom.audits.of_run.probes.probe import Sample


@pytest.mark.parametrize("channels", [1, 3])
def test_a_png_has_the_pixels(channels):
    image = np.random.default_rng(0).uniform(-1, 3, (channels, 5, 7))
    image[0, 0, 0], image[-1, 0, 1] = np.nan, 9.0
    read = imread(io.BytesIO(base64.b64decode(png(image, -1.0, 3.0).partition(",")[2])))
    expected = ((np.nan_to_num(image + 1) / 4).clip(0, 1) * 255).round() / 255
    assert np.allclose(read.reshape(5, 7, channels), expected.transpose(1, 2, 0), atol=1 / 255 + 1e-6)


def test_rows_are_a_table_and_names_are_escaped():
    text = "".join(pairs([Sample([1.5] * 9, [2.5] * 9, "<b>"), Sample([0.0], [1.0], "")], 0.0, 1.0))
    assert text.count("1.5</td>") == 8
    assert "…" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
