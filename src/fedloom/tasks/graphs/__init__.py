"""Graphs that clients share: where they come from, how they are divided, and federations of them."""

from __future__ import annotations

from fedloom.models.graph import Graph, Graphs
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.graphs.labelled_graph import LabelledGraph, graph_of, labelled_graph, with_parts
from fedloom.tasks.graphs.read import named_graph, read_graph, save_graph

__all__ = [
    "Graph",
    "GraphFederation",
    "Graphs",
    "LabelledGraph",
    "graph_of",
    "labelled_graph",
    "named_graph",
    "read_graph",
    "save_graph",
    "with_parts",
]
