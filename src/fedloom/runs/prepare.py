"""Prepare a run from a task, a method and a config. A combination that cannot run is refused here, before any work.

In this order: what can be tried is tried, while errors still name the user's own model; the task gets what the method
adds to its model; defaults that depend on the task are filled in; parts are held against each other by their facts, and
each against the task by itself; then everything is put together.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

import torch

import fedloom
from fedloom import engines as engine
from fedloom.aggregation.mean import weights
from fedloom.channel.sub_model_step import SubModelStep
from fedloom.config.compatibility import check_compatibility, part_that_tells_draws
from fedloom.config.python_objects import object_marks
from fedloom.config.schema import RunConfig, as_plain, with_task_section
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.cohort import RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.model.sub_models import SubModels
from fedloom.core.privacy import ClientPrivacy, PlannedRun
from fedloom.core.seeds import numpy_generator
from fedloom.core.selector import Choice, Draws, draws_of
from fedloom.core.task import Task
from fedloom.files.formats import SETTINGS
from fedloom.registry.code_consent import code_notes
from fedloom.registry.signatures import check_signatures
from fedloom.rounds.composition import Composition
from fedloom.rounds.evaluation import check_metrics
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.rounds.score import metric_notes
from fedloom.rounds.screen import Divergence
from fedloom.rounds.training_task import training_task
from fedloom.runs.folder.fingerprint import fingerprint
from fedloom.runs.model_warnings import warn_of_model
from fedloom.runs.part_checks import check_parts, fewest_participants
from fedloom.runs.poisoned_task import poisoned_task
from fedloom.runs.start_model import model_digest, with_start
from fedloom.runs.trial import check_devices, try_models, try_sample_gradients
from fedloom.training.execution import Execution, decide
from fedloom.training.optimizers.user_optimizer import try_optimizer

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start."""

    composition: Composition
    config: RunConfig
    plain: dict[str, Any]


def prepare(
    task: Task, algorithm: Algorithm, config: RunConfig, *, deployed: bool = False, made_of: str | None = None
) -> Prepared:
    """Check and assemble a run.

    Args:
        task: The task, as the user built it.
        algorithm: The method.
        config: The complete config.
        deployed: Whether the clients are machines, whose samples are not here.
        made_of: What tells the task from others, where that is not its data.
    """
    engine.check(config.engine, config.ray_address, config.workers)
    check_signatures(algorithm, Algorithm)
    check_devices(task)
    if not deployed:
        try_models(task)
        warn_of_model(task, algorithm, config.local)
    task, notes = _with_start(task, config)
    # Before the method adds to the model: runs of different methods are compared by the fingerprint of what they share.
    notes = _notes(task, algorithm, config, deployed, made_of) | notes
    task = algorithm.adapt_task(task)
    for own in task.by_architecture:
        try_optimizer(config.local, own)
    execution, executions = executions_of(task, config)
    config = _complete(config, task, execution, executions, notes)
    new = held_out_clients(config, task.federation.clients)
    training = training_task(task, algorithm, new)
    # Pooled data have nobody to select, and neither has a federation of one client.
    selects = training.federation.clients == task.federation.clients > 1
    participants = training.federation.clients - len(new) if selects else training.federation.clients
    check_compatibility(config, algorithm, task, execution.name, deployed)
    plan = planned_run(config, algorithm, training, participants, selects, deployed)
    config = with_planned_noise(config, plan)
    sub_models, steps = channel_steps(config, task)
    check_parts(config, algorithm, task, steps, plan, fewest_participants(task.federation, new) if selects else None)
    hostile = hostile_clients(config, task.federation.clients)
    awaited = config.adversary if config.adversary is not None and config.adversary.waits_for_groups else None
    if not deployed:
        if config.sample_privacy is not None:
            try_sample_gradients(training)
        # After all checks: they and the accounting are about the data that honest clients would have.
        task = task if hostile is None else poisoned_task(task, hostile, config.seed)
    composition = Composition(
        task=task,
        algorithm=algorithm,
        setting=RunSetting(config.local, config.seed, config.rounds, config.sample_privacy),
        execution=execution,
        executions=executions,
        select=config.selection if selects else lambda _: Choice(list(range(training.federation.clients))),
        weigh=lambda samples, steps: weights(config.weight_by, samples, steps),
        aggregator=config.aggregation,
        optimize=config.server_optimizer or algorithm.server,
        stages=tuple(config.prediction),
        steps=steps,
        sub_models=sub_models,
        weight_by=config.weight_by,
        hostile=hostile,
        awaited=awaited,
        downlink=config.downlink,
        privacy=config.aggregation.ledger(plan),
        client_privacy=client_ledgers(config, plan),
        screen=Divergence(math.inf) if hostile or awaited else Divergence(),  # an attack that explodes is to be seen
        new_clients=new,
        eval_every=config.eval_every,
        eval_clients=config.eval_clients,
        size_bounds=config.size_groups,
        clients_on_global=config.clients_on_global,
    )
    if not deployed:
        check_metrics(composition)
    plain = as_plain(config, algorithm)
    later_notes = code_notes(plain) | _note_on_draws(composition, plan)
    if later_notes:
        config = config.model_copy(update={"made_by": {**config.made_by, **later_notes}})
        plain["made_by"] = config.made_by
    return Prepared(composition, config, plain)


