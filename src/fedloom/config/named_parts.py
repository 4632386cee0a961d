"""The parts of a run that a config names: ``{"name": "random", "fraction": 0.1}`` and back.

``PARTS`` has a line for each: its config key, the classes by name, and the base class of user-defined ones. Some are a
list of parts in order.
"""

from __future__ import annotations

from typing import Any

from fedloom.aggregation.registry import AGGREGATORS
from fedloom.attacks.registry import ATTACKS
from fedloom.channel.registry import CHANNELS
from fedloom.core.adversary import Adversary
from fedloom.core.aggregator import Aggregator
from fedloom.core.channel_step import ChannelStep
from fedloom.core.prediction_stage import PredictionStage
from fedloom.prediction.registry import STAGE_ALIASES, STAGES
from fedloom.registry.named_part import PartKind, make_part
from fedloom.selection.registry import SELECTOR_ALIASES, SELECTORS

SELECTION = PartKind("selection", SELECTORS, object, "selection", "random", SELECTOR_ALIASES)
STAGE = PartKind("prediction", STAGES, PredictionStage, "prediction stage", aliases=STAGE_ALIASES, is_list=True)
PARTS = (
    SELECTION,
    PartKind("aggregation", AGGREGATORS, Aggregator, "aggregator", "mean"),
    PartKind("channel", CHANNELS, ChannelStep, "channel step", is_list=True),
    PartKind("adversary", ATTACKS, Adversary, "attack"),
    STAGE,
)


def make_stage(value: Any) -> PredictionStage:
    """A prediction stage from its name, from ``{"name": ..., settings}``, or from itself."""
    stage: PredictionStage = make_part(value, STAGE)
    return stage
