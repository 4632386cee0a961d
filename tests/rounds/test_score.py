"""The score of a run: which metric it is, which values are better, and that every table and figure says so."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.cli.app import app
from fedloom.cli.terminal.live import LiveTable, planned_score
from fedloom.reports.run_page import report_page
from fedloom.reports.summary_table import summary
from fedloom.reports.verdict import verdict
from fedloom.rounds.score import ACCURACY, Score, metric_notes, score_of, scores_of
from fedloom.runs.callbacks.progress import headline
from fedloom.runs.plans.compare import make_plan
from fedloom.runs.results.history import History
from support.command_line import json_output, output


@dataclass(frozen=True)
class Misses(fl.Metric):
    """Wrong predictions per hundred: lower is better, and no share."""

    higher_is_better = False

    def sums(self, outputs, targets):
        return torch.tensor([100.0 * (outputs.argmax(1) != targets).sum(), len(targets)])


NOTES = {"made_by": metric_notes([Misses(), fl.AUC()])}


def task(seed: int = 0) -> fl.Task:
    return fl.task("digits", clients=4, alpha=0.5, seed=seed, metrics=[Misses(), "macro_f1"])


def test_without_notes_the_score_is_accuracy():
    assert score_of({}) == score_of({"made_by": {"fedloom": "0.5.0"}}) == ACCURACY


def test_notes_give_the_metrics_back_the_score_first():
    assert scores_of(NOTES) == [Score("misses", False, False), Score("auc", True, True)]


def test_a_run_notes_its_metrics_in_its_config(tmp_path):
    fl.run(task(), rounds=1, out=tmp_path / "run")
    assert scores_of(History.load(tmp_path / "run").config) == [
        Score("misses", False, False),
        Score("macro_f1", True, True),
    ]


def record(number: int, value: float, score: Score) -> dict:
    return {
        "round": number,
        "selected": [0],
        "steps": 1,
        "metrics": {score.clients: value, score.shared: value, "client_model/own_test/accuracy/mean": 1 - value},
    }


def history(values: list[float]) -> History:
    config = {"method": {"name": "x"}, "task": {"name": "digits"}, **NOTES}
    return History(config, [record(n, value, score_of(NOTES)) for n, value in enumerate(values)])


def test_lower_is_better_where_the_metric_says_so():
    rows = summary({"a": [history([9.0, 3.0])], "b": [history([9.0, 5.0])]}, reach=6.0)
    assert [row["client_misses"] for row in rows] == [3.0, 5.0]
    assert [row["rounds_to"] for row in rows] == [1, 1]
    assert "client_accuracy" not in rows[0]
    several = {
        "a": [history([3.0 + v]) for v in (0.0, 0.1, 0.3)],
        "b": [history([5.0 + 1.1 * v]) for v in (0.0, 0.1, 0.3)],
    }
    assert "by misses, a is best" in verdict(several)


def test_the_report_names_the_score_and_marks_the_best():
    page = report_page({"a": [history([9.0, 3.0])], "b": [history([9.0, 5.0])]})
    assert "lowest of 2 methods: a" in page
    assert "Misses by round" in page
    assert "accuracy" not in page.lower().split('id="config"')[0]


def test_figures_have_the_scores_axis():
    found = fl.run(task(), rounds=2)
    assert [axes.get_ylabel() for axes in found.plot().axes] == ["misses"] * 2
    f1 = fl.run(fl.task("digits", clients=4, metrics=["macro_f1"]), rounds=1)
    assert [axes.get_ylabel() for axes in f1.plot().axes] == ["macro F1 (%)"] * 2


def test_the_report_of_a_real_run_is_complete():
    found = {name: [fl.run(task(), name, rounds=2)] for name in ("fedavg", "local")}
    page = report_page(found)
    assert page.count("<svg") >= 7
    assert "Macro F1 by round" not in page


def test_progress_and_live_tables_show_the_score():
    score = score_of(NOTES)
    assert headline({score.clients: 12.5, "client_model/own_test/accuracy/mean": 0.9}, score) == "clients misses 12.5"
    assert headline({"client_model/own_test/accuracy/mean": 0.9}, ACCURACY) == "clients 90.0%"
    live = LiveTable(["a"], seeds=1, rounds=2, quiet=True, score=score)
    live.observer("a", 0)(record(1, 12.5, score))
    table = live.table()
    assert [column.header for column in table.columns][-1] == "clients' models,\nown tests\nmisses"
    assert list(table.columns[-1].cells) == ["12.5"]
    assert planned_score({"config": {"task": {"metrics": ["auc"]}}}) == Score("auc")


def test_sweep_orders_by_the_score_in_its_direction():
    swept = fl.sweep(task(), grid={"local.lr": [0.001, 0.1]}, rounds=2, metrics=["clients", "global"])
    assert swept.metrics == ("client_model/own_test/misses/mean", "global_model/global_test/misses")
    assert swept.best == {"local.lr": 0.1}
    best, other = swept.rows
    assert best["means"][swept.metrics[0]] < other["means"][swept.metrics[0]]
    assert "Best by client_model/own_validation/misses/mean: lr=0.1 with " in str(swept)
    pooled = fl.sweep(task(), grid={"local.lr": [0.1]}, rounds=1, metrics=["client_model/own_test/macro_f1/pooled"])
    assert " %." in str(pooled)


def test_reach_is_checked_against_the_score():
    values = {"task": {"name": "digits", "clients": 3, "metrics": ["macro_f1"]}}
    with pytest.raises(fl.FedloomError, match="reach=40: it must be a value of macro F1 above 0 and at most 1"):
        make_plan(values, ["fedavg", "local"], 1, reach=40)


ARGUMENTS = ["--task", "digits", "--clients", "4", "--alpha", "0.5", "--rounds", "2", "--set", "task.metrics=macro_f1"]


@pytest.mark.slow
def test_compare_on_the_command_line_shows_the_score(tmp_path):
    text = output(app, "compare", *ARGUMENTS, "--out", str(tmp_path / "c"), "fedavg", "local")
    assert "macro F1 (%), highest is best" in " ".join(text.split())
    assert "by macro F1" in text
    found = json_output(app, "report", tmp_path / "c")
    assert {"client_macro_f1", "global_macro_f1", "pooled"} <= set(found["methods"][0])


def test_advise_on_the_command_line_shows_the_score(tmp_path):
    arguments = [*ARGUMENTS, "--minutes", "0.05", "--methods", "fedavg", "--out", str(tmp_path / "a")]
    text = output(app, "advise", *arguments)
    assert "macro F1 " in text
    advice = json.loads((tmp_path / "a" / "advice.json").read_text())
    assert (advice["score"], advice["higher_is_better"]) == ("macro_f1", True)


def test_large_numbers_have_no_exponent():
    error = Score("mae", higher_is_better=False, is_share=False)
    assert error.text(3078.4, 120.3) == "3078 ± 120"
    assert error.text(350.0, 99.6) == "350 ± 100"
    assert error.text(0.41823, 0.0123) == "0.4182 ± 0.012"
    assert (error.gap_text(1608.0), error.gap_text(0.033)) == ("1610", "0.033")
