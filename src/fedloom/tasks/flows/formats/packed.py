"""The two packed corpora of real flows, each of which is one file with all graphs behind one another.

Nodes have no names there, so their ids are their numbers. The graphs are closed into flows exactly as the readers of
single files do it: kinds, labels, Start and Ends mean the same in a corpus and in a file of one's own. Equal
attributes and ids are one object: 10,902 flows take about two seconds. Packed files of our own: ``bundle``.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.data.folder import find
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.bpmn import LINKS
from fedloom.tasks.flows.formats.bundle import read_packed
from fedloom.tasks.flows.formats.closing import Reading, closed
from fedloom.tasks.flows.formats.columns import Columns
from fedloom.tasks.flows.formats.n8n import attributes_of, edge_of, is_attachment
from fedloom.tasks.flows.formats.plain import parse
from fedloom.tasks.flows.rules import BPMN, N8N, Dialect

N8N_FILE, N8N_VOCABULARY, N8N_TITLES = "n8n_flows.npz", "n8n_flows_vocab.json.gz", "n8n_flows_titles.txt.gz"
BPMN_FILE = "bpmn_models.npz"
UNKNOWN = "unknown"
_GRAPHS = ("node_ptr", "node_type", "edge_ptr", "edge_src", "edge_dst", "edge_type")
_N8N = ("node_type_version", "node_operation", "node_resource", "node_disabled", "edge_output", "edge_input")
_N8N_GRAPHS = ("graph_template_id", "graph_owner", "category_ptr", "category_idx")
_BPMN = ("graph_language", "graph_exercise", "graph_is_solution", "node_type_names")


def read_corpus(path: str | Path) -> Corpus:
    """A corpus from its file: one of the two real ones, known by their names, or one that `write_packed` wrote."""
    path = Path(path)
    real = {N8N_FILE: read_n8n, BPMN_FILE: read_bpmn}
    return real[path.name](path.parent) if path.name in real else read_packed(path)


class _Graphs:
    """What the packed files have in common: where each graph's nodes and edges are, and which nodes edges join."""

    def __init__(self, columns: Columns) -> None:
        self.nodes, self.node_count = columns.ranges("node_ptr")
        self.edges, self.edge_count = columns.ranges("edge_ptr", len(self.nodes))
        ids = [str(number) for number in range(max((last - first for first, last in self.nodes), default=0))]
        self.ids = [ids[number] for first, last in self.nodes for number in range(last - first)]
        self.sources, self.targets = (
            [ids[number] for number in columns.local(name, self.edges, self.nodes)] for name in ("edge_src", "edge_dst")
        )

    def __len__(self) -> int:
        return len(self.nodes)


def read_n8n(folder: str | Path | None = None) -> Corpus:
    """The n8n corpus in a data folder: an organisation per owner, last the flows whose owner is unknown.

    A flow's attributes are its ``template`` number and its first ``category``; its name is its title, where the
    folder has the titles too.
    """
    home = None if folder is None else Path(folder)
    columns = Columns(find("n8n", N8N_FILE, home), (*_GRAPHS, *_N8N, *_N8N_GRAPHS))
    vocabulary = parse(_unzipped(find("n8n", N8N_VOCABULARY, home)), N8N_VOCABULARY)
    types, operations, resources, links, categories = (
        [place.text() for place in vocabulary.field(name).items()]
        for name in ("node_type", "operation", "resource", "edge_type", "category")
    )
    graphs = _Graphs(columns)

    @cache
    def attributes(version: float, operation: int, resource: int, disabled: bool) -> dict[str, str]:
        return attributes_of(version, operations[operation], resources[resource], disabled)

    described = zip(
        graphs.ids,
        columns.numbers("node_type", graphs.node_count, len(types)),
        columns.array("node_type_version", "f", graphs.node_count).tolist(),
        columns.numbers("node_operation", graphs.node_count, len(operations)),
        columns.numbers("node_resource", graphs.node_count, len(resources)),
        columns.array("node_disabled", "b", graphs.node_count).tolist(),
        strict=True,
    )
    nodes = [Node(name, types[kind], attributes(*rest)) for name, kind, *rest in described]
    joined = zip(
        graphs.sources,
        graphs.targets,
        columns.numbers("edge_type", graphs.edge_count, len(links)),
        columns.numbers("edge_output", graphs.edge_count),
        columns.numbers("edge_input", graphs.edge_count),
        strict=True,
    )
    edges = [edge_of(source, target, links[kind], *ports) for source, target, kind, *ports in joined]
    listed, entries = columns.ranges("category_ptr", len(graphs))
    category = columns.numbers("category_idx", entries, len(categories))
    template = columns.numbers("graph_template_id", len(graphs))
    owner = columns.numbers("graph_owner", len(graphs), least=-1)
    titles = _titles(columns, len(graphs))

    def flow(number: int, nodes: Sequence[Node], edges: Sequence[Edge]) -> Reading:
        first, last = listed[number]
        about = {"template": str(template[number])} | (
            {"category": categories[category[first]]} if first < last else {}
        )
        return closed(nodes, edges, N8N, attaches=is_attachment, attributes=about, name=titles[number])

    owners = [f"owner {number}" if number >= 0 else UNKNOWN for number in owner]
    order = sorted(range(len(graphs)), key=lambda graph: (owner[graph] < 0, owner[graph]))
    return _corpus(graphs, nodes, edges, flow, [(graph, owners[graph]) for graph in order], N8N, "n8n workflows")


