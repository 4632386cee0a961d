"""The picture of a found threshold shows what the run measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fedloom.core.errors import FedloomError
from fedloom.reports.crossover_figure import crossover_figure
from fedloom.reports.run_page import report_page
from fedloom.runs.results.history import History

CURVE = torch.tensor([[10.0, 40.0, 900.0], [0.25, 0.5, 1.0], [0.75, 0.625, 0.5]])


def history(folder: Path | None, *found: torch.Tensor) -> History:
    if folder is not None:
        (folder / "checkpoints").mkdir()
        tensors = dict(zip(("server/curve", "server/threshold"), found, strict=False))
        save_file({"server/row": torch.zeros(2), **tensors}, folder / "checkpoints" / "round-000001.safetensors")
    config = {"method": {"name": "fedhybridavglgdual", "threshold": "auto"}, "seed": 4}
    return History(config, [{"round": 1, "selected": [0], "bytes_up": 1, "bytes_down": 1, "steps": 1, "metrics": {}}], folder=folder)  # fmt: skip # noqa: E501


@pytest.mark.parametrize("threshold", [0.0, 40.0, 900.0])
def test_the_curves_and_the_threshold_are_the_runs_own(tmp_path, threshold):
    (axes,) = crossover_figure(history(tmp_path, CURVE, torch.tensor(threshold))).axes
    drawn = {str(line.get_label()): line for line in axes.lines}
    for name, values in (("local training", CURVE[1]), ("shared model", CURVE[2])):
        assert list(drawn[name].get_xdata()) == CURVE[0].tolist()
        assert list(drawn[name].get_ydata()) == values.tolist()
    upright = [line.get_xdata()[0] for line in axes.lines if list(line.get_ydata()) == [0, 1]]
    assert [sum(size > place for size in CURVE[0].tolist()) for place in upright] == [int((CURVE[0] > threshold).sum())]
    assert f"more than {threshold:,.0f} points" in axes.get_title(loc="left")


def test_the_report_of_a_run_with_a_found_threshold_has_the_picture(tmp_path):
    text = report_page({"a": [history(tmp_path, CURVE, torch.tensor(40.0))]})
    assert "The found threshold" in text
    assert "more than 40 points keep a body of their own" in text


def test_a_run_in_memory_or_without_a_curve_says_why_there_is_no_picture(tmp_path):
    with pytest.raises(FedloomError, match="give the run a folder with out="):
        crossover_figure(history(None))
    with pytest.raises(FedloomError, match="this run has no size curve"):
        crossover_figure(history(tmp_path))
