"""Folders of n8n exports for tests: made ones with private words, and exports of flows of the real corpus."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from fedloom.tasks.flows.flow import Flow, Node
from fedloom.tasks.flows.learning.public_words import public_words

STEPS = ("n8n-nodes-base.set", "n8n-nodes-base.httpRequest", "n8n-nodes-base.code", "n8n-nodes-base.gmail")


def export(flow: Flow, name: str, titles: Sequence[str] = ()) -> dict[str, Any]:
    """A workflow export that reads as this flow of the dialect n8n; its nodes get these titles, or names of their own.

    Flows with parallel connections, whose labels were joined, are not exported: ``is_simple`` says which.
    """
    steps = [node for node in flow.nodes if node.kind not in ("Start", "End")]
    title = {node.id: titles[i] if titles else f"{name}, step {i}" for i, node in enumerate(steps)}
    connections: dict[str, Any] = {}
    for edge in flow.edges:
        if edge.source in title and edge.target in title:
            kind, _, output = edge.label.partition(" ")
            outputs = connections.setdefault(title[edge.source], {}).setdefault(kind, [])
            outputs += [[] for _ in range(int(output or 0) + 1 - len(outputs))]
            link = {"node": title[edge.target], "type": kind, "index": int(edge.attributes.get("input", "0"))}
            outputs[int(output or 0)].append(link)
    return {"name": name, "nodes": [_node(node, title[node.id]) for node in steps], "connections": connections}


def _node(node: Node, title: str) -> dict[str, Any]:
    words = {key: node.attributes[key] for key in ("operation", "resource") if key in node.attributes}
    made: dict[str, Any] = {"name": title, "type": node.kind, "parameters": words}
    if "version" in node.attributes:
        made["typeVersion"] = float(node.attributes["version"])
    return made | ({"disabled": True} if "disabled" in node.attributes else {})


def is_simple(flow: Flow) -> bool:
    """Whether no two connections of a flow were joined."""
    return not any("+" in edge.label or "+" in edge.attributes.get("input", "") for edge in flow.edges)


def write_exports(folder: Path, workflows: Iterable[dict[str, Any]]) -> Path:
    """Write workflows to files of a folder."""
    folder.mkdir(parents=True)
    for number, workflow in enumerate(workflows):
        (folder / f"{number:03d}.json").write_text(json.dumps(workflow))
    return folder


def made_workflows(owner: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Workflows of an owner who has node types, operations and names that nobody else has."""
    return [_made(owner, number, Random(f"{owner} {seed} {number}")) for number in range(count)]


def _made(owner: str, number: int, draw: Random) -> dict[str, Any]:
    nodes = [{"name": f"Wake {owner} up", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "parameters": {}}]
    kinds = draw.choices([*STEPS, f"@{owner}/n8n-nodes-{owner}.{owner}Ledger"], k=draw.randint(2, 5))
    for i, kind in enumerate(kinds):
        words = {"operation": f"{owner}Reconcile"} if "Ledger" in kind else {"operation": "update"}
        nodes.append({"name": f"Secret {owner} step {i}", "type": kind, "typeVersion": 1, "parameters": words})
    names = [str(node["name"]) for node in nodes]
    connections = {
        before: {"main": [[{"node": after, "type": "main", "index": 0}]]} for before, after in pairwise(names)
    }
    return {"name": f"The {owner} merger, part {number}", "nodes": nodes, "connections": connections}


def private_words(folders: Iterable[Path]) -> set[str]:
    """What the exports in some folders say that is not public: names, and types and parameters beside the platform's.

    Short words are left out: they would be found in any long file.
    """
    public = public_words("n8n")
    found: set[str] = set()
    for file in (file for folder in folders for file in folder.glob("*.json")):
        workflow = json.loads(file.read_text())
        found.add(workflow["name"])
        for node in workflow["nodes"]:
            found.add(node["name"])
            found |= {node["type"]} - {*public.node["kind"]}
            for key in ("operation", "resource"):
                found |= {node["parameters"].get(key, "")} - {*public.node[key]}
    return {word for word in found if len(word) >= 6}


def texts_with(words: Iterable[str], texts: Iterable[bytes]) -> set[str]:
    """The words that occur in some bytes, as they are or as JSON writes them."""
    whole = b"\n".join(texts)
    return {word for word in words if word.encode() in whole or json.dumps(word)[1:-1].encode() in whole}


def bytes_of(folders: Iterable[Path]) -> list[bytes]:
    """The content and the name of every file in some folders."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [part for file in files for part in (file.name.encode(), file.read_bytes())]
