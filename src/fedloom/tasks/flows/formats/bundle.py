"""A corpus of flows in one file of ours: an ``.npz`` of plain arrays that keeps everything as it is.

Every text is stored once and every set of attributes once; nodes, edges and flows are numbers that point at them. What
is written keeps the rules of its dialect, and the dialect travels with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.data.folder import write_arrays
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.columns import Columns
from fedloom.tasks.flows.formats.plain import Place, parse
from fedloom.tasks.flows.rules import Dialect, validate

FORMAT, VERSION = "fedloom-flows", 1
_ARRAYS = (
    "header", "texts", "organisation_name", "organisation_flows", "organisation_extra", "set_ptr", "set_key",
    "set_value", "flow_name", "flow_set", "node_ptr", "node_id", "node_kind", "node_set", "edge_ptr", "edge_source",
    "edge_target", "edge_label", "edge_set",
)  # fmt: skip


class _Numbered(dict[Any, int]):
    """Things in the order they are first met, by number."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number


def write_packed(corpus: Corpus, path: str | Path) -> None:
    """Write a corpus to one file; a flow that breaks a rule of the corpus' dialect is refused."""
    texts, sets = _Numbered(), _Numbered()
    columns: dict[str, list[int]] = {name: [] for name in _ARRAYS[2:]}
    columns["node_ptr"].append(0)
    columns["edge_ptr"].append(0)
    for organisation in corpus.organisations:
        columns["organisation_name"].append(texts[organisation.name])
        columns["organisation_flows"].append(len(organisation.flows))
        columns["organisation_extra"].append(len(organisation.extra))
        for flow in (*organisation.flows, *organisation.extra):
            validate(flow, corpus.dialect)
            _write_flow(flow, columns, texts, sets)
    columns["set_ptr"].append(0)
    for pairs in sets:
        columns["set_key"] += (texts[key] for key, _ in pairs)
        columns["set_value"] += (texts[value] for _, value in pairs)
        columns["set_ptr"].append(len(columns["set_key"]))
    header = {"format": FORMAT, "version": VERSION, "dialect": written(corpus.dialect), "title": corpus.title}
    header |= {"self_loops": corpus.self_loops, "merged": corpus.merged}
    arrays = {name: np.array(values, np.int32) for name, values in columns.items()}
    write_arrays(Path(path), {"header": _coded(header), "texts": _coded(list(texts)), **arrays})


def _write_flow(flow: Flow, columns: dict[str, list[int]], texts: _Numbered, sets: _Numbered) -> None:
    place = {node.id: number for number, node in enumerate(flow.nodes)}
    columns["flow_name"].append(texts[flow.name])
    columns["flow_set"].append(sets[_pairs(flow.attributes)])
    columns["node_id"] += (texts[node.id] for node in flow.nodes)
    columns["node_kind"] += (texts[node.kind] for node in flow.nodes)
    columns["node_set"] += (sets[_pairs(node.attributes)] for node in flow.nodes)
    columns["node_ptr"].append(len(columns["node_id"]))
    columns["edge_source"] += (place[edge.source] for edge in flow.edges)
    columns["edge_target"] += (place[edge.target] for edge in flow.edges)
    columns["edge_label"] += (texts[edge.label] for edge in flow.edges)
    columns["edge_set"] += (sets[_pairs(edge.attributes)] for edge in flow.edges)
    columns["edge_ptr"].append(len(columns["edge_label"]))


