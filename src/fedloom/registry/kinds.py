"""The kinds of parts that a config or a call names, one registry each.

Packages offer parts of a kind in the group of entry points that its registry names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedloom.registry import builtin
from fedloom.registry.registry import Registry

if TYPE_CHECKING:
    from fedloom.core.aggregator import Aggregator
    from fedloom.core.algorithm import Algorithm
    from fedloom.core.attack import Attack
    from fedloom.core.channel_step import ChannelStep
    from fedloom.core.metric import Metric
    from fedloom.core.objective import Loss
    from fedloom.core.prediction_stage import PredictionStage

METHODS: Registry[type[Algorithm]] = Registry(
    *("method", "fedloom.methods", builtin.METHODS, "fedloom.core.algorithm:Algorithm"), aliases=builtin.METHOD_ALIASES
)
SELECTORS: Registry[Any] = Registry(
    *("selection", "fedloom.selectors", builtin.SELECTORS, "builtins:object"),
    key="selection",
    default="random",
    aliases=builtin.SELECTOR_ALIASES,
)
AGGREGATORS: Registry[type[Aggregator]] = Registry(
    *("aggregator", "fedloom.aggregators", builtin.AGGREGATORS, "fedloom.core.aggregator:Aggregator"),
    key="aggregation",
    default="mean",
    chain="fedloom.aggregation.chain:AggregatorChain",
)
CHANNEL_STEPS: Registry[type[ChannelStep]] = Registry(
    *("channel step", "fedloom.channel", builtin.CHANNEL_STEPS, "fedloom.core.channel_step:ChannelStep"),
    key="channel",
    is_list=True,
)
ATTACKS: Registry[type[Attack]] = Registry(
    *("attack", "fedloom.attacks", builtin.ATTACKS, "fedloom.core.attack:Attack"), key="adversary"
)
PREDICTION_STAGES: Registry[type[PredictionStage]] = Registry(
    *("prediction stage", "fedloom.prediction", builtin.PREDICTION_STAGES),
    "fedloom.core.prediction_stage:PredictionStage",
    key="prediction",
    aliases=builtin.STAGE_ALIASES,
    is_list=True,
)
LOSSES: Registry[type[Loss]] = Registry(
    *("loss", "fedloom.losses", builtin.LOSSES, "fedloom.core.objective:Loss"), key="task.loss"
)
METRICS: Registry[type[Metric]] = Registry(
    *("metric", "fedloom.metrics", builtin.METRICS, "fedloom.core.metric:Metric"), key="task.metrics", is_list=True
)
PARTITIONS: Registry[Any] = Registry(
    *("partition", "fedloom.partitions", builtin.PARTITIONS, "fedloom.data.partition.base:Partition")
)
MODELS: Registry[Any] = Registry("model", "fedloom.models", builtin.MODELS, None)
TASKS: Registry[Any] = Registry("task", "fedloom.tasks", builtin.TASKS, None)
DATASETS: Registry[Any] = Registry("data set", "fedloom.datasets", builtin.DATASETS, None)

PARTS: tuple[Registry[Any], ...] = (SELECTORS, AGGREGATORS, CHANNEL_STEPS, ATTACKS, PREDICTION_STAGES)
"""The parts of a run that its config names under a key of their own, besides the method."""
