"""The figure of a partition draws few clients as bubbles, many as a map, and only totals where there is one class."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.plotting.partition import MOST_BARS, MOST_BUBBLES, samples_figure


def test_few_clients_are_bubbles_with_their_names() -> None:
    figure = samples_figure(np.array([[3.0, 0.0], [1.0, 2.0]]), "two clients", client_names=["a", "b"])
    top, below = figure.axes
    assert [bar.get_height() for bar in top.patches] == [3, 3]
    assert [text.get_text() for text in below.get_xticklabels()] == ["a", "b"]
    assert [tuple(place) for place in below.collections[0].get_offsets()] == [(0, 0), (1, 0), (1, 1)]
    assert top.get_title(loc="left") == "two clients"


def test_many_clients_are_a_map_sorted_by_their_most_frequent_class() -> None:
    counts = np.zeros((MOST_BUBBLES + 1, 2))
    counts[:, 1], counts[7, 0] = 1, 9
    top, below = samples_figure(counts, "many").axes
    assert list(below.images[0].get_array()[0, :2]) == [3, 0]  # the square root of nine samples
    assert top.patches[0].get_height() == 10


@pytest.mark.parametrize("clients", [1, MOST_BUBBLES + 1, MOST_BARS + 1])
def test_a_single_class_has_no_panel_of_classes(clients: int) -> None:
    figure = samples_figure(np.ones((clients, 1)), "sizes")
    figure.canvas.draw()
    assert [axes.get_ylabel() for axes in figure.axes] == ["samples"]
