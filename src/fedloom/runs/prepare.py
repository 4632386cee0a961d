"""Prepare a run from a task, a method and a config. A combination that cannot run is refused here."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import fedloom
from fedloom import engines as engine
from fedloom.aggregation.mean import Mean, weights
from fedloom.config.python_objects import object_marks
from fedloom.config.schema import RunConfig, as_plain, with_task_section
from fedloom.core.algorithm import Algorithm, ServerStep
from fedloom.core.cohort import RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.selector import CheckedSelector, Choice
from fedloom.core.task import FederationView, Task
from fedloom.files.formats import SETTINGS
from fedloom.privacy.noise_settings import ClientPrivacy
from fedloom.registry.code_consent import code_notes
from fedloom.registry.signatures import check_signatures
from fedloom.rounds.composition import Composition
from fedloom.rounds.exchange.hostile_clients import HostileClients
from fedloom.rounds.exchange.screening import Divergence
from fedloom.rounds.metrics import size_limits
from fedloom.rounds.score import metric_notes
from fedloom.rounds.scoring import check_metrics
from fedloom.rounds.training_task import training_task
from fedloom.runs.architecture_check import architecture_executions, check_architectures
from fedloom.runs.device_check import check_devices
from fedloom.runs.downlink_check import check_downlink
from fedloom.runs.federated_dropout_check import (
    channel_steps,
    check_federated_dropout,
    cutting_steps,
    sub_models_of,
)
from fedloom.runs.fingerprint import fingerprint
from fedloom.runs.local_noise_check import local_ledger, sum_ledger
from fedloom.runs.output_check import check_outputs
from fedloom.runs.privacy_check import privacy_ledger
from fedloom.runs.sample_privacy_check import sample_ledger
from fedloom.runs.start_model import model_digest, with_start
from fedloom.runs.sum_check import check_sums
from fedloom.selection.sampling import PerRound
from fedloom.training.execution import decide

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start."""

    composition: Composition
    config: RunConfig
    plain: dict[str, Any]


