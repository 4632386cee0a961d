"""A site's own graph under a run's schema, and graphs that do not fit it."""

import hashlib
import hmac
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.explanation_text import explanation_text
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.rounds.jobs import Job
from fedloom.tasks.graphs.read import save_graph
from support.graph_sites import SALT, GraphSites, graph_run, write_pieces
from support.local_transport import NAMES, Sent, change_answer, quick, simulate
from support.site_tasks import blueprint_of, check_refused, south
from support.small_graphs import clubs
from support.small_tables import write_rows

pytestmark = pytest.mark.usefixtures(quick.__name__)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """The task of a graph in two tables, whose nodes have two features and three named classes."""
    folder = tmp_path_factory.mktemp("operator") / "clubs"
    write_graph_tables(folder, ["x0", "x1"], ["ant", "bee", "cow"])
    task = {"name": "own-graph", "path": str(folder), "model_options": {"hidden": 4}, "valid_share": 0.25}
    return blueprint_of(task, local={"batch_size": 0})


def write_graph_tables(folder, features, classes, nodes=24, values=None):
    folder.mkdir(parents=True, exist_ok=True)
    half = nodes // 2
    rows = []
    for node in range(nodes):
        numbers = values or {name: node % 5 + place for place, name in enumerate(features)}
        rows.append([node, classes[node % len(classes)], *numbers.values()])
    write_rows(folder / "nodes.csv", ["id", "label", *features], rows)
    edges = [(a, b) for start in (0, half) for a in range(start, start + half) for b in range(a + 1, start + half)]
    write_rows(folder / "edges.csv", ["source", "target"], [*edges, (0, half)])
    return folder


def test_a_site_brings_its_own_graph_under_the_schemas_classes(graph, tmp_path):
    """It has no ants, and its feature columns stand in another order."""
    write_graph_tables(tmp_path / "mine", ["x1", "x0"], ["bee", "cow"], values={"x1": 3, "x0": 1})
    task = graph.site_task(south("mine"), tmp_path)
    federation = task.federation
    own = federation.graphs.original(1)
    assert graph.schema.features == ("x0", "x1")
    assert torch.allclose(own.features.to_dense(), torch.tensor([0.25, 0.75]).expand(24, 2))
    assert set(federation.columns["y"][federation.graphs.positions(1)].tolist()) == {1, 2}
    assert federation.graphs.sizes.tolist() == [1, 24]
    assert ClientSizes.of(federation, 1) == ClientSizes(train=14, valid=6, test=4, points=24)
    trained = graph.runtime(task).do(Job("update", 1, [1], [0]), Message({"row": graph.initial}), {})
    assert not torch.equal(trained["reply/row"][0], graph.initial)


def test_an_evaluator_may_have_a_graph(graph, tmp_path):
    write_graph_tables(tmp_path / "mine", ["x0", "x1"], ["bee", "cow"])
    runtime = graph.runtime(graph.site_task(south("mine", client=2), tmp_path))
    whole = runtime.do(Job("global", 1, [0, 24], []), Message({"row": graph.initial}), {})
    assert float(whole["counts"]) == 24


def test_graphs_that_do_not_fit_are_refused(graph, tmp_path):
    write_graph_tables(tmp_path / "narrow", ["x0"], ["bee"])
    check_refused(graph, south("narrow"), tmp_path, "nodes.csv has no feature column 'x1'")
    write_graph_tables(tmp_path / "strange", ["x0", "x1"], ["bee", "elk"])
    check_refused(graph, south("strange"), tmp_path, "strange: the label 'elk' of node 1 is not a class of the task")
    write_graph_tables(tmp_path / "many", ["x0", "x1"], ["0", "3"])
    check_refused(graph, south("many"), tmp_path, "many: the label '3' of node 1 is not a class of the task")
    save_graph(clubs(), tmp_path / "wide.npz")
    check_refused(graph, south("wide.npz"), tmp_path, "wide.npz: its nodes have 3 features, but the task's have 2")
    source = clubs(classes=2)
    nobody = {"train": torch.zeros(38, dtype=torch.bool), "test": source.parts["test"]}
    save_graph(replace(source, parts=nobody), tmp_path / "untrained.npz")
    check_refused(graph, south("untrained.npz"), tmp_path, "untrained.npz has no labelled node to train on")


# -- nodes that sites share, found by salted hashes


