"""Experiments of documents, as commands: ``fedloom reproduce NAME``."""

from __future__ import annotations

from fedloom.reproduce import flows, gala
from fedloom.reproduce.study import Study

STUDIES: dict[str, Study] = {study.name: study for study in (*flows.STUDIES, *gala.STUDIES)}
