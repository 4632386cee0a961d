"""Who holds which flows: organisations, and a corpus of them that speaks one dialect."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.rules import Dialect


@dataclass(frozen=True)
class Organisation:
    """One client: its flows, and ``extra`` ones that are only ever tested on."""

    name: str
    flows: tuple[Flow, ...]
    extra: tuple[Flow, ...] = ()


@dataclass(frozen=True)
class Corpus:
    """Flows by organisation, the dialect they are written in, and a title for people.

    ``self_loops`` and ``merged`` count what reading the corpus dropped and how many parallel edges it joined.
    """

    organisations: tuple[Organisation, ...]
    dialect: Dialect
    title: str = ""
    self_loops: int = 0
    merged: int = 0