def _note_on_draws(run: Composition, plan: PlannedRun) -> dict[str, str]:
    """A note that a private run does not count on draws, and why; it is said once, before the run starts."""
    if run.privacy is None or run.privacy.rate == 1 or plan.tells_draws is None:
        return {}
    log.warning("%s, so epsilon counts every client as drawn in every round", plan.tells_draws)
    return {"draws": f"not counted on: {plan.tells_draws}"}


def channel_steps(config: RunConfig, task: Task) -> tuple[SubModels | None, tuple[ChannelStep, ...]]:
    """The sub-models that clients train, if they do, and the steps between clients and server.

    Args:
        task: Its task, with what the method adds to its model.
    """
    own = tuple(step.for_task(task) for step in config.channel)
    if config.federated_dropout is None:
        return None, own
    sub_models = config.federated_dropout.sub_models(task.model)
    return sub_models, (SubModelStep(sub_models), *own)  # first: what the others see is what a client trained


def planned_run(
    config: RunConfig, algorithm: Algorithm, task: Task, clients: int, selects: bool, deployed: bool
) -> PlannedRun:
    """A run as its accounting sees it.

    Args:
        algorithm: Its method.
        task: The task as its clients train on it.
        clients: How many clients may take part.
        selects: Whether a round selects some of them.
        deployed: Whether they are machines.
    """
    draws: Draws | None = Draws(number=clients)
    if selects:
        draws = draws_of(config.selection, clients)
    told = part_that_tells_draws(config, algorithm, task, config.execution, deployed)
    return PlannedRun(algorithm, task, config.local, config.rounds, clients, draws, deployed, told)


def with_planned_noise(config: RunConfig, plan: PlannedRun) -> RunConfig:
    """The config with the noise that its targets need in this run written out.

    Args:
        plan: The run as its accounting sees it.
    """
    changes: dict[str, Any] = {
        "aggregation": config.aggregation.planned(plan),
        "channel": [step.planned(plan) for step in config.channel],
    }
    if config.sample_privacy is not None:
        changes["sample_privacy"] = config.sample_privacy.planned(plan)
    return config.model_copy(update=changes)


def client_ledgers(config: RunConfig, plan: PlannedRun) -> dict[str, ClientPrivacy]:
    """The ledgers of what clients spend by noise of their own, by its kind.

    Args:
        plan: The run as its accounting sees it.
    """
    found: dict[str, ClientPrivacy] = {}
    if config.sample_privacy is not None:
        found["sample"] = config.sample_privacy.client_ledger(plan)
    for step in config.channel:
        found |= step.client_ledgers(plan)
    return found


