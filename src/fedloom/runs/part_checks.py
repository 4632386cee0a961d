"""What the parts of a run refuse themselves: numbers and tasks, of which no fact can speak (``core/facts.py``)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedloom.config.schema import RunConfig
from fedloom.core.algorithm import Algorithm, SelectsGroups
from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.privacy import PlannedRun
from fedloom.core.selector import CheckedSelector, Draws, draws_of
from fedloom.core.task import FederationView, Task
from fedloom.core.warn_once import warn_once
from fedloom.rounds.metrics import size_limits


def check_parts(
    config: RunConfig,
    algorithm: Algorithm,
    task: Task,
    steps: Sequence[ChannelStep],
    plan: PlannedRun,
    selected_from: int | None,
) -> None:
    """Let every part of a run refuse what it cannot use; a ``FedloomError`` says what, and what to use instead.

    Args:
        algorithm: Its method.
        task: Its task, with what the method adds to it.
        steps: The steps of its channel, with those that parts of the run add before the config's.
        plan: The run as its accounting sees it.
        selected_from: How many clients a round selects from at least; None where nobody is selected.
    """
    if selected_from is not None and isinstance(config.selection, CheckedSelector):
        config.selection.check(selected_from, task, algorithm)
    for schedule in (config.local, config.server_optimizer):  # a function of the user's own may fail
        if schedule is not None:
            schedule.factor_at(1, config.rounds)
    size_limits(task.federation.train.sizes, config.size_groups)
    if config.clients_on_global and not len(task.federation.global_test):
        raise FedloomError("clients_on_global=true needs a global test set, but the task has none: leave it off.")
    for own in task.by_architecture:
        algorithm.check(own, config.local)
    for number, stage in enumerate(config.prediction):
        stage.check(algorithm, task, tuple(config.prediction[:number]))
    config.aggregation.check(algorithm, task)
    for number, step in enumerate(steps):
        step.check(algorithm, task, tuple(steps[:number]))
        step.check_rounds(plan)
        if step.is_last and number + 1 < len(steps):
            last, behind = (type(one).__name__.lower() for one in (step, steps[number + 1]))
            raise FedloomError(f"{last} leaves no numbers that {behind} could act on: make {last} the last step.")
    if config.adversary is not None:
        _check_hostile_groups(config, algorithm)
        config.adversary.check(algorithm, task)
    if config.server_optimizer is not None:
        config.server_optimizer.check(algorithm, task)
    if selected_from is not None:
        _check_round_size(config, selected_from)
    _warn_of_settings_without_effect(config, algorithm, task)


def _check_hostile_groups(config: RunConfig, algorithm: Algorithm) -> None:
    """Refuse an attack by groups of a method that forms none."""
    if (
        config.adversary is not None
        and config.adversary.draws_from_formed_groups
        and not isinstance(algorithm, SelectsGroups)
    ):
        raise FedloomError(
            f'adversary: groups="formed" makes groups hostile that the method forms, and {config.method["name"]} forms '
            "none: use fedseq or fedseqinter, list the groups, or leave groups out."
        )


def fewest_participants(federation: FederationView, new: Sequence[int]) -> int:
    """How many clients may take part in every round: in a stream, those who have samples of the task.

    Args:
        federation: The federation of the task.
        new: The clients that are held out of training.
    """
    if federation.seen is None:
        return federation.clients - len(new)
    states = (federation, *(state for _, state in federation.later))
    held_out = torch.isin(torch.arange(federation.clients), torch.tensor(list(new), dtype=torch.int64))
    return min(int(((state.train.sizes > 0) & ~held_out).sum()) for state in states)


def _check_round_size(config: RunConfig, clients: int) -> None:
    """Refuse an aggregator that needs more clients than a round has."""
    selection, least = config.selection, config.aggregation.least_clients
    known = (draws_of(selection, clients) if clients > 1 else None) or Draws()
    per_round = clients if known.number is None else known.number
    usual = per_round if known.rate is None else known.rate * clients
    if usual < least and least > 1:  # a round without anybody is drawn again
        on_average = "" if known.rate is None else " on average"
        raise FedloomError(
            f"the aggregator {config.aggregation.name} needs at least {least} clients in a round, but a round has "
            f"{usual:g}{on_average}: select more clients, or use another aggregator."
        )


def _warn_of_settings_without_effect(config: RunConfig, algorithm: Algorithm, task: Task) -> None:
    """Say what the run will not do, although its settings sound as if it did."""
    if config.aggregation.alone:
        warn_once(f"aggregation {config.aggregation.name} {config.aggregation.alone}")
    late = [since for since, _ in task.federation.later if since > config.rounds]
    if late:
        change = "drift" if task.federation.seen is None else "new task"
        warn_once(f"the {change} of round {late[0]} does not happen: the run has only {config.rounds} rounds")
    if not holds(Fact.TRAINS_HEAD, algorithm) and not any(stage.trains_head for stage in config.prediction):
        name = config.method["name"]
        warn_once(f"{name} does not train the head, so accuracies are those of a random one: use {name}+linearprobe")
