"""From a composition to a finished run: the loop, its folder, and how it goes on after a stop.

``metrics.jsonl`` holds what was measured and nothing that a clock decides, so that a run that was killed and resumed
leaves the same bytes as one that was not; times go to ``timings.jsonl``.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import fedloom
from fedloom import engines as engine
from fedloom.aggregation.mean import weighted_mean
from fedloom.aggregation.weighting import weights
from fedloom.core.algorithm import Algorithm, ServerStep
from fedloom.core.cohort import RunSetting
from fedloom.core.errors import Abandoned, FedloomError, Stopped
from fedloom.core.seeds import numpy_generator
from fedloom.core.selector import Choice
from fedloom.core.task import Task
from fedloom.core.threads import single_thread
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine
from fedloom.rounds.loop import is_over, play_prelude, play_round
from fedloom.rounds.metrics import accuracy_per_selected, size_limits
from fedloom.rounds.run_state import RunState, initial_state
from fedloom.rounds.scoring import is_scored, score_models
from fedloom.runs.atomic_write import append_json, compact_json, write_atomic
from fedloom.runs.checkpoint import load_checkpoint, save_checkpoint
from fedloom.runs.config import RunConfig, as_plain, to_toml
from fedloom.runs.history import History
from fedloom.training.execution import decide

log = logging.getLogger("fedloom")
Observer = Callable[[dict[str, Any]], None]
"""Called with each round's record: progress bars and trackers."""

PICTURED_CLIENTS = 1000
FINGERPRINT_NUMBERS = 1 << 22
"""Of larger inputs, a sample of about this many numbers is hashed."""


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start."""

    composition: Composition
    config: RunConfig
    plain: dict[str, Any]


def prepare(task: Task, algorithm: Algorithm, config: RunConfig, made_of: str | None = None) -> Prepared:
    """Put a run together; everything that can be refused is refused here, before any work.

    ``made_of`` says what the task is made of, where its data do not: it stands for their fingerprint.
    """
    engine.check(config.engine, config.ray_address)
    work = config.local
    execution = decide(task, config.execution, work.batch_size)
    log.info("execution: %s (%s)", execution.name, execution.reason)
    made_by = {"fedloom": fedloom.__version__, "torch": torch.__version__, "task": made_of or fingerprint(task)}
    config = config.model_copy(update={"execution": execution.name, "made_by": made_by})
    new = _new_clients(task, config)
    clients = algorithm.trains_on(task.federation, new).clients
    if clients > 1 and hasattr(config.selection, "per_round"):
        config.selection.per_round(clients - len(new))
    if clients > 1 and hasattr(config.selection, "check"):
        config.selection.check(task, algorithm)
    size_limits(task.federation.train.sizes, config.size_groups)
    if config.clients_on_global and not len(task.federation.global_test):
        raise FedloomError("clients_on_global=true needs a global test set, and the task has none: leave it off.")
    algorithm.check(task, work)
    if execution.name == "compiled" and not algorithm.compiles:
        raise FedloomError(
            f"{config.method.get('name')} has local steps of its own, and execution 'compiled' takes plain ones: use "
            "vectorised or loop."
        )
    late = [since for since, _ in task.federation.later if since > config.rounds]
    if late:
        log.warning("the drift of round %s never comes: the run has %s rounds", late[0], config.rounds)
    for stage in config.prediction:
        stage.check(algorithm, task)
    optimizer = _server_step(algorithm, config, task)
    composition = Composition(
        task=task,
        algorithm=algorithm,
        setting=RunSetting(work, config.seed, config.rounds),
        execution=execution,
        select=config.selection if clients > 1 else lambda _: Choice([0]),
        weigh=lambda samples, steps: weights(config.weight_by, samples, steps),
        aggregator=weighted_mean,
        optimize=optimizer,
        stages=tuple(config.prediction),
        new_clients=new,
        eval_every=config.eval_every,
        eval_clients=config.eval_clients,
        size_bounds=config.size_groups,
        clients_on_global=config.clients_on_global,
    )
    return Prepared(composition, config, as_plain(config, algorithm))


def _new_clients(task: Task, config: RunConfig) -> tuple[int, ...]:
    """Clients held out of training, drawn by the run's seed."""
    clients, number = task.federation.clients, config.new_clients
    if number >= clients:
        raise FedloomError(
            f"new_clients={number} of {clients} clients are held out: at least one must be left to train."
        )
    drawn = numpy_generator(config.seed, "new clients").choice(clients, number, replace=False)
    return tuple(sorted(int(client) for client in drawn))


