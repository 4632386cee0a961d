"""A BPMN file becomes the flow it is; what is broken is refused with its line; nothing in it is ever expanded."""

from __future__ import annotations

import time

import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.formats.bpmn import MODEL, from_bpmn
from fedloom.tasks.flows.formats.flow_json import to_json
from fedloom.tasks.flows.formats.read_flow import from_bytes, read
from fedloom.tasks.flows.formats.start_and_ends import Reading
from fedloom.tasks.flows.rules import BPMN, validate
from support.paths import FLOW_EXAMPLES

EXAMPLE = FLOW_EXAMPLES / "invoice.bpmn"


def read_process(inside: str, around: str = "") -> Reading:
    """A model with one process, read, checked, and through our format and back."""
    text = f'<b:definitions xmlns:b="{MODEL}">{around}<b:process id="p">{inside}</b:process></b:definitions>'
    reading = from_bytes(text.encode(), "f.bpmn")
    validate(reading.flow, BPMN)
    assert from_bytes(to_json(reading.flow, BPMN).encode(), "f").flow == reading.flow
    return reading


def node(tag: str, identity: str, inside: str = "", **more: str) -> str:
    written = "".join(f' {key}="{value}"' for key, value in more.items())
    return f'<b:{tag} id="{identity}"{written}>{inside}</b:{tag}>'


def flow(source: str, target: str, tag: str = "sequenceFlow", **more: str) -> str:
    return node(tag, f"{source}_{target}", sourceRef=source, targetRef=target, **more)


def kinds(reading: Reading) -> dict[str, str]:
    return {node.id: node.kind for node in reading.flow.nodes}


def edges(reading: Reading) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.target, edge.label) for edge in reading.flow.edges}


def test_the_example_is_read_as_it_is_drawn() -> None:
    reading = read(EXAMPLE)
    validate(reading.flow, BPMN)
    assert reading.flow.name == "Pay an invoice"
    assert kinds(reading) == {
        "received": "Start", "enter": "task", "amount": "exclusiveGateway", "ask": "sendTask",
        "answered": "intermediateCatchEvent:message", "approved": "exclusiveGateway", "pay": "serviceTask",
        "failed": "boundaryEvent:error", "mend": "userTask", "paid": "End", "refused": "End",
        "asked": "startEvent:message", "decide": "userTask", "answer": "endEvent:message",
    }  # fmt: skip
    assert {
        ("amount", "ask", "yes"),
        ("amount", "pay", "default"),
        ("ask", "asked", "message"),
        ("answer", "answered", "message"),
        ("pay", "failed", "boundary"),
    } < edges(reading)
    start = reading.flow.nodes[0]
    assert start.attributes == {"name": "Invoice received", "pool": "Accounting", "type": "startEvent:message"}


def test_one_start_event_is_the_start_and_several_get_one_before_them() -> None:
    one = read_process(node("startEvent", "s") + node("task", "t") + flow("s", "t"))
    assert kinds(one) == {"s": "Start", "t": "task", "End": "End"}
    two = read_process(
        node("startEvent", "s") + node("startEvent", "r") + node("task", "t") + flow("s", "t") + flow("r", "t")
    )
    assert kinds(two) == {"Start": "Start", "s": "startEvent", "r": "startEvent", "t": "task", "End": "End"}
    none = read_process(node("task", "t") + node("task", "u") + flow("t", "u"))
    assert ("Start", "t", "") in edges(none)


def test_an_end_event_is_an_end_and_other_sinks_get_one() -> None:
    made = read_process(
        node("startEvent", "s")
        + node("parallelGateway", "g")
        + node("endEvent", "e", "<b:terminateEventDefinition/>")
        + node("task", "t")
        + flow("s", "g")
        + flow("g", "e")
        + flow("g", "t")
    )
    assert kinds(made)["e"] == "End"
    assert made.flow.nodes[2].attributes == {"type": "endEvent:terminate"}
    assert ("t", "End", "") in edges(made)


def test_a_sub_process_leads_to_where_its_inside_begins() -> None:
    inner = node("startEvent", "i") + node("task", "w") + node("endEvent", "j") + flow("i", "w") + flow("w", "j")
    made = read_process(node("startEvent", "s") + node("subProcess", "sub", inner) + flow("s", "sub"))
    assert kinds(made) == {"s": "Start", "sub": "subProcess", "i": "startEvent", "w": "task", "j": "End"}
    assert ("sub", "i", "inside") in edges(made)


