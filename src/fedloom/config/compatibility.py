"""Which parts of a run go together: one table of its parts and the facts that they state, and who is refused.

``parts_of`` lists what a run has, with the facts that each part states (``core/facts.py``); what has no class of its
own, such as a weighting, the task and the deployment, has its facts here. A run is refused for the first pair of which
one part needs what the other breaks. docs/composition.md is printed from the same facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from torch import nn

from fedloom.config.schema import RunConfig
from fedloom.core.aggregator import Aggregator
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import FedloomError
from fedloom.core.facts import SELECTOR_PROMISES, Fact, Facts, NamedPart, conflict, is_about
from fedloom.core.task import Task

WEIGHTED_BY_STEPS = "weights clients by the steps that they made: set weight_by to samples or uniform"


def check_compatibility(config: RunConfig, algorithm: Algorithm, task: Task, execution: str, deployed: bool) -> None:
    """Raise a ``FedloomError`` if one part of a run needs what another one breaks.

    Args:
        task: Its task, with what the method adds to it.
        execution: How its clients train.
        deployed: Whether its clients are machines.
    """
    check_noise_is_counted(config)
    for one, other in combinations(parts_of(config, algorithm, task, execution, deployed), 2):
        why = conflict(one, other)
        if why is not None:
            raise FedloomError(why)


def part_that_tells_draws(
    config: RunConfig, algorithm: Algorithm, task: Task, execution: str, deployed: bool
) -> str | None:
    """The first part of a run by which others learn who was drawn, and how, as a clause; None if there is none.

    No part needs such a secret: privacy that counts on it (amplification) is counted without it instead.

    Args:
        task: Its task, with what the method adds to it.
        execution: How its clients train.
        deployed: Whether its clients are machines.
    """
    for part in parts_of(config, algorithm, task, execution, deployed):
        if Fact.HIDDEN_DRAWS in part.breaks:
            return f"{part.name} {part.breaks[Fact.HIDDEN_DRAWS]}"
    return None


def check_noise_is_counted(config: RunConfig) -> None:
    """Raise a ``FedloomError`` for a part that inherits a ledger, and not the code whose noise the ledger counts."""
    for parts, base, ledger, function in (
        (config.aggregation.members, Aggregator, "ledger", "__call__"),
        (config.channel, ChannelStep, "client_ledgers", "encode"),
    ):
        for part in parts:
            author = next(kind for kind in type(part).__mro__ if ledger in vars(kind))
            if author is not base and not is_about(part, ledger, function):
                own, counted = type(part).__name__.lower(), author.__name__.lower()
                raise FedloomError(
                    f"{own} overrides {function}, and the {ledger} of {counted}, which it inherits, counts other "
                    f"noise: write a {ledger} that counts this one, or leave {function} as it is."
                )


def parts_of(
    config: RunConfig, algorithm: Algorithm, task: Task, execution: str, deployed: bool
) -> Iterator[NamedPart]:
    """The parts of a run, with what each needs and breaks; the method comes first.

    Args:
        task: Its task, with what the method adds to it.
        execution: How its clients train.
        deployed: Whether its clients are machines.
    """
    method = NamedPart.of(algorithm, str(config.method.get("name", type(algorithm).__name__.lower())))
    yield method
    if algorithm.server is not None:  # that it is the only one, its method says
        own = {Fact.MEAN_EVERY_ROUND: "steps after every mean of models: drop the optimiser"}
        yield NamedPart(f"the server optimiser of {method.name}", own, {})
    yield NamedPart(f"task {task.name}", task_needs(task), task_breaks(task))
    yield NamedPart.of(config.selection, f"selection {type(config.selection).__name__.lower()}", SELECTOR_PROMISES)
    for part in (*config.aggregation.members, *config.channel, *config.prediction, config.adversary):
        if part is not None:
            yield NamedPart.of(part)
    for key in ("local", "server_optimizer", "downlink", "federated_dropout", "sample_privacy"):
        if getattr(config, key) is not None:
            yield NamedPart.of(getattr(config, key), key)
    if config.weight_by == "steps":
        yield NamedPart("weight_by = steps", {}, {Fact.ONLY_SUMS: WEIGHTED_BY_STEPS})
    if config.start_from is not None:
        yield NamedPart("start_from", {}, {Fact.MIXED_MODELS: "is made for one model: leave it out, or task.models"})
    if config.early_stopping is not None:  # and it goes back, as if what later rounds have told were not told
        decides = "decides by scores on clients' samples, and goes back to an earlier round: leave it out"
        yield NamedPart("early_stopping", {}, {Fact.SCORES_STAY: decides})
    if execution == "compiled":
        needs = {
            Fact.ONE_STEP: "takes one step per batch: use vectorised or loop",
            Fact.MEAN_GRADIENT: "follows the mean gradient of a batch: use vectorised or loop",
        }
        yield NamedPart("execution compiled", needs, {})
    if deployed:
        scores = {Fact.SCORES_STAY: "lets sites send scores on their own samples"} if config.eval_every else {}
        yield NamedPart("a deployment", {}, {**scores, Fact.HIDDEN_DRAWS: "has logs that name sites"})
    elif config.eval_every and (algorithm.keeps or any(stage.keeps for stage in config.prediction)):
        scored = "scores clients with what only those keep who were drawn"
        yield NamedPart("eval_every", {}, {Fact.HIDDEN_DRAWS: scored})


def task_needs(task: Task) -> Facts:
    """What a task needs of the other parts, and why."""
    if task.architectures is None:
        return {}
    shown = ", ".join(task.architectures.names)
    return {
        Fact.MIXED_MODELS: f"has clients with different models ({shown}): use a method that exchanges logits, features "
        "or prototypes, such as fld or fedproto, or give all clients one model (task.model)"
    }


def task_breaks(task: Task) -> Facts:
    """What other parts cannot rely on in a task, and why."""
    federation, found = task.federation, dict[Fact, str]()
    if federation.samples_are_independent:  # samples that are not are nodes of their client's graph
        found[Fact.GRAPHS] = "has no graphs"
    if not federation.samples_are_independent or task.stacking_obstacle:
        found[Fact.SEPARATE_SAMPLES] = "has samples that are nodes or parts of graphs"
    if federation.later:
        found[Fact.CONSTANT_DATA] = "has data that change over rounds"
    if task.augment is not None:
        found[Fact.SEPARATE_SAMPLES] = (
            "has an augmentation, which changes a whole batch at once: leave off task.augment"
        )
    if task.has_named_inputs or len(_sample_shape(task)) != 3:
        found[Fact.IMAGES] = "has samples that are not images of channels, height and width"
    found[Fact.BATCHNORM] = f"has a model ({type(task.model).__name__}) without BatchNorm"
    for name, layer in task.model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            mixes = (
                f"has a model with {type(layer).__name__} '{name}', which mixes the samples of a batch: use GroupNorm"
            )
            found[Fact.SEPARATE_SAMPLES] = mixes
            found.pop(Fact.BATCHNORM, None)
    return found


def _sample_shape(task: Task) -> tuple[int, ...]:
    """The shape of one prepared sample; empty where a task has several inputs, or no samples here."""
    columns = task.federation.columns
    first = columns["x"][:1] if "x" in columns else None
    if first is None or not len(first):
        return ()
    ready = task.prepare(first) if callable(task.prepare) else first
    return tuple(ready.shape[1:])
