"""The demo is an ordinary comparison: the same plan, resumable, and its page is there."""

from __future__ import annotations

import pytest

from fedloom.cli import demo


def test_the_demo_is_the_comparison_that_its_options_would_make(fedloom, tmp_path, monkeypatch):
    monkeypatch.setattr("fedloom.cli.compare.finish_comparison", lambda *_, **__: None)
    assert fedloom("demo").returncode == 0
    options = ("--task", "digits", "--clients", 20, "--alpha", 0.1, "--rounds", 20, "--seeds", 3, "--out", "same")
    assert fedloom("compare", *options, *demo.METHODS).returncode == 0
    plan = (tmp_path / "demo" / "comparison.toml").read_bytes()
    assert plan == (tmp_path / "same" / "comparison.toml").read_bytes()


def test_a_folder_with_something_else_is_refused(fedloom, tmp_path):
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "config.toml").write_text("rounds = 1\n")
    ended = fedloom("demo")
    assert ended.returncode == 2
    assert "already contains a run" in ended.stderr


@pytest.mark.slow
def test_the_demo_writes_its_report_and_shows_it_again(fedloom, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "METHODS", ("local", "fedavg"))
    monkeypatch.setattr(demo, "ROUNDS", 2)
    first = fedloom("demo", "--out", "here")
    assert first.returncode == 0
    assert (tmp_path / "here" / "report.html").is_file()
    assert "Report: here/report.html" in first.stdout
    assert "fedloom compare --data" in first.stdout
    written = (tmp_path / "here" / "fedavg-seed0" / "metrics.jsonl").stat().st_mtime_ns
    assert fedloom("demo", "--out", "here").stdout == first.stdout
    assert (tmp_path / "here" / "fedavg-seed0" / "metrics.jsonl").stat().st_mtime_ns == written
