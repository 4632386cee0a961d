"""Flows survive Fedloom's JSON format; what is not a flow is refused with its place in the file; nothing crashes."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.drawing.outline import outline
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.flow_json import to_json, write_flow
from fedloom.tasks.flows.formats.read_flow import LARGEST, from_bytes, read, read_flow
from fedloom.tasks.flows.rules import BPMN, DIALECTS, N8N, PLATFORM, Dialect, validate
from support.paths import DOCS, FLOW_EXAMPLES

EXAMPLES = sorted(FLOW_EXAMPLES.iterdir())
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
ATTRIBUTES = st.dictionaries(TEXTS, TEXTS, max_size=3)
FLOWS = st.builds(
    Flow,
    st.lists(st.builds(Node, TEXTS, TEXTS, ATTRIBUTES), max_size=5).map(tuple),
    st.lists(st.builds(Edge, TEXTS, TEXTS, TEXTS, ATTRIBUTES), max_size=5).map(tuple),
    ATTRIBUTES,
    TEXTS,
)


def small(**changes: object) -> dict[str, object]:
    """A small valid file of our format, as plain values."""
    return {
        "format": "fedloom-flow",
        "version": 1,
        "dialect": "platform",
        "nodes": [{"id": "s", "kind": "Start"}, {"id": "e", "kind": "End"}],
        "edges": [{"source": "s", "target": "e"}],
    } | changes


def read_and_validate(data: bytes) -> None:
    reading = from_bytes(data, "f.json")
    validate(reading.flow, reading.dialect)


def refusal(data: object) -> str:
    """The error message of a file."""
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    with pytest.raises(FedloomError) as error:
        read_and_validate(text)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_flows_and_come_back_the_same_through_our_format(path: Path, tmp_path: Path) -> None:
    flow, dialect = read_flow(path)
    validate(flow, dialect)
    write_flow(tmp_path / "f.json", flow, dialect)
    assert read_flow(tmp_path / "f.json") == (flow, dialect)


@given(FLOWS, st.sampled_from([PLATFORM, N8N, BPMN]))
@settings(max_examples=50, deadline=None)
def test_any_flow_comes_back_the_same_broken_or_not(flow: Flow, dialect: Dialect) -> None:
    reading = from_bytes(to_json(flow, dialect).encode(), "f.json")
    assert (reading.flow, reading.dialect) == (flow, dialect)


def test_a_file_of_our_format_is_written_to_be_read() -> None:
    flow = from_bytes(json.dumps(small(name="Tiny")).encode(), "f.json").flow
    assert to_json(flow, PLATFORM).splitlines() == [
        "{",
        '  "format": "fedloom-flow",',
        '  "version": 1,',
        '  "dialect": "platform",',
        '  "name": "Tiny",',
        '  "nodes": [',
        '    {"id": "s", "kind": "Start"},',
        '    {"id": "e", "kind": "End"}',
        "  ],",
        '  "edges": [',
        '    {"source": "s", "target": "e"}',
        "  ]",
        "}",
    ]


def test_broken_text_is_refused_with_line_and_column() -> None:
    text = to_json(Flow((Node("s", "Start"),), ()), PLATFORM)
    assert "f.json, line 6, column" in refusal(text[: text.index('"kind"') + 3].encode())
    assert "line 1, column 1" in refusal(b"")
    assert "line 2, column 1" in refusal(b'{"format": "fedloom-flow",\n,}')


def test_what_only_a_machine_would_write_is_refusal() -> None:
    assert "nested too deeply" in refusal(b"[" * 100_000)
    assert "'id' occurs twice" in refusal(b'{"format": "fedloom-flow", "nodes": [{"id": "a", "id": "b"}]}')
    assert "NaN" in refusal(b'{"version": NaN}')
    assert "not UTF-8" in refusal(b'{"format": "\xff"}')
    assert "Unicode" in refusal(b'{"format": "fedloom-flow", "version": 1, "dialect": "\\ud800"}')
    assert "10,000 digits" in refusal(b"1" * 10_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": [{"id": "s", "kind": 3}]}, "at nodes[0].kind: expected a text, got a number"),
        ({"nodes": [{"id": "s"}]}, "at nodes[0]: the field 'kind' is missing"),
        ({"nodes": {}}, "at nodes: expected a list, got an object"),
        ({"nodes": [["s", "Start"]]}, "at nodes[0]: expected an object, got a list"),
        ({"edges": [{"source": "s", "target": None}]}, "at edges[0].target: expected a text, got null"),
        ({"edges": [{"source": "s", "target": "e", "lable": ""}]}, "at edges[0].lable: unknown field 'lable'. Did you"),
        ({"attributes": {"a b": True}}, 'at attributes."a b": expected a text, got true or false'),
        ({"author": "me"}, "at author: unknown field 'author'"),
        ({"version": 2}, "at version: this Fedloom reads only version 1"),
        ({"version": True}, "at version"),
        ({"dialect": "platfrom"}, "Did you mean 'platform'?"),
        ({"format": "other"}, "at format: Fedloom knows no flow format 'other'"),
    ],
)
def test_a_wrong_field_is_refused_with_its_path(change: dict[str, object], message: str) -> None:
    assert message in refusal(small(**change))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"edges": [{"source": "s", "target": "e"}, {"source": "s", "target": "x"}]}, "no dangling edges"),
        (
            {"nodes": [{"id": "s", "kind": "Start"}, {"id": "t", "kind": "Start"}, {"id": "e", "kind": "End"}]},
            "one start",
        ),
        ({"nodes": [{"id": "s", "kind": "Start"}, {"id": "e", "kind": "Fin"}]}, "known kinds"),
        (
            {
                "nodes": [{"id": n, "kind": k} for n, k in (("s", "Start"), ("a", "If"), ("b", "If"), ("e", "End"))],
                "edges": [{"source": p[0], "target": p[1]} for p in ("sa", "ab", "ba", "be")],
            },
            "cycles",
        ),
    ],
)
def test_a_broken_flow_is_refused_with_its_rule(change: dict[str, object], rule: str) -> None:
    assert f"the rule '{rule}' is broken" in refusal(small(**change))


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "JSON, but not a flow" in refusal({"hello": 1})
    assert "JSON, but not a flow" in refusal([])
    with pytest.raises(FedloomError, match="there is no file"):
        read(tmp_path / "none.json")
    with pytest.raises(FedloomError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(FedloomError, match="cannot be read"):
        read("a\0b")
    (tmp_path / "big.json").write_bytes(b" " * (LARGEST + 1))
    with pytest.raises(FedloomError, match="more than 16 MB"):
        read(tmp_path / "big.json")
    with pytest.raises(FedloomError, match="cannot be written"):
        write_flow(tmp_path / "no" / "f.json", Flow((), ()), PLATFORM)


def test_a_user_defined_dialect_is_read_by_its_name(tmp_path: Path) -> None:
    own = Dialect("mine", "Go", frozenset({"Stop"}), frozenset({"Go", "Stop"}), "none")
    flow = Flow((Node("a", "Go"), Node("b", "Stop")), (Edge("a", "b"),))
    write_flow(tmp_path / "f.json", flow, own)
    assert read_flow(tmp_path / "f.json", own) == (flow, own)
    with pytest.raises(FedloomError, match="unknown dialect 'mine'"):
        read(tmp_path / "f.json")
    with pytest.raises(FedloomError, match="of the dialect 'n8n', not of 'mine'"):
        read(EXAMPLES[-1], own)


def attempt(data: bytes) -> None:
    """Do with the bytes of a file all that a user can do with a file; only a sentence may stop it."""
    try:
        reading = from_bytes(data, "f")
        outline(reading.flow, reading.dialect).encode()
        again = from_bytes(to_json(reading.flow, reading.dialect).encode(), "f")
        assert again.flow == reading.flow
        validate(reading.flow, reading.dialect)
    except FedloomError as error:
        str(error).encode()


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=150, deadline=None)
def test_arbitrary_bytes_crash_nothing(data: bytes) -> None:
    attempt(data)
    attempt(b'{"nodes": ' + data + b', "connections": {}}')
    attempt(b"<" + data)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["s", "End", "main", "ai_tool", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "kind", "name", "type", "node", "main"]), inner, max_size=4)
    ),
    max_leaves=6,
)


@given(st.sampled_from(["nodes", "edges", "attributes", "version", "dialect", "name", "connections"]), JSON)
@settings(max_examples=100, deadline=None)
def test_any_value_in_any_field_crashes_nothing(field: str, value: object) -> None:
    attempt(json.dumps(small(**{field: value})).encode())
    attempt(json.dumps({"nodes": [{"name": "s", "type": "t"}], "connections": {}, field: value}).encode())
    attempt(json.dumps({"nodes": [{"name": "s", "type": "t", field: value}], "connections": {"s": value}}).encode())


PIECES = st.sampled_from(
    [
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"<",
        b"/>",
        b"&x;",
        b"null",
        b"-1",
        b"1e999",
        b"\\u0000",
        b"\xf0",
        b"\0",
    ]
)


@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), PIECES | st.just(b"")), min_size=1, max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_damaged_files_crash_nothing(path: Path, damages: list[tuple[float, int, bytes]]) -> None:
    data = path.read_bytes()
    for where, lost, piece in damages:
        place = int(where * len(data))
        data = data[:place] + piece + data[place + lost :]
    attempt(data)


def test_every_way_to_cut_a_file_short_is_refusal() -> None:
    for path in EXAMPLES:
        data = path.read_bytes().rstrip()
        for end in range(0, len(data) - 1, max(1, len(data) // 40)):
            assert "f.json" in refusal(data[:end])


def test_the_example_of_the_page_is_a_flow_written_as_we_write_it() -> None:
    page = (DOCS / "flows.md").read_text()
    text = page.split("```json\n")[1].split("```")[0]
    reading = from_bytes(text.encode(), "flows.md")
    validate(reading.flow, reading.dialect)
    assert to_json(reading.flow, reading.dialect) == text


def test_dialects_are_known_by_their_names() -> None:
    assert {name: dialect.name for name, dialect in DIALECTS.items()} == {n: n for n in ("platform", "n8n", "bpmn")}
