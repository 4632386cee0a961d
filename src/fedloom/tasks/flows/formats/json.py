"""Flow files: our own JSON format, and reading a flow from any file we know by looking at what is inside.

Our format is written to be read: one line per node and per edge (docs/flows.md, "The JSON format"). Reading gives the
flow as it stands in the file, broken or not: `rules.validate` says whether it keeps the rules. What is no flow at all
(text that is no JSON, a field nobody knows, a number where a text should be) is refused with its place in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedloom.core.errors import FedloomError, unknown
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.formats.bpmn import from_bpmn
from fedloom.tasks.flows.formats.closing import Reading
from fedloom.tasks.flows.formats.n8n import from_n8n, is_n8n
from fedloom.tasks.flows.formats.plain import Place, parse
from fedloom.tasks.flows.rules import DIALECTS, Dialect

FORMAT, VERSION = "fedloom-flow", 1
LARGEST = 16 << 20
"""The most bytes that a file of one flow may have; real ones have a few thousand."""

_TOP = ("format", "version", "dialect", "name", "attributes", "nodes", "edges")
_NODE = ("id", "kind", "attributes")
_EDGE = ("source", "target", "label", "attributes")


def read(path: str | Path, dialect: Dialect | None = None) -> Reading:
    """Read a flow from a file of our JSON format, an n8n export or a BPMN 2.0 file, told apart by their content.

    With ``dialect`` the file must be of that dialect (by name), which may be one of your own.
    """
    return _read(Path(path), dialect, draft=False)


def read_draft(path: str | Path, dialect: Dialect | None = None) -> Reading:
    """The same for a flow under construction: what has no end yet stays open (see `rules.validate_draft`)."""
    return _read(Path(path), dialect, draft=True)


def _read(path: Path, dialect: Dialect | None, draft: bool) -> Reading:
    known = {**DIALECTS, **({} if dialect is None else {dialect.name: dialect})}
    reading = from_bytes(_bytes(path), str(path), known, draft)
    if dialect is None:
        return reading
    if reading.dialect.name != dialect.name:
        raise FedloomError(f"{path} is a flow of the dialect '{reading.dialect.name}' and not of '{dialect.name}'.")
    return Reading(reading.flow, dialect, reading.self_loops, reading.merged)


def from_bytes(data: bytes, file: str, dialects: Mapping[str, Dialect] = DIALECTS, draft: bool = False) -> Reading:
    """The flow in the bytes of a file of any format; ``file`` is what errors call it."""
    if looks_like_xml(data):
        return from_bpmn(data, file, draft)
    place = parse(data, file)
    if isinstance(place.value, dict) and "format" in place.value:
        found = place.field("format")
        if found.text() != FORMAT:
            raise found.wrong(f"'{brief(found.text())}' is no format of a flow that Fedloom knows: ours is '{FORMAT}'")
        return from_json(place, dialects)
    if is_n8n(place):
        return from_n8n(place, draft)
    raise FedloomError(
        f'{file} is JSON, but no flow: neither "format": "{FORMAT}" stands in it nor an n8n workflow\'s nodes and '
        "connections."
    )


def read_flow(path: str | Path, dialect: Dialect | None = None) -> tuple[Flow, Dialect]:
    """The flow in a file and its dialect; `read` also says what reading it dropped and merged."""
    reading = read(path, dialect)
    return reading.flow, reading.dialect


def write_flow(path: str | Path, flow: Flow, dialect: Dialect) -> None:
    """Write a flow in our JSON format."""
    try:
        Path(path).write_text(to_json(flow, dialect), encoding="utf-8")
    except OSError as error:
        raise FedloomError(f"{path} cannot be written ({error.strerror}): name another place.") from None


def to_json(flow: Flow, dialect: Dialect) -> str:
    """A flow in our JSON format; empty names, labels and attributes are left out."""
    head = {"format": FORMAT, "version": VERSION, "dialect": dialect.name, **_said(name=flow.name)}
    lines = [f"  {_dump(key)}: {_dump(value)}," for key, value in (head | _said(attributes=flow.attributes)).items()]
    nodes = [{"id": n.id, "kind": n.kind, **_said(attributes=n.attributes)} for n in flow.nodes]
    edges = [
        {"source": e.source, "target": e.target, **_said(label=e.label, attributes=e.attributes)} for e in flow.edges
    ]
    return "\n".join(["{", *lines, f'  "nodes": {_rows(nodes)},', f'  "edges": {_rows(edges)}', "}"]) + "\n"


def from_json(file: Place, dialects: Mapping[str, Dialect] = DIALECTS) -> Reading:
    """The flow that a file of our JSON format holds."""
    top = _only(file, _TOP)
    version = file.field("version").value
    if type(version) is not int or version != VERSION:
        raise top["version"].wrong(f"this Fedloom reads version {VERSION} of the format and no other")
    name = file.field("dialect").text()
    if name not in dialects:
        raise top["dialect"].wrong(str(unknown("dialect", brief(name), dialects)).removesuffix("."))
    nodes = []
    for place in file.field("nodes").items():
        found = _only(place, _NODE)
        nodes.append(Node(place.field("id").text(), place.field("kind").text(), _texts(found)))
    edges = []
    for place in file.field("edges").items():
        found = _only(place, _EDGE)
        label = found["label"].text() if "label" in found else ""
        edges.append(Edge(place.field("source").text(), place.field("target").text(), label, _texts(found)))
    title = top["name"].text() if "name" in top else ""
    return Reading(Flow(tuple(nodes), tuple(edges), _texts(top), title), dialects[name])


def looks_like_xml(data: bytes) -> bool:
    """Whether the first thing in a file is an angle bracket, in UTF-8 or UTF-16."""
    start = data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
    return start[:1] == b"<" or start[:4] in (b"\xff\xfe<\x00", b"\xfe\xff\x00<")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except IsADirectoryError:
        raise FedloomError(f"{path} is a folder: name one file.") from None
    except FileNotFoundError:
        raise FedloomError(f"there is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise FedloomError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if len(data) > LARGEST:
        raise FedloomError(f"{path} has more than {LARGEST >> 20} MB, which is too much for one flow.")
    return data


def _only(place: Place, known: Iterable[str]) -> dict[str, Place]:
    """The fields of an object that has no others than these."""
    fields = place.fields()
    for name, found in fields.items():
        if name not in known:
            raise found.wrong(str(unknown("field", brief(name), known)).removesuffix("."))
    return fields


def _texts(fields: Mapping[str, Place]) -> dict[str, str]:
    return fields["attributes"].texts() if "attributes" in fields else {}


def _said(**values: object) -> dict[str, object]:
    return {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items() if value}


def _rows(values: list[dict[str, object]]) -> str:
    return "[\n" + ",\n".join(f"    {_dump(value)}" for value in values) + "\n  ]" if values else "[]"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
