"""Pictures in rows, each row behind a name: what an attack made, beside what is real."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedloom.plotting.style import name_width, new_figure, with_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@with_style
def picture_rows(rows: Mapping[str, np.ndarray], title: str) -> Figure:
    """A row of pictures for each name; brightness is scaled alike in all of them.

    Args:
        rows: Images by name: n×channels×height×width, with one channel or three.
        title: What is shown.
    """
    low = min(float(images.min()) for images in rows.values())
    high = max(float(images.max()) for images in rows.values())
    most = max(map(len, rows.values()))
    left = name_width(rows)
    figure = new_figure(left + 0.6 * most, 0.6 + 0.6 * len(rows), left=left, right=0, bottom=0.1, between=0.05)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    grid = figure.subplots(len(rows), most, squeeze=False)
    for axes, (name, images) in zip(grid, rows.items(), strict=True):
        for place, one in enumerate(axes):
            one.set_axis_off()
            if place < len(images):
                shown = (images[place].transpose(1, 2, 0) - low) / max(high - low, 1e-9)
                one.imshow(shown.squeeze(-1) if shown.shape[-1] == 1 else shown, cmap="gray", vmin=0, vmax=1)
        axes[0].text(-0.1, 0.5, name, ha="right", va="center", transform=axes[0].transAxes)
    return figure
