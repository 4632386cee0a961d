"""Which weights a client predicts with: stages that sit behind any method (``fedavg+fedpredict``)."""

from __future__ import annotations

from fedloom.core.prediction_stage import PredictionStage
from fedloom.prediction.fedpredict import FedPredict
from fedloom.prediction.finetune import FineTune
from fedloom.prediction.last_local_model import Own
from fedloom.prediction.recalibrate import Recalibrate

STAGES: dict[str, type[PredictionStage]] = {
    "fedpredict": FedPredict,
    "finetune": FineTune,
    "own": Own,
    "recalibrate": Recalibrate,
}