def test_an_event_says_what_it_waits_for_also_by_reference() -> None:
    timer = "<b:timerEventDefinition><b:timeDuration>PT1H</b:timeDuration></b:timerEventDefinition>"
    events = node("intermediateCatchEvent", "t", timer) + node(
        "intermediateCatchEvent", "m", "<b:timerEventDefinition/><b:signalEventDefinition/>"
    )
    events += node("intermediateCatchEvent", "r", "<b:eventDefinitionRef>b:shared</b:eventDefinitionRef>")
    made = kinds(
        read_process(events + flow("t", "m") + flow("m", "r"), around='<b:signalEventDefinition id="shared"/>')
    )
    assert made["t"] == "intermediateCatchEvent:timer"
    assert made["m"] == "intermediateCatchEvent:multiple"
    assert made["r"] == "intermediateCatchEvent:signal"


def test_messages_to_whole_pools_and_notes_beside_nodes_are_left_out() -> None:
    talk = node("collaboration", "c", node("participant", "them", name="Them") + flow("t", "them", "messageFlow"))
    made = read_process(
        node("task", "t") + node("textAnnotation", "note") + flow("t", "note", "association"), around=talk
    )
    assert edges(made) == {("Start", "t", ""), ("t", "End", "")}


def test_elements_of_other_namespaces_are_no_nodes() -> None:
    made = read_process(node("task", "t", '<x:task xmlns:x="urn:other" id="fake"/><task id="bare"/>'))
    assert kinds(made) == {"Start": "Start", "t": "task", "End": "End"}


def test_self_loops_are_dropped_and_double_flows_joined() -> None:
    made = read_process(
        node("task", "t") + node("task", "u") + flow("t", "t") + flow("t", "u", name="a") + flow("t", "u", name="b")
    )
    assert (made.self_loops, made.merged) == (1, 1)
    assert ("t", "u", "a+b") in edges(made)


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (
            node("task", "t") + "\n" + flow("t", "lost"),
            "line 2: this sequenceFlow names the node 'lost', which does not exist",
        ),
        (node("task", "t") + "\n" + node("task", "t"), "line 2: another node has the id 't' too"),
        ("<b:task/>", "line 1: this task has no id"),
        (node("boundaryEvent", "b", attachedToRef="lost"), "on the boundary of 'lost'"),
        (node("task", "t") + flow("t", "lost", "messageFlow"), "this messageFlow names the node 'lost'"),
        ("", "no events, activities or gateways"),
        ("<b:task id='t'>", "line 1, column"),
    ],
)
def test_a_broken_model_is_refused_with_its_line(inside: str, said: str) -> None:
    with pytest.raises(FedloomError) as error:
        read_process(inside)
    assert said in str(error.value)


def test_a_truncated_file_is_refused_with_its_position() -> None:
    with pytest.raises(FedloomError, match=r"f.bpmn, line \d+, column \d+: not valid XML"):
        from_bpmn(EXAMPLE.read_bytes()[:700], "f.bpmn")


BOMBS = {
    "billion laughs": '<!DOCTYPE b [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 30))
    + "]><b>&a29;</b>",
    "quadratic blow-up": f'<!DOCTYPE b [<!ENTITY a "{"x" * 50_000}">]><b>{"&a;" * 10_000}</b>',
    "a file of the machine": '<!DOCTYPE b [<!ENTITY a SYSTEM "file:///etc/passwd">]><b>&a;</b>',
    "a document type elsewhere": '<!DOCTYPE b SYSTEM "http://localhost:9/x.dtd"><b/>',
    "parameter entities": "<!DOCTYPE b [<!ENTITY % p \"<!ENTITY a 'x'>\"> %p;]><b>&a;</b>",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_before_it_goes_off(bomb: str) -> None:
    begun = time.process_time()
    with pytest.raises(FedloomError, match="line 1: a document type or entity is declared here"):
        from_bytes(bomb.encode(), "f.bpmn")
    with pytest.raises(FedloomError, match="document type"):
        from_bytes(bomb.encode("utf-16"), "f.bpmn")
    assert time.process_time() - begun < 1


def test_an_entity_that_nobody_declared_is_refused() -> None:
    with pytest.raises(FedloomError, match="undefined entity"):
        read_process("<b:task id='a'>&x;</b:task>")


def test_a_deep_or_strange_file_crashes_nothing() -> None:
    deep = f'<a xmlns="{MODEL}">' + '<subProcess id="s{}">' * 3000 + "</subProcess>" * 3000 + "</a>"
    reading = from_bytes(deep.format(*range(3000)).encode(), "f")
    validate(reading.flow, BPMN)
    for data in (
        b'<?xml version="1.0" encoding="nonsense"?><a/>',
        b'<?xml version="1.0" encoding="utf-7"?><a/>',
        b"<a/>",
    ):
        with pytest.raises(FedloomError):
            from_bytes(data, "f")
