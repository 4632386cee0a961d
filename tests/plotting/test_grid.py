"""The figure of a sweep shows its scores over the keys that were swept."""

from __future__ import annotations

import pytest

from support.sweeps import finished_sweep


def test_one_key_is_a_line_in_the_order_of_its_values() -> None:
    axes = finished_sweep({"local.lr": [1, 0.01, 0.1]}, [[0.3], [0.1], [0.2]]).plot().axes[0]
    line = axes.lines[0]
    assert list(line.get_xdata()) == [0.01, 0.1, 1]
    assert list(line.get_ydata()) == [0.1, 0.2, 0.3]
    assert axes.get_xscale() == "log"


def test_a_key_of_words_has_a_place_for_each_and_no_line_between() -> None:
    axes = finished_sweep({"method": ["fedavg", "local"]}, [[0.3, 0.5], [0.1, 0.1]]).plot().axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["fedavg", "local"]
    assert list(axes.lines[0].get_ydata()) == pytest.approx([0.4, 0.1])
    assert axes.lines[0].get_linestyle() == "None"


def test_two_keys_are_a_map_whose_cells_say_their_numbers() -> None:
    axes = finished_sweep({"method.mu": [1, 2], "local.lr": [3, 4]}, [[0.1], [0.2], [0.3], [0.425]]).plot().axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts if "." in text.get_text()}
    assert cells == {(0, 0): "10.0", (1, 0): "20.0", (0, 1): "30.0", (1, 1): "42.5"}
    strength = axes.images[0].get_array()[..., 3]
    assert strength[1, 1] == strength.max()
    assert strength[0, 0] == strength.min()


def test_more_keys_are_the_best_combinations_as_dots() -> None:
    grid = {"a": [1, 2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}
    axes = finished_sweep(grid, [[n / 100] for n in range(27)]).plot().axes[0]
    assert list(axes.lines[0].get_xdata()) == [n / 100 for n in range(26, 6, -1)]
    assert axes.get_yticklabels()[0].get_text() == "a=3 b=3 c=3"


def test_a_key_with_one_value_does_not_count_as_an_axis() -> None:
    axes = finished_sweep({"method": ["fedavg"], "local.lr": [1, 2]}, [[0.1], [0.2]]).plot().axes[0]
    assert axes.get_xlabel() == "local.lr"
