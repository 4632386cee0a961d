"""BPMN 2.0 files as flows.

Nodes are events, activities and gateways; a kind is the element's name, for events with what they wait for or throw
(``task``, ``exclusiveGateway``, ``startEvent:message``). Edges are sequence flows (label: their name, or ``default``),
message flows between nodes (``message``), associations between nodes (``association``, compensation), from an activity
to the event on its boundary (``boundary``) and from a sub-process to where its inside begins (``inside``). A message
flow to or from a whole pool has no node there and is left out. The only start event of a model is its Start, and an end
event that nothing leads on from is an End (``closing``); what they were stays with them as the attribute ``type``.

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
from fedloom.tasks.flows.formats.closing import Reading, closed
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
    """A node as the parser meets it: what it is, what is written on it, where it stands."""

    id: str
    tag: str
    line: int
    named: str
    attached: str
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
    """An edge as the parser meets it."""

    tag: str
    id: str
    source: str
    target: str
    named: str
    line: int


class _Around(NamedTuple):
    """An element that is open: its tag, and the ids of the node and of the process that are open with it."""

    tag: str = ""
    node: str = ""
    process: str = ""


class _Model:
    """What the parser has met so far."""

    def __init__(self, file: str, parser: expat.XMLParserType) -> None:
        self.file = file
        self.parser = parser
        self.nodes: dict[str, _Element] = {}
        self.links: list[_Link] = []
        self.pools: dict[str, str] = {}  # participant -> its name
        self.names: dict[str, str] = {}  # process -> its participant's name
        self.definitions: dict[str, str] = {}  # an event definition at the top -> what it is
        self.title = ""
        self.met = False
        self._open = [_Around()]
        self._text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, tag = name.rpartition(" ")
        tag = tag if space == MODEL else ""
        around = self._open[-1]
        self._open.append(around._replace(tag=tag))
        self._text.clear()
        self.met = self.met or bool(tag)
        identity, line = attributes.get("id", ""), self.parser.CurrentLineNumber
        get = attributes.get
        if tag in NODES:
            self._node(tag, identity, attributes, around)
        elif tag in LINKS:
            self.links.append(_Link(tag, identity, get("sourceRef", ""), get("targetRef", ""), get("name", ""), line))
        elif tag == "participant":
            self.pools[identity] = self.names[_local(get("processRef", ""))] = get("name", "")
        elif tag == "process":
            self._open[-1] = _Around(tag, "", identity)
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

    def write(self, text: str) -> None:
        if self._open[-1].tag == "eventDefinitionRef":
            self._text.append(text)

    def _node(self, tag: str, identity: str, attributes: Mapping[str, str], around: _Around) -> None:
        line = self.parser.CurrentLineNumber
        if not identity:
            raise FedloomError(f"{self.file}, line {line}: a {tag} has no id.")
        if identity in self.nodes:
            raise FedloomError(f"{self.file}, line {line}: the id '{brief(identity)}' is taken by another node.")
        name, attached, default = (attributes.get(key, "") for key in ("name", "attachedToRef", "default"))
        self.nodes[identity] = _Element(identity, tag, line, name, attached, default, around.node, around.process)
        self._open[-1] = _Around(tag, identity, around.process)

    def find(self, reference: str) -> str:
        """The id that a reference means: references may carry the prefix of a namespace."""
        return reference if reference in self.nodes or reference in self.pools else _local(reference)


def from_bpmn(data: bytes, file: str, draft: bool = False) -> Reading:
    """The flow that a BPMN 2.0 file holds, all of its pools together; a draft has only the ends that are drawn."""
    model = _parsed(data, file)
    if not model.met:
        raise FedloomError(f"{file} is XML, but not BPMN 2.0: nothing in it is of the namespace {MODEL}.")
    if not model.nodes:
        raise FedloomError(f"{file} has no events, activities or gateways: there is nothing to make a flow of.")
    for element in model.nodes.values():
        meant = [model.definitions.get(e[1:], "") if e[0] == "#" else e for e in element.events if e]
        element.events = [event for event in meant if event]
    found = model.nodes.values()
    several = len({element.process for element in found}) > 1
    nodes = [Node(e.id, e.kind, _attributes(e, model.names.get(e.process, "") if several else "")) for e in found]
    return closed(
        nodes,
        list(_edges(model)),
        BPMN,
        opens={e.id for e in found if e.tag == "startEvent" and not e.parent},
        closes={e.id for e in found if e.tag == "endEvent"},
        draft=draft,
        name=model.title or next((name for name in model.names.values() if name), ""),
    )


def _parsed(data: bytes, file: str) -> _Model:
    parser = expat.ParserCreate(namespace_separator=" ")
    model = _Model(file, parser)
    parser.buffer_text = True

    def refuse(*what: object) -> None:  # noqa: ARG001
        raise FedloomError(
            f"{file}, line {parser.CurrentLineNumber}: a document type or entity is declared here, which BPMN has no "
            "use for and Fedloom never expands."
        )

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.StartElementHandler, parser.EndElementHandler = model.start, model.end
    parser.CharacterDataHandler = model.write
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise FedloomError(f"{file}, {where}: {what}: this is no valid XML.") from None
    except (LookupError, ValueError) as error:  # an encoding that Python or expat does not know
        raise FedloomError(f"{file}: its encoding cannot be read ({error}).") from None
    return model


def _edges(model: _Model) -> Iterator[Edge]:
    defaults = {element.default for element in model.nodes.values() if element.default}
    may_join = {"sequenceFlow": model.nodes.keys(), "messageFlow": model.nodes.keys() | model.pools.keys()}
    entered = set()
    for link in model.links:
        source, target = model.find(link.source), model.find(link.target)
        for end in (source, target):
            if end not in may_join.get(link.tag, (end,)):
                raise FedloomError(
                    f"{model.file}, line {link.line}: this {link.tag} is dangling: there is no node '{brief(end)}'."
                )
        if source in model.nodes and target in model.nodes:  # a pool, a note or a data object is no node
            label = LINKS[link.tag] or link.named or ("default" if link.id in defaults else "")
            yield Edge(source, target, label)
            entered.add(target)
    for element in model.nodes.values():
        if element.attached:
            activity = model.find(element.attached)
            if activity not in model.nodes:
                raise FedloomError(
                    f"{model.file}, line {element.line}: the event '{brief(element.id)}' is on the boundary of "
                    f"'{brief(activity)}', which is no node."
                )
            yield Edge(activity, element.id, "boundary")
        elif element.parent and element.id not in entered:
            yield Edge(element.parent, element.id, "inside")


def _attributes(element: _Element, pool: str) -> dict[str, str]:
    return {key: value for key, value in (("name", element.named), ("pool", pool)) if value}


def _local(reference: str) -> str:
    """A reference without its namespace prefix."""
    return reference.rpartition(":")[2]