def execute(
    prepared: Prepared,
    folder: Path | None = None,
    observers: Sequence[Observer] = (),
    cores: Engine | None = None,
) -> History:
    """Run from the beginning, in memory or into a new folder; on ``cores``, or on the engine the config names."""
    history = History(prepared.plain, partition=_partition(prepared.composition.task), folder=folder)
    if folder is not None:
        if (folder / "config.toml").exists():
            raise FedloomError(f"{folder} already holds a run: resume it, or name another folder.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / "partition.json", compact_json(history.partition))
            write_atomic(folder / "config.toml", to_toml(prepared.plain))
        except OSError as error:
            raise FedloomError(f"{folder} cannot be written ({error.strerror}): name another folder.") from None
    return _play(prepared, initial_state(prepared.composition), history, observers, cores)


def resume(
    prepared: Prepared, folder: Path, observers: Sequence[Observer] = (), cores: Engine | None = None
) -> History:
    """Go on with a run's folder from its last checkpoint, to the same bytes as if it had never stopped."""
    history = History.load(folder)
    if history.stopped is not None:
        raise FedloomError(f"{folder} ended by itself ({history.stopped}): there is nothing to resume.")
    began_with = history.config.get("made_by", {}).get("task")
    if began_with != prepared.plain["made_by"]["task"]:
        raise FedloomError(
            f"{folder} began with other data, another partition or another model: give resume the same task, or put "
            "the data back as they were."
        )
    state = load_checkpoint(folder, prepared.composition.task.federation.clients)
    if state is None:  # stopped before its first checkpoint: everything is measured anew
        state, history.records = initial_state(prepared.composition), []
    history.records = [record for record in history.records if record["round"] <= state.round]
    write_atomic(folder / "metrics.jsonl", b"".join(compact_json(record) + b"\n" for record in history.records))
    for observe in observers:
        for record in history.records:
            observe(record)
    return _play(prepared, state, history, observers, cores)


def rescore(prepared: Prepared, folder: Path) -> list[dict[str, Any]]:
    """A row per client of a finished run's models, scored as ``prepared`` says: on other data than the run's own."""
    state = load_checkpoint(folder, prepared.composition.task.federation.clients)
    if state is None:
        raise FedloomError(f"{folder} has no checkpoint: its models cannot be scored anew.")
    return _play(prepared, state, History(prepared.plain), ()).clients


def _play(
    prepared: Prepared,
    state: RunState,
    history: History,
    observers: Sequence[Observer],
    given: Engine | None = None,
) -> History:
    run, config, folder = prepared.composition, prepared.config, history.folder
    with single_thread():
        cores = given or engine.start(run.runtime(), config.workers, config.engine, config.ray_address)
        try:
            if state.round == 0 and not history.records:
                began = time.perf_counter()
                first = _patiently(lambda: play_prelude(run, cores, state), run, 0)
                if run.eval_every:
                    first["metrics"], history.clients = score_models(run, cores, state)
                _say_left_out(cores, first)
                if run.eval_every or first["steps"]:
                    _note(history, first, observers, time.perf_counter() - began)
            while not is_over(run, state):
                began = time.perf_counter()
                history.row = state.server.get("row")
                record = _patiently(lambda: play_round(run, cores, state), run, state.round + 1)
                last = is_over(run, state)
                if is_scored(run, state.round, last):
                    metrics, history.clients = score_models(run, cores, state)
                    record["metrics"] |= metrics
                    chosen = len(record["selected"]) + len(record.get("lost", ()))
                    record["metrics"] |= accuracy_per_selected(metrics, chosen) if run.algorithm.communicates else {}
                _say_left_out(cores, record)
                _note(history, record, observers, time.perf_counter() - began)
                if folder is not None and (last or state.round % config.checkpoint_every == 0):
                    save_checkpoint(folder, state)
            history.row = state.server.get("row")
            if not history.clients and run.eval_every:  # stopped after the last round, before its clients were noted
                history.clients = score_models(run, cores, state)[1]
        except Stopped as end:
            history.stopped = str(end)
            append_json(folder, "metrics.jsonl", {"stopped": history.stopped})
        finally:
            cores.close()
    if folder is not None:
        write_atomic(folder / "clients.json", compact_json(history.clients))
    return history


def _patiently(play: Callable[[], dict[str, Any]], run: Composition, number: int) -> dict[str, Any]:
    """Play a round, and again when too few clients answer: nothing has changed then."""
    for tries_left in range(run.retries, -1, -1):
        try:
            return play()
        except Abandoned as why:
            told = f"round {number} was abandoned, the model is unchanged: {why}"
            if not tries_left:
                raise FedloomError(f"{told}; go on when more clients are connected.") from None
            log.warning("%s; it is tried again", told)
    raise AssertionError("a round ends, or it is abandoned")


def _say_left_out(cores: Engine, record: dict[str, Any]) -> None:
    """Write into a round's record whose answers did not count, and why."""
    left_out = cores.take_exclusions()
    if left_out:
        record["excluded"] = left_out


def _note(history: History, record: dict[str, Any], observers: Sequence[Observer], seconds: float) -> None:
    history.records.append(record)
    append_json(history.folder, "metrics.jsonl", record)
    append_json(history.folder, "timings.jsonl", {"round": record["round"], "seconds": round(seconds, 6)})
    for observe in observers:
        observe(record)


def _partition(task: Task) -> dict[str, Any]:
    federation = task.federation
    if federation.clients > PICTURED_CLIENTS:
        return {}
    return {
        "counts": federation.counts().tolist(),
        "class_names": list(federation.class_names),
        "client_names": [federation.name(client) for client in range(federation.clients)],
    }


def fingerprint(task: Task) -> str:
    """A short number that changes when a task has other data, another partition or drift, or another initial model."""
    federation = task.federation
    digest = hashlib.blake2b(repr((tuple(federation.columns["x"].shape), task.layout.slots)).encode(), digest_size=8)
    digest.update(repr((federation.withheld, [since for since, _ in federation.later])).encode())
    states = (federation, *(later for _, later in federation.later))
    lists = [part for state in states for part in (state.train, state.test, state.valid)]
    inputs = federation.columns["x"].reshape(-1)
    sample = inputs[:: max(1, len(inputs) // FINGERPRINT_NUMBERS)]
    numbers = [
        sample,
        federation.columns["y"],
        task.initial_row(),
        federation.global_test,
        federation.communal,
        *(t for part in lists for t in (part.order, part.starts)),
    ]
    numbers += federation.fingerprint_tensors  # the edges of graphs
    numbers += getattr(task.prepare, "fingerprint_tensors", ())  # the tables of flows
    for tensor in numbers:
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _server_step(algorithm: Algorithm, config: RunConfig, task: Task) -> ServerStep | None:
    """The run's server optimiser or the method's own; both at once, or one without a shared model, is refused."""
    name = config.method.get("name", "the method")
    if (config.server_optimizer or algorithm.server) is not None and not algorithm.averages_every_round:
        raise FedloomError(
            f"{name} averages only every few rounds, and a server optimiser steps after every average: drop it, or set "
            "period = 1."
        )
    if config.server_optimizer is None:
        return algorithm.server
    if algorithm.server is not None:
        raise FedloomError(f"{name} has a server optimiser of its own: drop server_optimizer, or use fedavg with it.")
    if "row" not in algorithm.start(task):
        raise FedloomError(f"{name} has no shared model that a server optimiser could move: drop server_optimizer.")
    return config.server_optimizer
