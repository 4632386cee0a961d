"""What a notebook shows of a task."""

from __future__ import annotations

import re

from fedloom.core.task import Task
from support.synthetic import federation, mlp


def test_a_task_shows_its_data_its_target_its_model_and_its_score() -> None:
    page = Task("<own>", federation([20, 9]), mlp())._repr_html_()
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page)
    shown = dict(zip(cells[::2], cells[1::2], strict=True))
    assert shown["data"].startswith("Federation: 2 clients, 29 training")
    assert shown["target"] == "one class per sample"
    assert shown["model"] == "Sequential with 421 parameters"
    assert shown["score"] == "accuracy"
    assert "Task &lt;own&gt;" in page
