"""A corpus of flows in one file: an ``.npz`` of plain arrays that holds everything and loses nothing.

Every text is stored once and every set of attributes once; nodes, edges and flows are numbers that refer to them. The
dialect is stored too, and only flows that keep its rules are written. Arrays are checked when they are read: an error
names the array whose numbers refer to nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.folder import read_arrays, write_arrays
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.flow_json import dialect_from_json, dialect_to_json
from fedloom.tasks.flows.formats.json_values import JsonValue, parse_json
from fedloom.tasks.flows.rules import validate

FORMAT, VERSION = "fedloom-flows", 1
_ARRAYS = (
    "header", "texts", "organisation_name", "organisation_flows", "organisation_extra", "set_ptr", "set_key",
    "set_value", "flow_name", "flow_set", "node_ptr", "node_id", "node_kind", "node_set", "edge_ptr", "edge_source",
    "edge_target", "edge_label", "edge_set",
)  # fmt: skip

Range = tuple[int, int]


class PackedArrays:
    """The arrays of one packed file, checked when they are read."""

    def __init__(self, path: Path, needed: Sequence[str]) -> None:
        self.path = path
        self._arrays = read_arrays(path, needed, ())

    def error(self, name: str, what: str) -> FedloomError:
        """The error that something is wrong with an array."""
        return FedloomError(f"{self.path}: the array '{name}' {what}: make or download the file again.")

    def array(self, name: str, kinds: str, length: int | None = None) -> np.ndarray:
        """An array as it is: with one dimension, of one of these kinds (numpy's letters) and of this length."""
        array = self._arrays[name]
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise self.error(name, f"is not a plain list of {'texts' if kinds == 'U' else 'numbers'}")
        if length is not None and len(array) != length:
            raise self.error(name, f"has {len(array):,} entries instead of {length:,}")
        return array

    def numbers(self, name: str, length: int | None = None, below: int | None = None, least: int = 0) -> list[int]:
        """Whole numbers from ``least`` to below a bound."""
        array = self.array(name, "iu", length)
        if len(array) and (int(array.min()) < least or (below is not None and int(array.max()) >= below)):
            bound = "" if below is None else f" to {below - 1:,}"
            raise self.error(name, f"has numbers outside {least}{bound}")
        numbers: list[int] = array.tolist()
        return numbers

    def ranges(self, name: str, length: int | None = None) -> tuple[list[Range], int]:
        """The first and last index of each part of a list, and the length that the list must have."""
        array = self.array(name, "iu", None if length is None else length + 1).astype(np.int64)
        if not len(array) or array[0] != 0 or (np.diff(array) < 0).any():
            raise self.error(name, "does not rise from 0")
        return list(pairwise(array.tolist())), int(array[-1])

    def node_numbers(self, name: str, edges: Sequence[Range], nodes: Sequence[Range]) -> list[int]:
        """Numbers of nodes, one per edge, each within the nodes of the edge's own graph."""
        array = self.array(name, "iu", edges[-1][1] if edges else 0).astype(np.int64)
        sizes = np.array([last - first for first, last in nodes], np.int64)
        below = np.repeat(sizes, [last - first for first, last in edges])
        if ((array < 0) | (array >= below)).any():
            raise self.error(name, "refers to nodes that do not exist")
        numbers: list[int] = array.tolist()
        return numbers

    def json(self, name: str) -> JsonValue:
        """The JSON value in an array of bytes."""
        array = self.array(name, "u")
        if array.dtype != np.uint8:
            raise self.error(name, "is not a list of bytes")
        return parse_json(array.tobytes(), f"{self.path}, {name}")


class _Numbering(dict[Any, int]):
    """Numbers things in the order of their first look-up."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number


def write_packed(corpus: Corpus, path: str | Path) -> None:
    """Write a corpus to one file; a flow that breaks a rule of the corpus' dialect is refused."""
    texts, sets = _Numbering(), _Numbering()
    columns: dict[str, list[int]] = {name: [] for name in _ARRAYS[2:]}
    columns["node_ptr"].append(0)
    columns["edge_ptr"].append(0)
    for organisation in corpus.organisations:
        columns["organisation_name"].append(texts[organisation.name])
        columns["organisation_flows"].append(len(organisation.flows))
        columns["organisation_extra"].append(len(organisation.extra))
        for flow in (*organisation.flows, *organisation.extra):
            validate(flow, corpus.dialect)
            _append_flow(flow, columns, texts, sets)
    columns["set_ptr"].append(0)
    for pairs in sets:
        columns["set_key"] += (texts[key] for key, _ in pairs)
        columns["set_value"] += (texts[value] for _, value in pairs)
        columns["set_ptr"].append(len(columns["set_key"]))
    header = {"format": FORMAT, "version": VERSION, "dialect": dialect_to_json(corpus.dialect), "title": corpus.title}
    header |= {"self_loops": corpus.self_loops, "merged": corpus.merged}
    arrays = {name: np.array(values, np.int32) for name, values in columns.items()}
    write_arrays(Path(path), {"header": _json_bytes(header), "texts": _json_bytes(list(texts)), **arrays})


def _append_flow(flow: Flow, columns: dict[str, list[int]], texts: _Numbering, sets: _Numbering) -> None:
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
    arrays = PackedArrays(Path(path), _ARRAYS)
    header = arrays.json("header")
    if header.field("format").text() != FORMAT or header.field("version").value != VERSION:
        raise header.error(f"this Fedloom reads packed flows of the format '{FORMAT}', version {VERSION}")
    texts = [value.text() for value in arrays.json("texts").items()]
    ranges, entries = arrays.ranges("set_ptr")
    keys, values = (arrays.numbers(f"set_{name}", entries, len(texts)) for name in ("key", "value"))
    sets = [{texts[keys[i]]: texts[values[i]] for i in range(first, last)} for first, last in ranges]
    flows = _flows(arrays, texts, sets)
    names = arrays.numbers("organisation_name", below=len(texts))
    counts, extra_counts = (arrays.numbers(f"organisation_{name}", len(names)) for name in ("flows", "extra"))
    if sum(counts) + sum(extra_counts) != len(flows):
        raise arrays.error("organisation_flows", f"does not add up to {len(flows):,} flows")
    organisations = []
    first = 0
    for name, count, extra in zip(names, counts, extra_counts, strict=True):
        middle, last = first + count, first + count + extra
        organisations.append(Organisation(texts[name], tuple(flows[first:middle]), tuple(flows[middle:last])))
        first = last
    changes = (_whole_number(header.field(name)) for name in ("self_loops", "merged"))
    dialect = dialect_from_json(header.field("dialect"))
    return Corpus(tuple(organisations), dialect, header.field("title").text(), *changes)


def _flows(arrays: PackedArrays, texts: list[str], sets: list[dict[str, str]]) -> list[Flow]:
    names = arrays.numbers("flow_name", below=len(texts))
    attributes = arrays.numbers("flow_set", len(names), len(sets))
    nodes, node_count = arrays.ranges("node_ptr", len(names))
    edges, edge_count = arrays.ranges("edge_ptr", len(names))
    node_rows = zip(
        arrays.numbers("node_id", node_count, len(texts)),
        arrays.numbers("node_kind", node_count, len(texts)),
        arrays.numbers("node_set", node_count, len(sets)),
        strict=True,
    )
    all_nodes = [Node(texts[name], texts[kind], sets[number]) for name, kind, number in node_rows]
    edge_rows = list(
        zip(
            arrays.node_numbers("edge_source", edges, nodes),
            arrays.node_numbers("edge_target", edges, nodes),
            arrays.numbers("edge_label", edge_count, len(texts)),
            arrays.numbers("edge_set", edge_count, len(sets)),
            strict=True,
        )
    )
    flows = []
    for name, number, (first, last), (begin, end) in zip(names, attributes, nodes, edges, strict=True):
        own = tuple(all_nodes[first:last])
        links = tuple(Edge(own[a].id, own[b].id, texts[label], sets[i]) for a, b, label, i in edge_rows[begin:end])
        flows.append(Flow(own, links, sets[number], texts[name]))
    return flows


def _whole_number(value: JsonValue) -> int:
    if type(value.value) is not int:
        raise value.error("expected a whole number")
    return value.value


def _pairs(attributes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(attributes.items()))


def _json_bytes(value: object) -> np.ndarray:
    """A value as JSON bytes in an array: in a numpy array of texts all would be as wide as the longest."""
    return np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)
