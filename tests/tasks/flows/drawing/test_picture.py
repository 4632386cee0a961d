"""A picture is complete, has the format of its ending and is the same every time."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.drawing.kind_families import FAMILIES, family, short_kind
from fedloom.tasks.flows.drawing.picture import COLOURS, MOST_EDGES, MOST_NODES, draw_flow
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.read_flow import read_flow
from fedloom.tasks.flows.platform_kinds import KINDS
from fedloom.tasks.flows.rules import N8N, PLATFORM
from support.paths import FLOW_EXAMPLES

EXAMPLES = sorted(FLOW_EXAMPLES.iterdir())


def texts_of(flow: Flow, path: Path) -> str:
    draw_flow(flow, N8N, path)
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text()))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_node_and_label_is_in_the_picture(path: Path, tmp_path: Path) -> None:
    flow, dialect = read_flow(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_flow(flow, dialect, tmp_path / "p.svg")
    text = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "p.svg").read_text()))
    for node in flow.nodes:
        assert short_kind(node.kind).split(":")[0] in text
        assert node.attributes.get("name", node.id) in text or node.kind in ("Start", "End")
    for edge in flow.edges:
        assert edge.label == "main" or edge.label.removeprefix("ai_") in text
    assert flow.name in text


def test_formats_go_by_the_ending_and_others_are_refused(tmp_path: Path) -> None:
    flow, dialect = read_flow(EXAMPLES[0])
    draw_flow(flow, dialect, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with pytest.raises(FedloomError, match=r"\.png, \.svg, \.pdf"):
        draw_flow(flow, dialect, tmp_path / "p.doc")
    with pytest.raises(FedloomError, match="cannot be written"):
        draw_flow(flow, dialect, tmp_path / "no" / "p.svg")


def test_the_same_flow_gives_the_same_bytes_whatever_the_callers_style(tmp_path: Path) -> None:
    flow, dialect = read_flow(EXAMPLES[0])
    draw_flow(flow, dialect, tmp_path / "a.svg")
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "figure.facecolor": "red"}):
        draw_flow(flow, dialect, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_names_that_no_font_has_and_names_that_are_mathematics_are_drawn_without_a_word(tmp_path: Path) -> None:
    nodes = (Node("s", "Start"), Node("🚀 Rocket $x^2$ 漢字 \x1b", "k"), Node("x" * 500, "y" * 500), Node("\x00", "\n"))
    flow = Flow(nodes, tuple(Edge("s", node.id, "🚀") for node in nodes[1:]), name="🚀")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "Rocket $x^2$" in texts_of(flow, tmp_path / "p.svg")


def test_a_draft_is_drawn_and_a_broken_flow_is_refused_with_its_rule(tmp_path: Path) -> None:
    texts_of(Flow((Node("s", "Start"),), ()), tmp_path / "p.svg")
    with pytest.raises(FedloomError, match="one start"):
        draw_flow(Flow((Node("a", "If"),), ()), PLATFORM)


def test_a_flow_that_no_page_holds_is_refused() -> None:
    many = tuple(Node(str(i), "k") for i in range(MOST_NODES))
    wide = Flow((Node("s", "Start"), *many), tuple(Edge("s", node.id) for node in many))
    with pytest.raises(FedloomError, match="at most 400"):
        draw_flow(wide, N8N)
    few = many[:40]
    dense = [Edge("s", "0"), *(Edge(a.id, b.id) for a in few for b in few if a is not b)]
    with pytest.raises(FedloomError, match=f"at most {MOST_EDGES}"):
        draw_flow(Flow((Node("s", "Start"), *few), tuple(dense)), N8N)


def test_every_family_has_a_colour_and_every_kind_a_family() -> None:
    assert len(set(COLOURS.values())) == len(FAMILIES)
    assert {family(kind) for kind in KINDS} == set(FAMILIES) - {"AI"}
    for kind, expected in {
        "n8n-nodes-base.if": "decision",
        "n8n-nodes-base.scheduleTrigger": "event",
        "@n8n/n8n-nodes-langchain.agent": "AI",
        "@n8n/n8n-nodes-langchain.chatTrigger": "event",
        "n8n-nodes-base.httpRequest": "action",
        "exclusiveGateway": "decision",
        "startEvent:message": "event",
        "boundaryEvent:error": "error",
        "userTask": "action",
    }.items():
        assert family(kind) == expected


def test_looking_at_a_flow_imports_neither_torch_nor_matplotlib() -> None:
    code = "import sys, fedloom.tasks.flows; print([m for m in ('torch', 'numpy', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
