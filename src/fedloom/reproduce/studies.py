"""All studies, by the names that ``fedloom reproduce`` takes."""

from __future__ import annotations

from fedloom.reproduce import (
    attack_grid_studies,
    codec_studies,
    fedfmrl_studies,
    fedharm_studies,
    fedlid_studies,
    fedrcil_studies,
    fedseq_flipping_study,
    fedseq_gan_study,
    flow_studies,
    gala_studies,
    privacy_study,
    robust_studies,
)
from fedloom.reproduce.study import Study

_GROUPS = (
    *(flow_studies, gala_studies, robust_studies, attack_grid_studies, privacy_study),
    *(codec_studies, fedfmrl_studies, fedlid_studies, fedrcil_studies, fedharm_studies),
    *(fedseq_flipping_study, fedseq_gan_study),
)
STUDIES: dict[str, Study] = {study.name: study for group in _GROUPS for study in group.STUDIES}
