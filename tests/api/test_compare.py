"""``fl.compare``: the folder of the command line, comparisons that grow, and what a comparison says of itself."""

from __future__ import annotations

import copy
import html
import pickle

import pytest

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.command_line import json_output, output
from support.folders import written

SMALL = {"clients": 4, "alpha": 0.5}
WORDS = ("--clients", "4", "--alpha", "0.5", "--rounds", "1", "--quiet")


def digits(seed: int = 0) -> fl.Task:
    return fl.task("digits", **SMALL, seed=seed)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory):
    """A comparison of three methods with two seeds and two rounds."""
    folder = tmp_path_factory.mktemp("at once") / "c"
    return fl.compare(digits(), ["fedavg", "local", "fedprox:mu=0.1"], seeds=2, rounds=2, out=folder)


@pytest.mark.slow
def test_python_and_the_command_line_write_the_same_folder(tmp_path):
    fl.compare("digits", ["fedavg", "local"], rounds=1, out=tmp_path / "python")
    output(
        app, "compare", "--task", "digits", "--rounds", "1", "fedavg", "local", "--quiet", "--out", tmp_path / "shell"
    )
    assert written(tmp_path / "python") == written(tmp_path / "shell")
    assert (tmp_path / "python" / "report.html").exists()


@pytest.mark.parametrize(
    "steps",
    [
        [{"methods": ["fedavg"]}, {"methods": ["local", "fedprox:mu=0.1"], "seeds": 2}],
        [{"methods": ["fedavg", "local"], "seeds": 2, "rounds": 1}, {"methods": ["fedprox:mu=0.1"]}],
    ],
    ids=["methods and seeds", "rounds"],
)
@pytest.mark.usefixtures("without_report")
@pytest.mark.slow
def test_a_comparison_grows_to_the_bytes_of_one_that_was_made_at_once(steps, at_once, tmp_path):
    for step in steps:
        grown = fl.compare(digits(), **{"rounds": 2, **step}, out=tmp_path / "c")
    assert written(tmp_path / "c") == written(at_once.folder)
    assert grown == at_once


@pytest.mark.usefixtures("without_report")
def test_what_is_there_is_not_run_again(at_once, tmp_path):
    rounds: list[int] = []
    fl.compare(digits(), ["fedavg"], rounds=1, out=tmp_path / "c")
    fl.compare(
        digits(), ["fedavg", "local"], rounds=1, out=tmp_path / "c", observers=[lambda r: rounds.append(r["round"])]
    )
    assert rounds == [0, 1]
    before = {path: path.stat().st_mtime_ns for path in at_once.folder.rglob("*.safetensors")}
    fl.compare(digits(), ["fedavg"], rounds=2, out=at_once.folder)
    assert {path: path.stat().st_mtime_ns for path in at_once.folder.rglob("*.safetensors")} == before


@pytest.mark.usefixtures("without_report")
@pytest.mark.slow
def test_the_command_line_adds_a_method_to_a_comparison(tmp_path):
    first = json_output(app, "compare", *WORDS, "fedavg", "--out", tmp_path / "c")
    both = json_output(app, "compare", *WORDS, "local", "--out", tmp_path / "c")
    assert [row["method"] for row in both["methods"]] == ["fedavg", "local"]
    assert both["methods"][0] == first["methods"][0]
    assert first["evidence"] == []
    assert both["evidence"] == json_output(app, "report", tmp_path / "c")["evidence"]
    (row,) = both["evidence"]  # local has no global model
    rates = {row["method"]: row["client_accuracy"] for row in both["methods"]}
    assert row["lead"] == pytest.approx(rates[row["leader"]] - rates[row["rival"]])
    assert (row["seeds"], row["low"], row["established"]) == (1, None, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 1}, r"rounds=1: the comparison in .* has 2 rounds already, and it only grows"),
        ({"local": {"lr": 0.5}}, "contains another comparison, with other data or settings"),
        ({"task": digits(seed=1)}, "contains another comparison, with other data or settings"),
    ],
)
def test_another_comparison_is_not_mixed_in(change, message, at_once):
    before = written(at_once.folder)
    with pytest.raises(FedloomError, match=message):
        fl.compare(**{"task": digits(), "methods": ["fedavg"], "rounds": 2, **change}, out=at_once.folder)
    assert written(at_once.folder) == before


