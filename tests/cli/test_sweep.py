"""``fedloom sweep`` as a person meets it: a table, a figure, one sentence per mistake, and going on after a stop."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

SMALL = ["--task", "digits", "--clients", "6", "--alpha", "0.5", "--rounds", "2", "--quiet"]


@pytest.mark.slow
def test_a_sweep_sorts_its_combinations_and_leaves_a_figure_and_a_page(fedloom, tmp_path):
    grids = ["--grid", "method.mu=0,1", "--grid", "local.lr=0.05,0.3"]
    result = fedloom("sweep", *SMALL, "--method", "fedprox", *grids, "--seeds", "2", "--out", "a", "--json")
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    metric = values["metrics"][0]
    means = [row["means"][metric] for row in values["combinations"]]
    assert means == sorted(means, reverse=True)
    assert [row["mark"] for row in values["combinations"]].count("best") == 1
    assert all(row["stds"][metric] is not None for row in values["combinations"])
    assert {json.dumps(row["settings"]) for row in values["combinations"]} == {
        json.dumps({"method.mu": mu, "local.lr": lr}) for mu in (0, 1) for lr in (0.05, 0.3)
    }
    assert (tmp_path / "a" / "sweep.png").read_bytes().startswith(b"\x89PNG")
    ET.parse(tmp_path / "a" / "sweep.svg")  # noqa: S314
    assert "Best by" in (tmp_path / "a" / "report.html").read_text()


@pytest.mark.slow
def test_the_table_fits_a_hundred_columns_and_marks_the_best(fedloom, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    result = fedloom("sweep", *SMALL, "--grid", "method=fedavg,fedprox:mu=1,adaptive=true,local", "--out", "a")
    table = [line for line in result.stdout.splitlines() if line.startswith(("│", "┃"))]
    assert max(map(len, table)) <= 110
    assert sum("best" in line for line in table) == 1
    assert "fedprox:mu=1,adaptive=true" in result.stdout


@pytest.mark.slow
def test_resuming_a_sweep_does_what_is_missing_and_repeats_nothing(fedloom, tmp_path):
    words = ["sweep", *SMALL, "--grid", "local.lr=0.05,0.3", "--out", "a", "--json"]
    first = json.loads(fedloom(*words).stdout)
    gone = sorted((tmp_path / "a").glob("002-*"))[0]
    before = (gone / "metrics.jsonl").read_bytes()
    stays = next((tmp_path / "a").glob("001-*")) / "metrics.jsonl"
    untouched = stays.stat().st_mtime_ns
    for path in sorted(gone.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.rmdir()
    result = fedloom("resume", "a", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == first
    assert (gone / "metrics.jsonl").read_bytes() == before
    assert stays.stat().st_mtime_ns == untouched
    assert json.loads(fedloom(*words).stdout) == first


@pytest.mark.slow
def test_a_report_of_a_sweep_never_pools_two_combinations(fedloom):
    fedloom("sweep", *SMALL, "--grid", "local.lr=0.05,0.3", "--out", "a")
    values = json.loads(fedloom("report", "a", "--json").stdout)
    assert {(row["method"], row["seeds"]) for row in values["methods"]} == {("lr=0.05", 1), ("lr=0.3", 1)}


@pytest.mark.slow
def test_a_combination_that_diverges_is_left_out_and_the_others_go_on(fedloom, tmp_path):
    done = fedloom("sweep", *SMALL, "--grid", "local.lr=0.1,1e20", "--out", "a", "--json")
    assert done.returncode == 3
    assert done.stderr.startswith("lr=1e+20 stopped: fedavg diverged in round 1")
    values = json.loads(done.stdout)
    good, bad = values["combinations"]
    assert (good["mark"], bad["mark"]) == ("best", "left out")
    assert "diverged in round 1" in bad["stopped"]
    assert "1 of 2" in values["verdict"]
    all_bad = fedloom("sweep", *SMALL, "--grid", "local.lr=1e20,1e21", "--out", "b")
    assert all_bad.returncode == 3
    assert "No combination ran to its end" in all_bad.stdout
    assert not (tmp_path / "b" / "sweep.png").exists()


MISTAKES = {
    "no grid": ([], "needs a grid"),
    "empty grid": (["--grid", "local.lr="], "has no value"),
    "twice": (["--grid", "local.lr=0.1,0.1"], "has 0.1 twice"),
    "unknown key": (["--grid", "local.lrr=0.1,1"], "Did you mean 'local.lr'?"),
    "wrong type": (["--grid", "local.epochs=1,many"], "local.epochs='many'"),
    "unknown method": (["--grid", "method=fedavg,fedprix"], "Did you mean 'fedprox'?"),
    "of another method": (["--grid", "method.mu=0.1,1"], "unknown key in method fedavg: 'mu'"),
    "two methods": (["--method", "fedavg", "--grid", "method=fedprox,local"], "give one"),
    "bad alpha": (["--grid", "task.partition.alpha=-1,1"], "alpha"),
    "metric": (["--grid", "local.lr=0.1", "--metric", "clint"], "unknown metric 'clint'"),
    "seeds": (["--grid", "local.lr=0.1", "--seeds", "0"], "seeds=0"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(mistake, fedloom, tmp_path):
    words, part = mistake
    result = fedloom("sweep", *words)
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if line.strip()]
    assert part in line
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_your_own_data_are_swept_from_any_folder(fedloom, tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3},{'yes' if i % 2 else 'no'},h{i % 4}" for i in range(200))
    (tmp_path / "own.csv").write_text("age,dose,outcome,hospital\n" + rows)
    own = ["--data", "own.csv", "--target", "outcome", "--client-column", "hospital", "--rounds", "1"]
    assert fedloom("sweep", *own, "--grid", "local.lr=0.1,1", "--out", "a", "--quiet").returncode == 0
    assert str(tmp_path / "own.csv") in (tmp_path / "a" / "sweep.toml").read_text()