def read_packed(path: str | Path) -> Corpus:
    """Read a corpus that `write_packed` wrote."""
    columns = Columns(Path(path), _ARRAYS)
    header = _decoded(columns, "header")
    if header.field("format").text() != FORMAT or header.field("version").value != VERSION:
        raise header.wrong(f"this Fedloom reads packed flows of the format '{FORMAT}', version {VERSION}")
    texts = [place.text() for place in _decoded(columns, "texts").items()]
    ranges, entries = columns.ranges("set_ptr")
    keys, values = (columns.numbers(f"set_{name}", entries, len(texts)) for name in ("key", "value"))
    sets = [{texts[keys[i]]: texts[values[i]] for i in range(first, last)} for first, last in ranges]
    flows = _flows(columns, texts, sets)
    organisations = []
    names = columns.numbers("organisation_name", below=len(texts))
    held, extra = (columns.numbers(f"organisation_{name}", len(names)) for name in ("flows", "extra"))
    if sum(held) + sum(extra) != len(flows):
        raise columns.wrong("organisation_flows", f"does not share out {len(flows):,} flows")
    first = 0
    for name, own, tested in zip(names, held, extra, strict=True):
        middle, last = first + own, first + own + tested
        organisations.append(Organisation(texts[name], tuple(flows[first:middle]), tuple(flows[middle:last])))
        first = last
    counts = (_count(header.field(name)) for name in ("self_loops", "merged"))
    return Corpus(tuple(organisations), dialect_at(header.field("dialect")), header.field("title").text(), *counts)


def _flows(columns: Columns, texts: list[str], sets: list[dict[str, str]]) -> list[Flow]:
    names = columns.numbers("flow_name", below=len(texts))
    attributes = columns.numbers("flow_set", len(names), len(sets))
    nodes, count = columns.ranges("node_ptr", len(names))
    edges, joins = columns.ranges("edge_ptr", len(names))
    described = zip(
        columns.numbers("node_id", count, len(texts)),
        columns.numbers("node_kind", count, len(texts)),
        columns.numbers("node_set", count, len(sets)),
        strict=True,
    )
    all_nodes = [Node(texts[name], texts[kind], sets[more]) for name, kind, more in described]
    ends = (columns.local(name, edges, nodes) for name in ("edge_source", "edge_target"))
    joined = list(
        zip(
            *ends,
            columns.numbers("edge_label", joins, len(texts)),
            columns.numbers("edge_set", joins, len(sets)),
            strict=True,
        )
    )
    flows = []
    for name, about, (first, last), (begin, end) in zip(names, attributes, nodes, edges, strict=True):
        own = tuple(all_nodes[first:last])
        links = tuple(Edge(own[a].id, own[b].id, texts[label], sets[more]) for a, b, label, more in joined[begin:end])
        flows.append(Flow(own, links, sets[about], texts[name]))
    return flows


def written(dialect: Dialect) -> dict[str, object]:
    """A dialect in plain values, ready for JSON."""
    return {key: sorted(value) if isinstance(value, frozenset) else value for key, value in vars(dialect).items()}


def dialect_at(place: Place) -> Dialect:
    """The dialect that was `written` there."""
    kinds, cycles = place.field("kinds"), place.field("cycles")
    if cycles.value not in ("none", "loops", "anywhere"):
        raise cycles.wrong("cycles are 'none', 'loops' or 'anywhere'")
    return Dialect(
        place.field("name").text(),
        place.field("start").text(),
        _words(place.field("ends")),
        None if kinds.value is None else _words(kinds),
        cycles.value,
        _words(place.field("loops")),
        place.field("plain").text(),
    )


def _words(place: Place) -> frozenset[str]:
    return frozenset(item.text() for item in place.items())


def _count(place: Place) -> int:
    if type(place.value) is not int:
        raise place.wrong("a count is a whole number")
    return place.value


def _pairs(attributes: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return tuple(sorted(attributes.items()))


def _coded(value: object) -> np.ndarray:
    """Anything JSON can say, as bytes in an array: numpy's own texts would all be as wide as the longest."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)


def _decoded(columns: Columns, name: str) -> Place:
    found = columns.array(name, "u")
    if found.dtype != np.uint8:
        raise columns.wrong(name, "is not a list of bytes")
    return parse(found.tobytes(), f"{columns.path}, {name}")
