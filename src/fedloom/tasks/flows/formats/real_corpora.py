"""The two corpora of real flows: n8n workflows and BPMN models, each packed into one file.

Nodes have no names there, so their ids are their numbers. The graphs become flows exactly as single files do: kinds,
labels, Start and Ends mean the same in a corpus and in a user's file. Equal attributes and ids are one object: 10,902
flows take about two seconds. Packed files that Fedloom writes are read in ``packed_corpus``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.data.folder import find
from fedloom.files.limits import gunzip, read_limited
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.bpmn import LINKS
from fedloom.tasks.flows.formats.json_values import parse_json
from fedloom.tasks.flows.formats.n8n import attributes_of, edge_of, is_attachment
from fedloom.tasks.flows.formats.packed_corpus import PackedArrays
from fedloom.tasks.flows.formats.start_and_ends import Reading, with_start_and_ends
from fedloom.tasks.flows.rules import BPMN, N8N, Dialect

N8N_FILE, N8N_VOCABULARY, N8N_TITLES = "n8n_flows.npz", "n8n_flows_vocab.json.gz", "n8n_flows_titles.txt.gz"
BPMN_FILE = "bpmn_models.npz"
UNKNOWN_OWNER = "unknown"
_GRAPHS = ("node_ptr", "node_type", "edge_ptr", "edge_src", "edge_dst", "edge_type")
_N8N = ("node_type_version", "node_operation", "node_resource", "node_disabled", "edge_output", "edge_input")
_N8N_GRAPHS = ("graph_template_id", "graph_owner", "category_ptr", "category_idx")
_BPMN = ("graph_language", "graph_exercise", "graph_is_solution", "node_type_names")


class _Graphs:
    """What both files have: the ranges of each graph's nodes and edges, the nodes' ids, and the ends of the edges."""

    def __init__(self, arrays: PackedArrays) -> None:
        self.nodes, self.node_count = arrays.ranges("node_ptr")
        self.edges, self.edge_count = arrays.ranges("edge_ptr", len(self.nodes))
        ids = [str(number) for number in range(max((last - first for first, last in self.nodes), default=0))]
        self.ids = [ids[number] for first, last in self.nodes for number in range(last - first)]
        self.sources, self.targets = (
            [ids[number] for number in arrays.node_numbers(name, self.edges, self.nodes)]
            for name in ("edge_src", "edge_dst")
        )

    def __len__(self) -> int:
        return len(self.nodes)


def read_n8n(folder: str | Path | None = None) -> Corpus:
    """The n8n corpus in a data folder: an organisation per owner; flows of unknown owners come last.

    A flow's attributes are its ``template`` number and its first ``category``; its name is its title, if the folder has
    the file of titles.
    """
    home = None if folder is None else Path(folder)
    arrays = PackedArrays(find("n8n", N8N_FILE, home), (*_GRAPHS, *_N8N, *_N8N_GRAPHS))
    vocabulary = parse_json(_read_gzip(find("n8n", N8N_VOCABULARY, home)), N8N_VOCABULARY)
    types, operations, resources, links, categories = (
        [value.text() for value in vocabulary.field(name).items()]
        for name in ("node_type", "operation", "resource", "edge_type", "category")
    )
    graphs = _Graphs(arrays)

    @cache
    def attributes(version: float, operation: int, resource: int, disabled: bool) -> dict[str, str]:
        return attributes_of(version, operations[operation], resources[resource], disabled)

    node_rows = zip(
        graphs.ids,
        arrays.numbers("node_type", graphs.node_count, len(types)),
        arrays.array("node_type_version", "f", graphs.node_count).tolist(),
        arrays.numbers("node_operation", graphs.node_count, len(operations)),
        arrays.numbers("node_resource", graphs.node_count, len(resources)),
        arrays.array("node_disabled", "b", graphs.node_count).tolist(),
        strict=True,
    )
    nodes = [Node(name, types[kind], attributes(*rest)) for name, kind, *rest in node_rows]
    edge_rows = zip(
        graphs.sources,
        graphs.targets,
        arrays.numbers("edge_type", graphs.edge_count, len(links)),
        arrays.numbers("edge_output", graphs.edge_count),
        arrays.numbers("edge_input", graphs.edge_count),
        strict=True,
    )
    edges = [edge_of(source, target, links[kind], *ports) for source, target, kind, *ports in edge_rows]
    category_ranges, entries = arrays.ranges("category_ptr", len(graphs))
    category = arrays.numbers("category_idx", entries, len(categories))
    template = arrays.numbers("graph_template_id", len(graphs))
    owner = arrays.numbers("graph_owner", len(graphs), least=-1)
    titles = _titles(arrays, len(graphs))

    def flow(number: int, nodes: Sequence[Node], edges: Sequence[Edge]) -> Reading:
        first, last = category_ranges[number]
        about = {"template": str(template[number])} | (
            {"category": categories[category[first]]} if first < last else {}
        )
        return with_start_and_ends(
            nodes, edges, N8N, is_attachment=is_attachment, attributes=about, name=titles[number]
        )

    owners = [f"owner {number}" if number >= 0 else UNKNOWN_OWNER for number in owner]
    order = sorted(range(len(graphs)), key=lambda graph: (owner[graph] < 0, owner[graph]))
    return _corpus(graphs, nodes, edges, flow, [(graph, owners[graph]) for graph in order], N8N, "n8n workflows")


def read_bpmn(folder: str | Path | None = None) -> Corpus:
    """The corpus of BPMN models in a data folder: an organisation per modelling exercise and language.

    A flow's attributes are ``exercise``, ``language`` (both as numbers) and ``solution`` for model solutions. The file
    does not hold the activity to whose boundary an event belongs: the Start leads to such an event.
    """
    arrays = PackedArrays(find("bpmn", BPMN_FILE, None if folder is None else Path(folder)), (*_GRAPHS, *_BPMN))
    graphs = _Graphs(arrays)
    names = [str(name) for name in arrays.array("node_type_names", "U")]
    labels = [LINKS["sequenceFlow"], LINKS["messageFlow"]]
    kinds = arrays.numbers("node_type", graphs.node_count, len(names))
    nodes = [Node(name, names[kind]) for name, kind in zip(graphs.ids, kinds, strict=True)]
    edge_rows = zip(graphs.sources, graphs.targets, arrays.numbers("edge_type", graphs.edge_count, 2), strict=True)
    edges = [Edge(source, target, labels[kind]) for source, target, kind in edge_rows]
    exercise, language = (arrays.numbers(f"graph_{name}", len(graphs)) for name in ("exercise", "language"))
    solution = arrays.array("graph_is_solution", "b", len(graphs)).tolist()

    def flow(number: int, nodes: Sequence[Node], edges: Sequence[Edge]) -> Reading:
        about = {"exercise": str(exercise[number]), "language": str(language[number])}
        return with_start_and_ends(
            nodes,
            edges,
            BPMN,
            start_events={node.id for node in nodes if node.kind.startswith("startEvent")},
            end_events={node.id for node in nodes if node.kind.startswith("endEvent")},
            attributes=about | ({"solution": "yes"} if solution[number] else {}),
        )

    order = sorted(range(len(graphs)), key=lambda graph: (exercise[graph], language[graph]))
    owners = [(graph, f"exercise {exercise[graph]}, language {language[graph]}") for graph in order]
    return _corpus(graphs, nodes, edges, flow, owners, BPMN, "BPMN models")


def _corpus(
    graphs: _Graphs,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    flow: Callable[[int, Sequence[Node], Sequence[Edge]], Reading],
    owners: Sequence[tuple[int, str]],
    dialect: Dialect,
    title: str,
) -> Corpus:
    """All graphs as flows, by organisation; ``owners`` are the numbers of graphs and their organisations, in order."""
    flows: dict[str, list[Flow]] = {}
    self_loops = merged = 0
    for graph, organisation in owners:
        reading = flow(graph, nodes[slice(*graphs.nodes[graph])], edges[slice(*graphs.edges[graph])])
        flows.setdefault(organisation, []).append(reading.flow)
        self_loops += reading.self_loops
        merged += reading.merged
    organisations = tuple(Organisation(name, tuple(own)) for name, own in flows.items())
    return Corpus(organisations, dialect, title, self_loops, merged)


def _titles(arrays: PackedArrays, count: int) -> list[str]:
    path = arrays.path.with_name(N8N_TITLES)
    if not path.is_file():
        return [""] * count
    titles = _read_gzip(path).decode("utf-8", "replace").removesuffix("\n").split("\n")
    if len(titles) != count:
        raise FedloomError(f"{path} has {len(titles):,} titles for {count:,} flows: download both files again.")
    return titles


def _read_gzip(path: Path) -> bytes:
    try:
        return gunzip(read_limited(path), path)
    except (OSError, EOFError, zlib.error) as error:
        raise FedloomError(f"{path} is not a readable .gz file: create or download it again.") from error
