"""Experiments of papers and theses as commands: ``fedloom reproduce NAME``."""

from __future__ import annotations

from fedloom.reproduce import flow_studies, gala_studies, robust_studies
from fedloom.reproduce.study import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (*flow_studies.STUDIES, *gala_studies.STUDIES, *robust_studies.STUDIES)
}