def held_out_clients(config: RunConfig, clients: int) -> tuple[int, ...]:
    """Clients held out of training, drawn by the run's seed.

    Args:
        clients: How many clients the federation has.
    """
    number = config.new_clients
    if number >= clients:
        raise FedloomError(f"new_clients={number} holds out all of the {clients} clients: leave at least one to train.")
    drawn = numpy_generator(config.seed, "new clients").choice(clients, number, replace=False)
    return tuple(sorted(int(client) for client in drawn))


def hostile_clients(config: RunConfig, clients: int) -> HostileClients | None:
    """The hostile clients of a run; None if nobody is hostile, which is the plain run, or nobody yet.

    Args:
        clients: How many clients the federation has.
    """
    attack = config.adversary
    if attack is None:
        return None
    if attack.first_round > config.rounds:
        raise FedloomError(
            f"adversary: the attack starts in round {attack.first_round}, and the run has {config.rounds}: start it "
            "earlier."
        )
    if attack.waits_for_groups:
        return None
    held_out = held_out_clients(config, clients)
    participants = [client for client in range(clients) if client not in held_out]
    hostile = HostileClients(attack, attack.members(participants, config.seed))
    return hostile if hostile.members or attack.server_is_hostile else None


def _with_start(task: Task, config: RunConfig) -> tuple[Task, dict[str, str]]:
    """The task with the model that the run starts from, and a note of it; a model that has changed is refused."""
    if config.start_from is None:
        if config.start_without:
            raise FedloomError("start_without names tensors that start_from leaves out: set start_from, or drop it.")
        return task, {}
    task = with_start(task, config.start_from, config.start_without)
    note = {"start_from": model_digest(task.model)}
    if config.made_by.get("start_from", note["start_from"]) != note["start_from"]:
        raise FedloomError(
            f"start_from={config.start_from}: the model there has changed since the run was started: restore it."
        )
    return task, note


def _notes(task: Task, algorithm: Algorithm, config: RunConfig, deployed: bool, made_of: str | None) -> dict[str, str]:
    """What a run notes of itself, so that a resumed one can tell whether it is the same."""
    notes = {"fedloom": fedloom.__version__, "format": str(SETTINGS.version), "torch": torch.__version__}
    notes["task"] = made_of or fingerprint(task)
    return notes | ({} if deployed else object_marks(task, algorithm, str(config.method.get("name"))))


def executions_of(task: Task, config: RunConfig) -> tuple[Execution, tuple[Execution, ...]]:
    """How models of the task train, and how those of each architecture do where clients' models differ.

    Args:
        task: The task of the run, with what the method adds to its model.
    """
    private, work = config.sample_privacy is not None, config.local
    execution = decide(task, config.execution, work, per_sample=private)
    log.info("execution: %s (%s)", execution.name, execution.reason)
    if task.architectures is None:
        return execution, ()
    each = tuple(decide(own, config.execution, work) for own in task.by_architecture)
    for name, one in zip(task.architectures.names, each, strict=True):
        log.info("execution of %s: %s (%s)", name, one.name, one.reason)
    return execution, each


def _complete(
    config: RunConfig, task: Task, execution: Execution, executions: tuple[Execution, ...], notes: dict[str, str]
) -> RunConfig:
    """The config with what depends on the task written out: the execution, early stopping, the task's own section."""
    chosen = config.execution != "auto" and config.made_by.get("execution")  # an earlier run says why it chose it
    start = {key: notes.pop(key) for key in ("start_from",) if key in notes}
    notes |= {"execution": chosen or execution.reason, **start, **metric_notes(task.metrics)}
    name = config.execution if executions else execution.name  # each architecture may have an execution of its own
    config = config.model_copy(update={"execution": name, "made_by": notes})
    if config.early_stopping is not None:
        rule = config.early_stopping.complete(task.federation, config.eval_every, task.score_name)
        config = config.model_copy(update={"early_stopping": rule})
    return with_task_section(config, task.made_from) if task.made_from else config