def prepare(task: Task, algorithm: Algorithm, config: RunConfig, made_of: str | None = None) -> Prepared:
    """Check and assemble a run. Everything that can be refused is refused here, before training starts.

    ``made_of`` replaces the fingerprint of the task, for tasks whose data are not in this process.
    """
    engine.check(config.engine, config.ray_address, config.workers)
    check_signatures(algorithm, Algorithm)
    check_devices(task)
    if made_of is None:  # a server without data has no sample
        check_outputs(task)
    check_architectures(task, algorithm, config, has_data=made_of is None)
    started = {}
    if config.start_from is not None:
        task = with_start(task, config.start_from)
        started = {"start_from": model_digest(task.model)}
        if config.made_by.get("start_from", started["start_from"]) != started["start_from"]:
            raise FedloomError(
                f"start_from={config.start_from}: the model there has changed since the run was started: restore it."
            )
    made_by = {"fedloom": fedloom.__version__, "format": str(SETTINGS.version), "torch": torch.__version__}
    made_by["task"] = made_of or fingerprint(task)
    made_by |= object_marks(task, algorithm, str(config.method.get("name"))) if made_of is None else {}
    task, work = algorithm.adapt_task(task), config.local
    execution = decide(task, config.execution, work.batch_size, per_sample=config.sample_privacy is not None)
    log.info("execution: %s (%s)", execution.name, execution.reason)
    executions = architecture_executions(task, config)
    chosen = config.execution != "auto" and config.made_by.get("execution")  # an earlier run says why it chose it
    made_by |= {"execution": chosen or execution.reason, **started}
    made_by |= metric_notes(task.metrics)
    name = config.execution if executions else execution.name  # each architecture may have an execution of its own
    config = config.model_copy(update={"execution": name, "made_by": made_by})
    if config.early_stopping is not None:
        rule = config.early_stopping.complete(task.federation, config.eval_every, task.score_name)
        config = config.model_copy(update={"early_stopping": rule})
    if task.made_from:
        config = with_task_section(config, task.made_from)
    new = held_out_clients(config, task.federation.clients)
    clients = training_task(task, algorithm, new).federation.clients
    selects = clients == task.federation.clients > 1  # pooled data have nobody to select
    fewest = _fewest_participants(task.federation, new) if selects else clients
    if selects and isinstance(config.selection, CheckedSelector):
        config.selection.check(fewest, task, algorithm)
    size_limits(task.federation.train.sizes, config.size_groups)
    if config.clients_on_global and not len(task.federation.global_test):
        raise FedloomError("clients_on_global=true needs a global test set, but the task has none: leave it off.")
    for own in task.by_architecture:
        algorithm.check(own, work)
    if execution.name == "compiled" and not algorithm.compiles:
        raise FedloomError(
            f"{config.method.get('name')} has its own local steps, which execution 'compiled' does not support: use "
            "vectorised or loop."
        )
    late = [since for since, _ in task.federation.later if since > config.rounds]
    if late:
        change = "drift" if task.federation.seen is None else "new task"
        log.warning("the %s of round %s does not happen: the run has only %s rounds", change, late[0], config.rounds)
    for number, stage in enumerate(config.prediction):
        stage.check(algorithm, task, tuple(config.prediction[:number]))
    if not algorithm.trains_head and not any(stage.trains_head for stage in config.prediction):
        log.warning(
            "%s does not train the head, so accuracies are those of a random one: use %s+linearprobe",
            *[config.method.get("name")] * 2,
        )
    _check_updates(algorithm, config, task)
    if selects:
        _check_round_size(config, fewest)
    optimizer = _server_step(algorithm, config, task)
    sub_models = sub_models_of(config, task)
    hostile = hostile_clients(config, task.federation.clients)
    if hostile is not None and made_of is None:  # a server without data has none to poison
        task = hostile.poison_task(task, config.seed)
    ledgers = client_ledgers(config, algorithm, training_task(task, algorithm, new), deployed=made_of is not None)
    composition = Composition(
        task=task,
        algorithm=algorithm,
        setting=RunSetting(work, config.seed, config.rounds, config.sample_privacy),
        execution=execution,
        executions=executions,
        select=config.selection if selects else lambda _: Choice(list(range(clients))),
        weigh=lambda samples, steps: weights(config.weight_by, samples, steps),
        aggregator=config.aggregation,
        optimize=optimizer,
        stages=tuple(config.prediction),
        steps=channel_steps(config, task, sub_models),
        sub_models=sub_models,
        weight_by=config.weight_by,
        hostile=hostile,
        downlink=config.downlink,
        privacy=privacy_ledger(config, algorithm, clients - len(new), deployed=made_of is not None),
        client_privacy=ledgers,
        screen=Divergence() if hostile is None else Divergence(math.inf),  # an attack that explodes is to be seen
        new_clients=new,
        eval_every=config.eval_every,
        eval_clients=config.eval_clients,
        size_bounds=config.size_groups,
        clients_on_global=config.clients_on_global,
    )
    if made_of is None:
        check_metrics(composition)
    plain = as_plain(config, algorithm)
    notes = code_notes(plain)
    if notes:
        config = config.model_copy(update={"made_by": {**made_by, **notes}})
        plain["made_by"] = config.made_by
    return Prepared(composition, config, plain)


def client_ledgers(config: RunConfig, algorithm: Algorithm, task: Task, deployed: bool) -> dict[str, ClientPrivacy]:
    """The ledgers of what clients spend by noise of their own, by its kind.

    Args:
        config: The config of the run.
        algorithm: Its method.
        task: The task as its clients train on it.
        deployed: Whether the clients are machines.
    """
    found = {
        "sample": sample_ledger(config, algorithm, task, deployed),
        "local": local_ledger(config, algorithm, deployed),
        "sum": sum_ledger(config, algorithm, task, deployed),
    }
    return {name: ledger for name, ledger in found.items() if ledger is not None}


def held_out_clients(config: RunConfig, clients: int) -> tuple[int, ...]:
    """Clients held out of training, drawn by the run's seed.

    Args:
        config: The config of the run.
        clients: How many clients the federation has.
    """
    number = config.new_clients
    if number >= clients:
        raise FedloomError(f"new_clients={number} holds out all of the {clients} clients: leave at least one to train.")
    drawn = numpy_generator(config.seed, "new clients").choice(clients, number, replace=False)
    return tuple(sorted(int(client) for client in drawn))