def read_bpmn(folder: str | Path | None = None) -> Corpus:
    """The corpus of BPMN models in a data folder: an organisation per modelling exercise and language.

    A flow's attributes are ``exercise``, ``language`` (both as numbers) and ``solution`` where it is a model solution.
    The file does not say on whose boundary an event sits: here the Start leads to such an event.
    """
    columns = Columns(find("bpmn", BPMN_FILE, None if folder is None else Path(folder)), (*_GRAPHS, *_BPMN))
    graphs = _Graphs(columns)
    names = [str(name) for name in columns.array("node_type_names", "U")]
    labels = [LINKS["sequenceFlow"], LINKS["messageFlow"]]
    kinds = columns.numbers("node_type", graphs.node_count, len(names))
    nodes = [Node(name, names[kind]) for name, kind in zip(graphs.ids, kinds, strict=True)]
    joined = zip(graphs.sources, graphs.targets, columns.numbers("edge_type", graphs.edge_count, 2), strict=True)
    edges = [Edge(source, target, labels[kind]) for source, target, kind in joined]
    exercise, language = (columns.numbers(f"graph_{name}", len(graphs)) for name in ("exercise", "language"))
    solution = columns.array("graph_is_solution", "b", len(graphs)).tolist()

    def flow(number: int, nodes: Sequence[Node], edges: Sequence[Edge]) -> Reading:
        about = {"exercise": str(exercise[number]), "language": str(language[number])}
        return closed(
            nodes,
            edges,
            BPMN,
            opens={node.id for node in nodes if node.kind.startswith("startEvent")},
            closes={node.id for node in nodes if node.kind.startswith("endEvent")},
            attributes=about | ({"solution": "yes"} if solution[number] else {}),
        )

    order = sorted(range(len(graphs)), key=lambda graph: (exercise[graph], language[graph]))
    placed = [(graph, f"exercise {exercise[graph]}, language {language[graph]}") for graph in order]
    return _corpus(graphs, nodes, edges, flow, placed, BPMN, "BPMN models")


def _corpus(
    graphs: _Graphs,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    flow: Callable[[int, Sequence[Node], Sequence[Edge]], Reading],
    placed: Sequence[tuple[int, str]],
    dialect: Dialect,
    title: str,
) -> Corpus:
    """All graphs as flows, by the organisations that hold them."""
    held: dict[str, list[Flow]] = {}
    self_loops = merged = 0
    for graph, organisation in placed:
        reading = flow(graph, nodes[slice(*graphs.nodes[graph])], edges[slice(*graphs.edges[graph])])
        held.setdefault(organisation, []).append(reading.flow)
        self_loops += reading.self_loops
        merged += reading.merged
    organisations = tuple(Organisation(name, tuple(flows)) for name, flows in held.items())
    return Corpus(organisations, dialect, title, self_loops, merged)


def _titles(columns: Columns, count: int) -> list[str]:
    path = columns.path.with_name(N8N_TITLES)
    if not path.is_file():
        return [""] * count
    titles = _unzipped(path).decode("utf-8", "replace").removesuffix("\n").split("\n")
    if len(titles) != count:
        raise FedloomError(f"{path} has {len(titles):,} titles for {count:,} flows: download both files again.")
    return titles


def _unzipped(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise FedloomError(f"{path} is not a readable .gz file: make or download it again.") from error
