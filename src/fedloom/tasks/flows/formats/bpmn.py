"""BPMN 2.0 files as flows.

Nodes are events, activities and gateways; a kind is the element's name, for events with what they wait for or throw
(``task``, ``exclusiveGateway``, ``startEvent:message``). Edges are sequence flows (label: their name, or ``default``),
message flows between nodes (``message``), associations between nodes (``association``, compensation), from an activity
to the event on its boundary (``boundary``) and from a sub-process to its first inner nodes (``inside``). A message flow
to or from a whole pool has no node there and is left out. The only start event of a model is its Start, and an end
event without outgoing edges is an End (see ``start_and_ends``); the attribute ``type`` keeps what they were.

The file is parsed by expat with handlers for the elements above and no others. A document type or an entity is refused
before it can expand into anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Node, brief
from fedloom.tasks.flows.formats.start_and_ends import Reading, with_start_and_ends
from fedloom.tasks.flows.rules import BPMN

MODEL = "http://www.omg.org/spec/BPMN/20100524/MODEL"
EVENTS = (
    "startEvent",
    "endEvent",
    "intermediateCatchEvent",
    "intermediateThrowEvent",
    "boundaryEvent",
    "implicitThrowEvent",
)
ACTIVITIES = (
    "task", "userTask", "manualTask", "serviceTask", "scriptTask", "sendTask", "receiveTask", "businessRuleTask",
    "callActivity", "choreographyTask", "callChoreography", "subChoreography",
    "subProcess", "adHocSubProcess", "transaction",
)  # fmt: skip
GATEWAYS = ("exclusiveGateway", "inclusiveGateway", "parallelGateway", "eventBasedGateway", "complexGateway")
NODES = frozenset((*EVENTS, *ACTIVITIES, *GATEWAYS))
LINKS = {"sequenceFlow": "", "messageFlow": "message", "association": "association"}
_DEFINITION = "EventDefinition"


@dataclass
class _Element:
    """A node as the parser finds it."""

    id: str
    tag: str
    line: int
    name: str
    attached_to: str
    default: str
    parent: str
    process: str
    events: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        what = self.events[0] if len(self.events) == 1 else "multiple" if self.events else ""
        return f"{self.tag}:{what}" if what else self.tag


@dataclass
class _Link:
    """An edge as the parser finds it."""

    tag: str
    id: str
    source: str
    target: str
    name: str
    line: int


class _OpenElement(NamedTuple):
    """An open element: its tag, and the ids of the node and of the process around it."""

    tag: str = ""
    node: str = ""
    process: str = ""


class _Model:
    """What the parser has found so far."""

    def __init__(self, file: str, parser: expat.XMLParserType) -> None:
        self.file = file
        self.parser = parser
        self.nodes: dict[str, _Element] = {}
        self.links: list[_Link] = []
        self.pools: dict[str, str] = {}  # participant -> its name
        self.names: dict[str, str] = {}  # process -> its participant's name
        self.definitions: dict[str, str] = {}  # an event definition at the top -> what it is
        self.title = ""
        self.has_elements = False
        self._open = [_OpenElement()]
        self._text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, tag = name.rpartition(" ")
        tag = tag if space == MODEL else ""
        around = self._open[-1]
        self._open.append(around._replace(tag=tag))
        self._text.clear()
        self.has_elements = self.has_elements or bool(tag)
        identity, line = attributes.get("id", ""), self.parser.CurrentLineNumber
        get = attributes.get
        if tag in NODES:
            self._node(tag, identity, attributes, around)
        elif tag in LINKS:
            self.links.append(_Link(tag, identity, get("sourceRef", ""), get("targetRef", ""), get("name", ""), line))
        elif tag == "participant":
            self.pools[identity] = self.names[_local(get("processRef", ""))] = get("name", "")
        elif tag == "process":
            self._open[-1] = _OpenElement(tag, "", identity)
            self.title = self.title or get("name", "")
        elif tag.endswith(_DEFINITION):
            what = tag.removesuffix(_DEFINITION)
            if around.tag in EVENTS:
                self.nodes[around.node].events.append(what)
            else:
                self.definitions[identity] = what

    def end(self, name: str) -> None:
        tag, node, _ = self._open.pop()
        if tag == "eventDefinitionRef" and node:
            self.nodes[node].events.append("#" + _local("".join(self._text).strip()))
        self._text.clear()

    def text(self, text: str) -> None:
        if self._open[-1].tag == "eventDefinitionRef":
            self._text.append(text)

    def _node(self, tag: str, identity: str, attributes: Mapping[str, str], around: _OpenElement) -> None:
        line = self.parser.CurrentLineNumber
        if not identity:
            raise FedloomError(f"{self.file}, line {line}: this {tag} has no id.")
        if identity in self.nodes:
            raise FedloomError(f"{self.file}, line {line}: another node has the id '{brief(identity)}' too.")
        name, attached, default = (attributes.get(key, "") for key in ("name", "attachedToRef", "default"))
        self.nodes[identity] = _Element(identity, tag, line, name, attached, default, around.node, around.process)
        self._open[-1] = _OpenElement(tag, identity, around.process)

    def resolve(self, reference: str) -> str:
        """The id that a reference means: it may have the prefix of a namespace."""
        return reference if reference in self.nodes or reference in self.pools else _local(reference)


def from_bpmn(data: bytes, file: str, draft: bool = False) -> Reading:
    """The flow that a BPMN 2.0 file holds, all of its pools together; no End is added to a draft."""
    model = _parse(data, file)
    if not model.has_elements:
        raise FedloomError(f"{file} is XML, but not BPMN 2.0: no element has the namespace {MODEL}.")
    if not model.nodes:
        raise FedloomError(f"{file} has no events, activities or gateways, so it holds no flow.")
    for element in model.nodes.values():
        meant = [model.definitions.get(e[1:], "") if e[0] == "#" else e for e in element.events if e]
        element.events = [event for event in meant if event]
    elements = model.nodes.values()
    several = len({element.process for element in elements}) > 1
    nodes = [Node(e.id, e.kind, _attributes(e, model.names.get(e.process, "") if several else "")) for e in elements]
    return with_start_and_ends(
        nodes,
        list(_edges(model)),
        BPMN,
        start_events={e.id for e in elements if e.tag == "startEvent" and not e.parent},
        end_events={e.id for e in elements if e.tag == "endEvent"},
        draft=draft,
        name=model.title or next((name for name in model.names.values() if name), ""),
    )


def _parse(data: bytes, file: str) -> _Model:
    parser = expat.ParserCreate(namespace_separator=" ")
    model = _Model(file, parser)
    parser.buffer_text = True

    def refuse(*what: object) -> None:  # noqa: ARG001
        raise FedloomError(
            f"{file}, line {parser.CurrentLineNumber}: a document type or entity is declared here. BPMN "
            "does not need them and Fedloom does not expand them: remove the declaration."
        )

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = model.start, model.end
    parser.CharacterDataHandler = model.text
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise FedloomError(f"{file}, {where}: not valid XML: {what}.") from None
    except (LookupError, ValueError) as error:  # an encoding that Python or expat does not know
        raise FedloomError(f"{file}: its encoding cannot be read ({error}).") from None
    return model


def _edges(model: _Model) -> Iterator[Edge]:
    defaults = {element.default for element in model.nodes.values() if element.default}
    may_join = {"sequenceFlow": model.nodes.keys(), "messageFlow": model.nodes.keys() | model.pools.keys()}
    entered = set()
    for link in model.links:
        source, target = model.resolve(link.source), model.resolve(link.target)
        for end in (source, target):
            if end not in may_join.get(link.tag, (end,)):
                raise FedloomError(
                    f"{model.file}, line {link.line}: this {link.tag} names the node '{brief(end)}', which "
                    "does not exist."
                )
        if source in model.nodes and target in model.nodes:  # pools, notes and data objects are not nodes
            label = LINKS[link.tag] or link.name or ("default" if link.id in defaults else "")
            yield Edge(source, target, label)
            entered.add(target)
    for element in model.nodes.values():
        if element.attached_to:
            activity = model.resolve(element.attached_to)
            if activity not in model.nodes:
                raise FedloomError(
                    f"{model.file}, line {element.line}: the event '{brief(element.id)}' is on the boundary of "
                    f"'{brief(activity)}', which does not exist."
                )
            yield Edge(activity, element.id, "boundary")
        elif element.parent and element.id not in entered:
            yield Edge(element.parent, element.id, "inside")


def _attributes(element: _Element, pool: str) -> dict[str, str]:
    return {key: value for key, value in (("name", element.name), ("pool", pool)) if value}


def _local(reference: str) -> str:
    """A reference without its namespace prefix."""
    return reference.rpartition(":")[2]
