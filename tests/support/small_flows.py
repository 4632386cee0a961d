"""Small flows of a few organisations for tests, and a task on them without training."""

from __future__ import annotations

from pathlib import Path
from random import Random

from fedloom.core.task import Task
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.flow_json import write_flow
from fedloom.tasks.flows.learning.flow_task import task_of_corpus
from fedloom.tasks.flows.rules import PLATFORM, validate

ACTIONS = ("Assign", "DataSet", "SendEmail", "ExecuteAction", "RefreshQuery")


def flow(number: int) -> Flow:
    """A start, an If with two branches of some actions, of which the first sometimes joins the second."""
    draw = Random(number)
    nodes = [Node("start", "Start", {"module": "Sales"}), Node("if", "If", {"module": draw.choice(["Sales", "Mail"])})]
    edges = [Edge("start", "if")]
    for label in ("True", "False"):
        last = "if"
        for step in range(draw.randint(1, 3)):
            name = f"{label} {step}"
            nodes.append(Node(name, draw.choice(ACTIONS), {"module": draw.choice(["Sales", "Mail", "Lists"])}))
            edges.append(Edge(last, name, "" if step else label))
            last = name
        nodes.append(Node(f"{label} end", "End"))
        edges.append(Edge(last, f"{label} end"))
    if number % 3 == 0:  # the two branches meet
        nodes = [node for node in nodes if node.id != "True end"]
        edges = [Edge(e.source, "False end", e.label) if e.target == "True end" else e for e in edges]
    made = Flow(tuple(nodes), tuple(edges), {"type": draw.choice(["screen", "timer"])}, f"flow {number}")
    validate(made, PLATFORM)
    return made


def corpus(organisations: int = 3, flows: int = 6) -> Corpus:
    """Organisations called ``north``, ``south``, ..."""
    names = ("north", "south", "east", "west")[:organisations]
    return Corpus(
        tuple(Organisation(name, tuple(flow(i * flows + j) for j in range(flows))) for i, name in enumerate(names)),
        PLATFORM,
    )


def write_folder(folder: Path) -> Path:
    """The same as files: a folder per organisation."""
    for organisation in corpus().organisations:
        (folder / organisation.name).mkdir(parents=True)
        for i, made in enumerate(organisation.flows):
            write_flow(folder / organisation.name / f"{i}.json", made, PLATFORM)
    return folder


def task() -> Task:
    """The next kind in the small corpus, by a small FullGN with random weights."""
    return task_of_corpus(corpus(), model_options={"width": 8, "blocks": 3})
