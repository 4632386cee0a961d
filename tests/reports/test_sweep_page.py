"""The page of a sweep is one file that shows every combination."""

from __future__ import annotations

from fedloom.reports.sweep_page import sweep_page
from fedloom.runs.results.summaries import CLIENTS, GLOBAL
from support.sweeps import finished_sweep


def test_the_page_is_one_file_with_the_table_and_escapes_what_it_shows() -> None:
    text = sweep_page(finished_sweep({"method": ["<b>", "local"]}, [[0.3], [0.1]], (CLIENTS, GLOBAL)))
    assert "<b>" not in text.split("<h2")[2]
    assert "&lt;b&gt;" in text
    assert "not measured" in text
    assert "<svg" in text
    assert "http" not in text.split("<body>")[1].replace("http://www.w3.org", "")


def test_a_combination_that_stopped_is_named_with_its_reason() -> None:
    sweep = finished_sweep({"local.lr": [1]}, [[0.9]])
    sweep.runs["lr=1"][0].stopped = "it diverged"
    assert "it diverged" in sweep_page(sweep)
