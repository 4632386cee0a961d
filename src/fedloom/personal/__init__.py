"""Which weights a client predicts with: stages that sit behind any method (``fedavg+fedpredict``)."""

from __future__ import annotations

from fedloom.core.stage import Stage
from fedloom.personal.fedpredict import FedPredict
from fedloom.personal.finetune import FineTune
from fedloom.personal.own import Own
from fedloom.personal.recalibrate import Recalibrate

STAGES: dict[str, type[Stage]] = {
    "fedpredict": FedPredict,
    "finetune": FineTune,
    "own": Own,
    "recalibrate": Recalibrate,
}