@pytest.mark.usefixtures("without_report")
def test_more_rounds_are_refused_where_they_matter_and_nothing_is_written(tmp_path):
    cosine = {"local": {"schedule": "cosine", "lr_decay": 0.1}, "out": tmp_path / "c"}
    fl.compare(digits(), ["fedavg"], rounds=1, **cosine)
    before = written(tmp_path / "c")
    for longer in (
        lambda: fl.compare(digits(), ["fedavg"], rounds=2, **cosine),
        lambda: fl.resume(tmp_path / "c", rounds=2),
    ):
        with pytest.raises(FedloomError, match="depends on the number of rounds"):
            longer()
    assert written(tmp_path / "c") == before


class Halved(fl.FedAvg):
    """FedAvg that goes half of the way."""

    def aggregate(self, server, replies):
        return {**server, "row": (server["row"] + replies.mean("row")) / 2}


@pytest.mark.usefixtures("without_report")
def test_a_finished_run_of_a_method_object_stays_and_an_unfinished_one_asks_for_it(tmp_path):
    fl.compare(digits(), [Halved()], rounds=1, out=tmp_path / "c")
    found = fl.compare(digits(), ["local"], rounds=1, out=tmp_path / "c")
    assert list(found) == ["halved", "local"]
    for more in (
        lambda: fl.compare(digits(), ["local"], seeds=2, rounds=1, out=tmp_path / "c"),
        lambda: output(app, "resume", tmp_path / "c"),
    ):
        with pytest.raises(FedloomError, match=r"the method halved of .* is a Python object"):
            more()
    assert list(fl.compare(digits(), [Halved(), "local"], seeds=2, rounds=1, out=tmp_path / "c")) == ["halved", "local"]


def test_a_comparison_is_a_mapping_with_a_table_a_verdict_and_a_line_about_itself(at_once):
    assert list(at_once) == ["fedavg", "local", "fedprox:mu=0.1"]
    assert [row["method"] for row in at_once.rows] == list(at_once)
    assert str(at_once) == at_once.verdict
    by_metric = {(row["metric"].split("/")[0], row["leader"]) for row in at_once.evidence}
    assert by_metric == {("client_model", "local"), ("global_model", "fedavg")}
    assert all(row["low"] < row["lead"] < row["high"] for row in at_once.evidence)
    assert repr(at_once).startswith("<Comparison of 3 methods, 2 seeds: clients' accuracy fedavg ")
    assert repr(at_once).endswith(f", in {at_once.folder}>")
    again = pickle.loads(pickle.dumps(at_once))  # noqa: S301
    assert (again, again.folder) == (at_once, at_once.folder)
    assert copy.copy(at_once).rows == at_once.rows


@pytest.mark.slow
def test_the_report_that_it_writes_is_the_one_that_its_folder_gives(at_once):
    """Methods stay in the order of the comparison, and how long rounds took is known before it is read again."""
    page = (at_once.folder / "report.html").read_bytes()
    output(app, "report", at_once.folder)
    assert (at_once.folder / "report.html").read_bytes() == page
    assert all(set(run.seconds) == {0, 1, 2} for runs in at_once.values() for run in runs)


@pytest.mark.usefixtures("without_report")
def test_a_target_is_in_the_rows(tmp_path):
    found = fl.compare(digits(), ["fedavg"], rounds=2, reach=0.01, out=tmp_path / "c")
    assert found.rows[0]["reached"] == 1
    with pytest.raises(FedloomError, match="reach=80"):
        fl.compare(digits(), ["fedavg"], rounds=2, reach=80)


def test_its_figure_names_the_methods(at_once, tmp_path):
    figure = at_once.plot(tmp_path / "c.svg", axis="steps")
    assert "fedprox:mu=0.1" in (tmp_path / "c.svg").read_text()
    assert len(figure.axes) == 2


def test_a_notebook_and_a_paper_get_the_table_of_a_comparison():
    found = fl.compare(digits(), ["fedavg", "local"], rounds=1)
    page = found._repr_html_()
    assert html.escape(found.verdict) in page
    for text in (page, found.to_markdown(), found.to_latex()):
        assert all(name in text for name in ("fedavg", "local", "baseline: majority"))
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (the extra 'frame')")
    frame = found.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["method"].tolist()[:2] == ["fedavg", "local"]
    assert frame["client_accuracy"].tolist() == [row["client_accuracy"] for row in (*found.rows, *found.baselines)]
