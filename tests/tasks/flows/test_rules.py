"""Every rule is named when it is broken, the first one first; what keeps the rules passes, however deep or many."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node, brief
from fedloom.tasks.flows.platform_kinds import KINDS
from fedloom.tasks.flows.rules import BPMN, DIALECTS, N8N, PLATFORM, RULES, Dialect, validate, validate_draft
from support.paths import DOCS


def flow(kinds: str, *arrows: str) -> Flow:
    """``flow("s:Start a:If e:End", "s>a", "a>e True")``."""
    nodes = tuple(Node(*pair.split(":")) for pair in kinds.split())
    edges = []
    for arrow in arrows:
        pair, _, label = arrow.partition(" ")
        edges.append(Edge(*pair.split(">"), label))
    return Flow(nodes, tuple(edges))


WHOLE = flow("s:Start a:If b:Assign e:End r:RaiseError", "s>a", "a>b True", "a>r False", "b>e")
LOOP = flow("s:Start f:ForEach a:Assign e:End", "s>f", "f>a Cycle", "a>f", "f>e")
ROUND = flow("s:Start a:If b:Assign e:End", "s>a", "a>b", "b>a", "a>e")


def broken_rule(made: Flow, dialect: Dialect = PLATFORM) -> str:
    """The rule that a flow breaks, checked to be one of the documented ones."""
    with pytest.raises(FedloomError) as error:
        validate(made, dialect)
    rule = str(error.value).split("'")[1]
    assert rule in RULES
    return rule


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_whole_flow_keeps_the_rules_of_every_dialect_that_has_its_ends(dialect: Dialect) -> None:
    made = WHOLE if dialect is PLATFORM else flow("s:Start a:x e:End", "s>a", "a>e")
    validate(made, dialect)


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (flow("s:Start a:Dance e:End", "s>a", "a>e"), "known kinds"),
        (flow("s:Start a:If a:Assign e:End", "s>a", "a>e"), "unique ids"),
        (flow("s:Start e:End", "s>e", "s>lost"), "no dangling edges"),
        (flow("s:Start e:End", "s>e", "lost>e"), "no dangling edges"),
        (flow("a:Assign e:End", "a>e"), "one start"),
        (Flow((), ()), "one start"),
        (flow("s:Start t:Start e:End", "s>e", "t>e"), "one start"),
        (flow("s:Start f:ForEach e:End", "s>f", "f>s", "f>e"), "one start"),
        (flow("s:Start e:End a:Assign", "s>e", "e>a", "a>e"), "terminal ends"),
        (flow("s:Start a:Assign", "s>a"), "terminal ends"),
        (flow("s:Start"), "terminal ends"),
        (flow("s:Start a:Assign e:End", "s>a", "a>a", "a>e"), "no self-loops"),
        (flow("s:Start a:If e:End", "s>a", "a>e True", "a>e False"), "no parallel edges"),
        (flow("s:Start e:End a:Assign f:End", "s>e", "a>f"), "connected"),
        (ROUND, "cycles"),
    ],
)
def test_a_broken_rule_is_named(made: Flow, rule: str) -> None:
    assert broken_rule(made) == rule


def test_the_first_of_several_broken_rules_is_named() -> None:
    """One flow that breaks all rules, mended rule by rule."""
    bad = flow("t:Start s:Start a:Dance b:If b:If e:End x:If", "s>a", "a>lost", "e>a", "a>b", "a>b", "b>a", "a>a")
    assert broken_rule(bad) == "known kinds"
    bad = replace(bad, nodes=tuple(replace(n, kind="If") if n.kind == "Dance" else n for n in bad.nodes))
    assert broken_rule(bad) == "unique ids"
    bad = replace(bad, nodes=(*bad.nodes[:4], *bad.nodes[5:]))
    assert broken_rule(bad) == "no dangling edges"
    bad = replace(bad, edges=tuple(e for e in bad.edges if e.target != "lost"))
    assert broken_rule(bad) == "one start"
    bad = replace(bad, nodes=bad.nodes[1:])
    assert broken_rule(bad) == "terminal ends"
    bad = replace(bad, edges=(*(e for e in bad.edges if e.source != "e"), Edge("a", "e"), Edge("x", "e")))
    assert broken_rule(bad) == "no self-loops"
    bad = replace(bad, edges=tuple(e for e in bad.edges if e.source != e.target))
    assert broken_rule(bad) == "no parallel edges"
    bad = replace(
        bad, edges=(*dict.fromkeys(bad.edges), Edge("y", "z")), nodes=(*bad.nodes, Node("y", "If"), Node("z", "End"))
    )
    assert broken_rule(bad) == "connected"
    bad = replace(bad, edges=(*bad.edges, Edge("a", "y")))
    assert broken_rule(bad) == "cycles"
    validate(
        replace(bad, edges=(*tuple(e for e in bad.edges if (e.source, e.target) != ("b", "a")), Edge("b", "e"))),
        PLATFORM,
    )


def test_the_node_or_edge_is_named() -> None:
    with pytest.raises(FedloomError, match=r"'lost'"):
        validate(flow("s:Start e:End", "s>e", "s>lost"), PLATFORM)
    with pytest.raises(FedloomError, match=r"in the flow 'Mine': the node 'a' \(Dance\)"):
        validate(replace(flow("s:Start a:Dance e:End", "s>a", "a>e"), name="Mine"), PLATFORM)
    with pytest.raises(FedloomError, match=r"'a' → 'b' → 'a'|'b' → 'a' → 'b'"):
        validate(ROUND, PLATFORM)


def test_cycles_are_allowed_where_the_dialect_allows_them() -> None:
    validate(LOOP, PLATFORM)
    validate(ROUND, N8N)
    validate(ROUND, BPMN)
    never = replace(PLATFORM, cycles="none")
    assert broken_rule(LOOP, never) == "cycles"
    validate(WHOLE, never)


def test_the_cycle_that_is_named_is_one() -> None:
    """A tail behind the cycle and one before it are not part of it."""
    made = flow("s:Start a:If b:If c:If d:If e:End", "s>a", "a>b", "b>c", "c>b", "c>d", "d>e")
    with pytest.raises(FedloomError) as error:
        validate(made, PLATFORM)
    named = str(error.value).split(": ")[-1].rstrip(".").replace("'", "").split(" → ")
    assert named[0] == named[-1]
    assert set(named) == {"b", "c"}


def test_a_draft_may_lack_ends_and_nothing_else() -> None:
    draft = flow("s:Start a:If b:Assign", "s>a", "a>b True")
    validate_draft(draft, PLATFORM)
    validate_draft(flow("s:Start"), PLATFORM)
    assert broken_rule(draft) == "terminal ends"
    with pytest.raises(FedloomError, match="no self-loops"):
        validate_draft(flow("s:Start a:If", "s>a", "a>a"), PLATFORM)
    with pytest.raises(FedloomError, match="leads out of an end"):
        validate_draft(flow("s:Start e:End a:If", "s>e", "e>a"), PLATFORM)


def test_the_platform_knows_the_26_kinds_of_the_document() -> None:
    assert PLATFORM.kinds == set(KINDS)
    assert len(KINDS) == 26


def test_the_page_names_the_rules_in_their_order() -> None:
    page = (DOCS / "flows.md").read_text().split("## Rules")[1].split("Platforms differ")[0]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows == [list(rule) for rule in RULES.items()]


def test_no_flow_is_too_deep() -> None:
    """A chain of 5,000 nodes, whole and with a cycle through all of it, needs no recursion."""
    names = [str(i) for i in range(5_000)]
    chain = [Edge(a, b) for a, b in pairwise(names)]
    nodes = (Node("s", "Start"), *(Node(name, "If") for name in names), Node("e", "End"))
    made = Flow(nodes, (Edge("s", "0"), *chain, Edge(names[-1], "e")))
    validate(made, PLATFORM)
    assert broken_rule(replace(made, edges=(*made.edges, Edge(names[-1], "0")))) == "cycles"


def test_ten_thousand_flows_are_validated_in_two_seconds() -> None:
    long = "s:Start " + " ".join(f"n{i}:If" for i in range(18)) + " e:End f:End"
    arrows = [f"n{i}>n{i + 1} True" for i in range(17)] + [f"n{i}>f False" for i in range(0, 17, 4)]
    made = flow(long, "s>n0", *arrows, "n17>e")
    begun = time.process_time()
    for _ in range(10_000):
        validate(made, PLATFORM)
    assert time.process_time() - begun < 2


def test_what_a_file_says_is_made_safe_to_print() -> None:
    assert brief("a\x1b[31m\nb\x00c") == "a [31m b c"
    assert brief("x" * 1_000_000) == "x" * 59 + "…"
    assert brief("\ud800") == ""
    with pytest.raises(FedloomError) as error:
        validate(Flow((Node("\x1b]0;owned\x07", "Dance" * 10_000),), ()), PLATFORM)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 250