def hostile_clients(config: RunConfig, clients: int) -> HostileClients | None:
    """The hostile clients of a run, if it has an adversary.

    Args:
        config: The config of the run.
        clients: How many clients the federation has.
    """
    if config.adversary is None:
        return None
    held_out = held_out_clients(config, clients)
    participants = [client for client in range(clients) if client not in held_out]
    return HostileClients(config.adversary, config.adversary.members(participants, config.seed))


def _check_updates(algorithm: Algorithm, config: RunConfig, task: Task) -> None:
    """Refuse an aggregator, a channel or an adversary for a method that has no use for it."""
    name = config.method.get("name", "the method")
    if config.aggregation != Mean() and not (algorithm.communicates and algorithm.aggregates):
        aggregator = type(config.aggregation).__name__.lower()
        raise FedloomError(
            f"{name} does not take one mean of what its clients send, so the aggregator {aggregator} would change "
            "nothing: leave it out."
        )
    config.aggregation.check(algorithm, task)
    if config.channel and not (algorithm.sends_updates or algorithm.sends_coded):
        raise FedloomError(f"{name} sends no update of a model that a channel could change: leave out the channel.")
    for step in config.channel if not algorithm.sends_updates else ():
        if not step.codes_statistics:
            raise FedloomError(
                f"{name} sends statistics and no update of a model, on which the step {type(step).__name__.lower()} "
                "could act: use qsgd or halfprecision, or leave it out."
            )
    check_federated_dropout(config, algorithm)
    check_sums(config, task.federation.clients)
    first = cutting_steps(sub_models_of(config, task))
    for number, step in enumerate(config.channel):
        step.check(algorithm, task, (*first, *config.channel[:number]))
        if number and config.channel[number - 1].is_last:
            behind, last = (type(one).__name__.lower() for one in (step, config.channel[number - 1]))
            raise FedloomError(f"{last} packs what it sends, so {behind} has no numbers to act on: put {last} last.")
    check_downlink(config, algorithm)
    if config.adversary is not None:
        config.adversary.check(algorithm, task)


def _fewest_participants(federation: FederationView, new: Sequence[int]) -> int:
    """How many clients may take part in every round: in a stream, those who have samples of the task."""
    if federation.seen is None:
        return federation.clients - len(new)
    states = (federation, *(state for _, state in federation.later))
    held_out = torch.isin(torch.arange(federation.clients), torch.tensor(list(new), dtype=torch.int64))
    return min(int(((state.train.sizes > 0) & ~held_out).sum()) for state in states)


def _check_round_size(config: RunConfig, clients: int) -> None:
    """Refuse an aggregator that needs more clients than a round has."""
    selection, least = config.selection, config.aggregation.least_clients
    per_round = selection.per_round(clients) if isinstance(selection, PerRound) and clients > 1 else clients
    if per_round < least:
        raise FedloomError(
            f"the aggregator {type(config.aggregation).__name__.lower()} needs at least {least} clients in a round, "
            f"but a round has {per_round}: select more clients, or use another aggregator."
        )


def _server_step(algorithm: Algorithm, config: RunConfig, task: Task) -> ServerStep | None:
    """The run's server optimiser, or else the method's. Both at once, or one without a shared model, are refused."""
    name = config.method.get("name", "the method")
    if (config.server_optimizer or algorithm.server) is not None and not algorithm.averages_every_round:
        raise FedloomError(
            f"not every round of {name} ends with an average of its clients' models, after which a server optimiser "
            "would step: drop the optimiser."
        )
    if config.server_optimizer is None:
        return algorithm.server
    if algorithm.server is not None:
        raise FedloomError(f"{name} has its own server optimiser: drop server_optimizer, or use fedavg with it.")
    own = algorithm.has_personal_models and "row" not in algorithm.receives  # a model that no client gets
    if not algorithm.aggregates:
        raise FedloomError(
            f"the rounds of {name} do not end with one average of all models, after which a server optimiser would "
            "step: drop server_optimizer."
        )
    if own or "row" not in algorithm.start(task):
        raise FedloomError(f"{name} has no shared model that a server optimiser could update: drop server_optimizer.")
    return config.server_optimizer
