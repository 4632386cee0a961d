"""The table of a comparison says the same as its rows, in every form, and marks the best means."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fedloom.reports.comparison_table import comparison_frame, comparison_table
from fedloom.runs.results.history import History

CLIENTS, SHARED = "client_model/own_test/accuracy/mean", "global_model/global_test/accuracy"
WORST = "client_model/own_test/accuracy/worst_decile"


def run(method: str, seed: int, stopped: str | None = None, **metrics: float) -> History:
    names = {"clients": CLIENTS, "shared": SHARED, "worst": WORST}
    record = {
        "round": 3,
        "selected": [0],
        "bytes_down": 2_000_000,
        "bytes_up": 1_000_000,
        "bytes_between": 0,
        "steps": 5,
    }
    baselines = [{"name": "majority", "words": "always one", "metrics": {CLIENTS: 0.95}, "clients": []}]
    return History(
        {"method": {"name": method}, "rounds": 3, "seed": seed, "task": {"name": "digits_2"}},
        records=[{**record, "metrics": {names[key]: value for key, value in metrics.items()}}],
        stopped=stopped,
        baselines=baselines,
    )


def two() -> dict[str, list[History]]:
    return {
        "fedavg": [run("fedavg", 0, clients=0.5, shared=0.6), run("fedavg", 1, clients=0.7, shared=0.8)],
        "local": [run("local", 0, clients=0.8), run("local", 1, clients=0.8)],
    }


def test_cells_are_means_and_deviations_and_a_missing_score_is_a_dash() -> None:
    table = comparison_table(two())
    assert table.headings == ("method", "global model (%)", "clients' models (%)", "MB sent", "rounds")
    assert table.rows[0] == ("fedavg", "70.0 ± 14.1", "60.0 ± 14.1", "3.0", "3")
    assert table.rows[1] == ("local", "–", "80.0 ± 0.0", "3.0", "3")
    assert table.rows[2] == ("baseline: majority", "–", "95.0 ± 0.0", "–", "–")


def test_the_best_mean_of_rivals_is_marked_and_no_baseline() -> None:
    table = comparison_table(two())
    assert table.best == {(1, 2)}  # of the global model only one method has one
    assert "over 2 seeds" in table.caption
    assert "baselines answer without a model" in table.caption


def test_means_that_look_alike_are_all_marked_and_a_stopped_run_is_not() -> None:
    alike = {name: [run(name, 0, clients=value)] for name, value in {"fedavg": 0.50001, "ditto": 0.5}.items()}
    assert comparison_table(alike).best == {(0, 1), (1, 1)}
    assert "one seed, so no spread is known" in comparison_table(alike).caption
    gone = {**alike, "local": [run("local", 0, clients=0.9, stopped="diverged.")]}
    table = comparison_table(gone)
    assert table.best == {(0, 1), (1, 1)}
    assert "local stopped early (diverged)" in table.caption


def test_markdown_is_a_table_in_which_names_are_text() -> None:
    runs = {"my|method": [run("fedavg", 0, clients=0.5)], "local": [run("local", 0, clients=0.8)]}
    lines = comparison_table(runs).to_markdown().splitlines()
    assert lines[0] == "| method | clients' models (%) | MB sent | rounds |"
    assert lines[1] == "|---|---:|---:|---:|"
    assert lines[2] == r"| my\|method | 50.0 | 3.0 | 3 |"
    assert lines[3] == "| local | **80.0** | 3.0 | 3 |"
    assert r"digits\_2" in lines[-1]


def test_latex_has_no_bare_special_character() -> None:
    text = comparison_table({"a_b&c%": [run("fedavg", 0, clients=0.5)], **two()}).to_latex()
    assert r"a\_b\&c\% & " in text
    assert r"\textbf{80.0 $\pm$ 0.0}" in text
    assert r"digits\_2" in text
    assert text.count(r"\midrule") == 2


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed: the table is not set")
def test_latex_can_be_set(tmp_path: Path) -> None:
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "a.tex").write_text(head + comparison_table(two()).to_latex() + "\\end{document}\n")
    subprocess.run(["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"], cwd=tmp_path, check=True)


def test_html_has_what_markdown_has() -> None:
    page = comparison_table(two()).to_html(["the verdict"])
    assert "<b>80.0 ± 0.0</b>" in page
    assert "the verdict" in page


def test_the_frame_tells_baselines_apart() -> None:
    rows = comparison_frame(two(), None)
    assert [row["is_baseline"] for row in rows] == [False, False, True]
    assert rows[0]["client_accuracy"] == pytest.approx(0.6)