@pytest.mark.parametrize("method", ["fedgala", "fedgalap"])
def test_sites_with_their_own_graphs_find_their_anchors_and_compute_what_the_simulator_does(
    method: str, tmp_path: Path
) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    sites = GraphSites(graph_run(tmp_path / "clubs.npz", method), tmp_path)
    there, here = simulate(sites.plan), sites.play()
    graphs = sites.plan.prepared.composition.task.federation.graphs
    assert max(map(len, graphs.anchors)) > 0
    for client in range(3):
        kept = sites.state(client)
        found = kept["gala/anchors"][0] if kept["gala/anchors"].dim() == 2 else kept["gala/anchors"]
        assert set(found[found >= 0].tolist()) == set(graphs.anchors[client].tolist())
    assert here.row is not None
    assert there.row is not None
    torch.testing.assert_close(here.row, there.row, rtol=1e-5, atol=1e-7)
    for mine, theirs in zip(here.records, there.records, strict=True):
        assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=1e-5)
    sent = b"".join(one.answer for one in sites.transport.sent)
    assert b"paper" not in sent


def test_the_hashes_of_a_site_are_those_of_hmac(tmp_path: Path) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    sites = GraphSites(graph_run(tmp_path / "clubs.npz"), tmp_path)
    task = sites.sites[1].runtime.scoring.task
    hashes, ids = task.federation.graphs.id_hashes[1], task.federation.graphs.original(1)
    assert len(hashes) == len(ids) + 1
    assert int(hashes.min()) >= 0
    first = sites.plan.prepared.composition.task.federation.graphs.original(1).nodes[0]
    digest = hmac.new(SALT.encode(), f"node paper {int(first)}".encode(), hashlib.sha256).digest()
    assert int(hashes[1]) == int.from_bytes(digest[:8], "big") >> 1


def test_a_site_with_another_salt_is_named_and_left_out_of_the_edges(tmp_path: Path) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    sites = GraphSites(graph_run(tmp_path / "clubs.npz"), tmp_path, (SALT, SALT, SALT + "!"))
    history = sites.play()
    assert [record["round"] for record in history.records] == [0, 1, 2, 3, 4]
    excluded = [one for record in history.records for one in record.get("excluded", ())]
    assert [one["name"] for one in excluded] == [NAMES[2]]
    assert "its salt is not that of most sites" in excluded[0]["reason"]
    assert [("gala/chosen" in sites.state(client)) for client in range(3)] == [True, True, False]
    assert history.records[-1]["selected"] == [0, 1, 2]


def test_salts_that_are_all_different_end_the_run_with_a_site_s_name(tmp_path: Path) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    sites = GraphSites(graph_run(tmp_path / "clubs.npz"), tmp_path, (SALT, SALT + "?", SALT + "!"))
    with pytest.raises(FedloomError, match=f"client {NAMES[0]}: its salt is not that of most sites"):
        sites.play()


def test_a_site_whose_nodes_nobody_else_has_is_named_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    sites = GraphSites(graph_run(tmp_path / "clubs.npz"), tmp_path)

    def strange(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        hashes = tensors["reply/hashes"].clone()
        hashes[:, 1:] = torch.arange(hashes.shape[1] - 1)
        return {**tensors, "reply/hashes": hashes}

    def meddle(sent: Sent) -> bytes:
        is_asked = (sent.node, sent.request.kind, sent.request.round, sent.request.turn) == (2, "update", 2, 1)
        return change_answer(sent, strange) if is_asked else sent.answer

    sites.transport.meddle = meddle
    history = sites.play()
    assert len(history.records) == 5
    assert not any("excluded" in record for record in history.records)
    assert f"client {NAMES[2]} has no node that another client has" in caplog.text


@pytest.mark.parametrize(("salt", "ids", "said"), [("short", True, "set salt in \\[data\\]"), (SALT, False, "no ids")])
def test_a_site_without_ids_or_salt_is_told_what_to_do(salt: str, ids: bool, said: str, tmp_path: Path) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    run = graph_run(tmp_path / "clubs.npz")
    write_pieces(run, tmp_path)
    made = Blueprint.of(resolve(run), NAMES)
    path = tmp_path / ("north.npz" if ids else "clubs.npz")
    settings = SiteSettings(name="north", client=0, data=SiteData(path=str(path), salt=salt))
    with pytest.raises(FedloomError, match=f"site north: .*{said}"):
        made.site_task(settings, tmp_path)


def test_explain_says_that_hashes_leave_a_site(tmp_path: Path) -> None:
    save_graph(clubs(), tmp_path / "clubs.npz")
    text = explanation_text(resolve(graph_run(tmp_path / "clubs.npz")))
    assert "salted hashes of the ids of its nodes" in text
    assert "which of the site's nodes another site has too" in text
