"""``fedloom graphs``: the statistics of a split, for people and for machines."""

import json

import pytest
import typer
from typer.testing import CliRunner

from fedloom.cli.graphs import _published_row
from fedloom.cli.graphs import app as graphs
from fedloom.core.errors import FedloomError
from fedloom.tasks.graphs.read import save_graph
from support.paths import DATA_FOLDER
from support.small_graphs import clubs

app = typer.Typer()
app.add_typer(graphs, name="graphs")


def split(*words, **options):
    result = CliRunner().invoke(app, ["graphs", "split", *map(str, words)], catch_exceptions=True, **options)
    if isinstance(result.exception, FedloomError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def own(tmp_path):
    save_graph(clubs(), tmp_path / "clubs.npz")
    return tmp_path / "clubs.npz"


def test_a_graph_of_ones_own_is_divided_and_told_as_json(own):
    values = json.loads(split("--data", own, "--clients", 2, "--json"))
    assert (values["nodes"], values["classes"], values["clients"], values["names"]) == (38, 3, 2, ["0", "1"])
    assert values["per_client"]["communities"] == [2, 2]
    assert values["means"]["nodes"] == sum(values["per_client"]["nodes"]) / 2
    assert values["thesis"] is None
    assert sum(values["per_client"]["labelled"]) >= 18


def test_the_table_has_a_row_per_client_and_their_mean(own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = split("--data", own, "--clients", 4)
    assert "38 nodes" in text
    assert "mean (seed 0)" in text
    assert "thesis" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_picture_is_drawn_where_one_asks_for_it(own, tmp_path):
    split("--data", own, "--clients", 2, "--out", tmp_path / "split.png")
    assert (tmp_path / "split.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(FedloomError, match="cannot be written"):
        split("--data", own, "--clients", 2, "--out", tmp_path / "nowhere" / "split.png")


@pytest.mark.parametrize("words", [(), ("cora", "--data", "x.npz")])
def test_one_graph_must_be_named(words):
    with pytest.raises(FedloomError, match="name one graph"):
        split(*words)


def test_cora_stands_beside_the_table_of_the_thesis(monkeypatch):
    if not (DATA_FOLDER / "cora.npz").is_file():
        pytest.skip(f"cora.npz is not in {DATA_FOLDER}")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    values = json.loads(split("Cora", "--clients", 4, "--json"))
    assert values["thesis"]["nodes"] == 859.25
    monkeypatch.setenv("COLUMNS", "100")
    assert "thesis, table 4.2" in split("cora", "--clients", 4)


@pytest.mark.parametrize("clients", [4, 8])
@pytest.mark.parametrize("graph", ["cora", "citeseer", "pubmed", "wiki-cs"])
def test_published_rows_have_the_ratio_of_their_numbers_where_nothing_is_noted(graph, clients):
    row = _published_row(graph, clients)
    assert row is not None
    assert row["note"] or row["ratio"] == pytest.approx(row["anchors"] / row["nodes"], abs=0.005)
