"""Pictures in rows: every picture is drawn, behind the name of its row."""

import numpy as np
import pytest

from fedloom.plotting.picture_rows import picture_rows
from fedloom.plotting.style import save_figure


@pytest.mark.parametrize("channels", [1, 3])
def test_every_picture_is_drawn_and_rows_may_be_of_unequal_length(tmp_path, channels):
    draws = np.random.default_rng(0)
    rows = {name: draws.normal(size=(count, channels, 8, 8)) for name, count in (("real", 3), ("made", 2))}
    figure = picture_rows(rows, "What was made")
    assert [len(axes.images) for axes in figure.axes] == [1, 1, 1, 1, 1, 0]
    assert [axes.texts[0].get_text() for axes in figure.axes if axes.texts] == ["real", "made"]
    shown = np.asarray(figure.axes[0].images[0].get_array()).reshape(8, 8, -1)[..., 0]
    low, high = min(map(np.min, rows.values())), max(map(np.max, rows.values()))
    np.testing.assert_allclose(shown, (rows["real"][0, 0] - low) / (high - low))
    save_figure(figure, tmp_path / "pictures.svg")
    assert (tmp_path / "pictures.svg").stat().st_size > 1000
