"""What a notebook shows of a history is what it measured."""

from __future__ import annotations

import fedloom as fl
from fedloom.core.task import Task
from fedloom.runs.results.history_html import history_html
from support.synthetic import federation, mlp


class Stop(fl.Callback):
    """Stops every run after round 1."""

    def round_begins(self, number: int) -> None:
        if number == 2:
            raise fl.StopRun("<enough>")


def test_scores_stand_beside_baselines_and_costs_below(tmp_path) -> None:
    history = fl.run(Task("own", federation([20, 9]), mlp()), rounds=3, callbacks=[Stop()], out=tmp_path / "run")
    page = history._repr_html_()
    assert page == history_html(history)
    assert history.score.text(history.last(history.score.clients)) in page
    assert "baseline: majority" in page
    assert "1 of 3 rounds" in page
    assert "Stopped: &lt;enough&gt;. It can be continued with fl.resume." in page
    assert str(tmp_path) in page


def test_a_history_without_measurements_is_shown_too() -> None:
    page = fl.run(Task("own", federation([20, 9]), mlp()), rounds=1, eval_every=0)._repr_html_()
    assert "1 of 1 rounds" in page
