"""The named tasks over graphs whose nodes clients share."""

from __future__ import annotations

from fedloom.tasks.graphs.task import GraphBuilder

CORA = GraphBuilder("2,708 papers in a citation graph that clients share, 7 classes")
CITESEER = GraphBuilder("3,327 papers in a citation graph that clients share, 6 classes")
PUBMED = GraphBuilder("19,717 papers in a citation graph that clients share, 3 classes")
TWITCH = GraphBuilder("streamers in seven countries, a graph each, 2 classes")
OWN_GRAPH = GraphBuilder("nodes of a graph of your own, divided among clients by community")
