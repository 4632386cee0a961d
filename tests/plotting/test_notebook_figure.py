"""A figure is its own picture in a notebook, as large as on paper."""

from __future__ import annotations

import struct

from fedloom.plotting.notebook_figure import SHARP, NotebookFigure
from fedloom.plotting.style import new_figure


def test_the_picture_is_sharp_and_as_large_as_on_paper() -> None:
    figure = new_figure(4.0, 3.0)
    assert isinstance(figure, NotebookFigure)
    picture, size = figure._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (SHARP * size["width"], SHARP * size["height"])
    assert size == {"width": 400, "height": 300}
