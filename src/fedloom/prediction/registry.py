"""Prediction stages by name (``fedavg+fedpredict``)."""

from __future__ import annotations

from fedloom.core.prediction_stage import PredictionStage
from fedloom.prediction.fedpredict import FedPredict
from fedloom.prediction.finetune import FineTune
from fedloom.prediction.last_local_model import LastLocalModel
from fedloom.prediction.linear_probe import LinearProbe
from fedloom.prediction.recalibrate import Recalibrate
from fedloom.registry.names import canonical_name

STAGES: dict[str, type[PredictionStage]] = {
    stage.__name__.lower(): stage for stage in (FedPredict, FineTune, LastLocalModel, LinearProbe, Recalibrate)
}
STAGE_ALIASES = {"own": "lastlocalmodel"}


def canonical_stage(name: str) -> str:
    """The registered spelling of a stage's name: ``Last-Local-Model`` and ``own`` are ``lastlocalmodel``."""
    return canonical_name(name, STAGES, STAGE_ALIASES)
