"""A corpus of flows: organisations and their flows, all in one dialect."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.rules import Dialect


@dataclass(frozen=True)
class Organisation:
    """One client: its flows, and ``extra`` flows for testing only."""

    name: str
    flows: tuple[Flow, ...]
    extra: tuple[Flow, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Flows by organisation, their dialect, and a title.

    ``self_loops`` and ``merged`` count the self-loops that reading dropped and the parallel edges that it merged.
    """

    organisations: tuple[Organisation, ...]
    dialect: Dialect
    title: str = ""
    self_loops: int = 0
    merged: int = 0
