"""A figure that a notebook shows when it is the value of a cell, without pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

SHARP = 2
"""How many pixels of the picture are one of the page."""


class NotebookFigure(Figure):
    """A matplotlib figure with the picture that notebooks ask for: sharp, and as large as it is on paper."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        buffer = io.BytesIO()
        dpi = self.get_dpi()
        self.savefig(buffer, format="png", dpi=SHARP * dpi)
        width, height = (round(inches * dpi) for inches in self.get_size_inches())
        return buffer.getvalue(), {"width": width, "height": height}
