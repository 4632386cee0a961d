"""Curves whose axes do not make small differences look large."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.plotting.curves import CurvePanel, MethodCurve, curves_figure


def line(name: str, place: int, low: float, high: float) -> MethodCurve:
    return MethodCurve(name, place, np.array([0.0, 1.0]), np.array([low, high]))


def test_an_axis_of_shares_spans_at_least_ten_points() -> None:
    panel = CurvePanel("t", "n", "round", (line("a", 0, 0.90, 0.901), line("b", 1, 0.90, 0.902)))
    low, high = curves_figure([panel], ["a", "b"]).axes[0].get_ylim()
    assert high - low == pytest.approx(0.1)
    panel = CurvePanel("t", "n", "round", (line("a", 0, 0.1, 0.9),))
    low, high = curves_figure([panel], ["a"]).axes[0].get_ylim()
    assert 0.8 < high - low < 0.95


def test_an_axis_of_other_numbers_follows_the_data() -> None:
    panel = CurvePanel("t", "n", "round", (line("a", 0, 2.000, 2.001),), "loss", share=False)
    low, high = curves_figure([panel], ["a"]).axes[0].get_ylim()
    assert high - low < 0.01
