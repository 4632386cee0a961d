"""Execute a prepared run: play all rounds, write the run's folder, and resume after a stop."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedloom import engines as engine
from fedloom.config.schema import to_toml
from fedloom.core.errors import Abandoned, FedloomError, Stopped, unwritable
from fedloom.core.task import Task
from fedloom.files.atomic_write import write_atomic
from fedloom.files.full_disk import explain_full_disk
from fedloom.files.resume_command import resume_command
from fedloom.registry.code_consent import remember_notes
from fedloom.rounds.baseline_scores import score_baselines
from fedloom.rounds.client_work import report_nothing
from fedloom.rounds.composition import Composition
from fedloom.rounds.confusion import count_confusion
from fedloom.rounds.evaluation import is_scored, score_models
from fedloom.rounds.jobs import Engine
from fedloom.rounds.loop import is_over, play_prelude, play_round
from fedloom.rounds.metrics import score_per_selected
from fedloom.rounds.record_keys import HOSTILE, turns_of
from fedloom.rounds.run_state import RunState, initial_state
from fedloom.rounds.score import scores_of
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.callbacks.callback_list import CallbackList
from fedloom.runs.earlier_round import go_back_to_round
from fedloom.runs.folder.begun_rounds import BEGUN, BegunRounds
from fedloom.runs.folder.checkpoint import go_back, load_checkpoint, save_checkpoint, save_start, write_results
from fedloom.runs.folder.fingerprint import refuse_other_task
from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.runs.folder.manifest import CHECKPOINTS, CONFIG, PARTITION
from fedloom.runs.folder.metrics_file import FINISHED, METRICS, TIMINGS, append_record, append_stop, compact_json
from fedloom.runs.folder.recover import keep_records, recover
from fedloom.runs.hostile_groups import with_hostile_groups
from fedloom.runs.more_rounds import prolong
from fedloom.runs.prepare import Prepared
from fedloom.runs.private_rounds import count_replays, read_count, start_count
from fedloom.runs.results.best_round import BestRound
from fedloom.runs.results.client_model import prediction_row
from fedloom.runs.results.forgetting import forgetting
from fedloom.runs.results.history import History
from fedloom.training.threads import single_thread

log = logging.getLogger("fedloom")

PICTURED_CLIENTS = 1000
"""With more clients than this, a run does not store its partition."""


def execute(
    prepared: Prepared,
    folder: Path | None = None,
    observers: Sequence[Observer] = (),
    cores: Engine | None = None,
) -> History:
    """Run from round 0, in memory or into a new folder, on ``cores`` or else on the engine that the config names."""
    history = History(prepared.plain, partition=partition_counts(prepared.composition.task), folder=folder)
    state = initial_state(prepared.composition)
    if folder is None:
        return _run_rounds(prepared, state, history, observers, cores, None)
    config = to_toml(prepared.plain)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error, "name another folder") from None
    with lock_folder(folder):
        if (folder / "config.toml").exists():
            raise FedloomError(f"{folder} already contains a run: resume it, or name another folder.")
        try:
            write_atomic(folder / "partition.json", compact_json(history.partition))
            begun = start_count(prepared, folder)  # before the config: a run without this file has lost it
            write_atomic(folder / "config.toml", config)
            save_start(folder)
            remember_notes(prepared.plain)
        except OSError as error:
            raise unwritable(folder, error, "name another folder") from None
        with explain_full_disk(folder), _forget_start(history, cores):
            return _run_rounds(prepared, state, history, observers, cores, begun)


@contextmanager
def _forget_start(history: History, given: Engine | None) -> Iterator[None]:
    """Remove what a run wrote if an error ends it before its first round, so that it can be started there again.

    A full disk, a stop by the user and missing sites of a deployment leave the folder: such a run continues later.
    """
    folder = history.folder
    try:
        yield
    except Exception as error:
        began = any(record["round"] for record in history.records)
        if folder is not None and given is None and not began and not isinstance(error, OSError):
            for name in (CONFIG, PARTITION, METRICS, TIMINGS, BEGUN):
                (folder / name).unlink(missing_ok=True)
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        raise


def resume(
    prepared: Prepared,
    folder: Path,
    observers: Sequence[Observer] = (),
    cores: Engine | None = None,
    from_round: int | None = None,
) -> History:
    """Continue the run in a folder from its last whole checkpoint, to the same bytes as without the stop.

    With ``from_round`` it goes back to the checkpoint of that round first, and its settings may be others.
    """
    with lock_folder(folder), explain_full_disk(folder):
        begun = read_count(prepared, folder)
        state, history = _state_to_resume(prepared, folder, from_round)
        if begun is not None:
            count_replays(prepared.composition, state, begun)
        return _run_rounds(prepared, state, history, observers, cores, begun)


def _state_to_resume(prepared: Prepared, folder: Path, from_round: int | None) -> tuple[RunState, History]:
    """The state from which a run continues, and what it had measured until then."""
    recover(folder, compact_json(partition_counts(prepared.composition.task)))
    history = History.load(folder)
    if history.stopped is not None and not history.can_continue and from_round is None:
        raise FedloomError(
            f"{folder} has ended ({history.stopped.rstrip('.')}): {resume_command(folder)} --from-round N continues "
            "from an earlier round, with other settings."
        )
    began_with, now = history.config.get("made_by", {}), prepared.plain["made_by"]
    if scores_of(history.config) != scores_of(prepared.plain):
        raise FedloomError(f"{folder} was started with other metrics: give resume a task with the same ones.")
    _refuse_other_torch(began_with, now, folder)
    refuse_other_task(began_with, now["task"], str(folder), "give resume the same task, or restore the data")
    if from_round is not None:
        go_back_to_round(prepared, folder, from_round)
        history = History.load(folder)
    elif prepared.config.rounds > history.config["rounds"]:
        prolong(prepared, folder)
        history = History.load(folder)
    state = load_checkpoint(folder, prepared.composition.task.federation.clients)
    if state is None:  # stopped before its first checkpoint: start again
        state, history.records = initial_state(prepared.composition), []
    history.stopped, history.can_continue = None, False
    history.records = [record for record in history.records if record["round"] <= state.round]
    keep_records(folder, history.records)
    return state, history


def _refuse_other_torch(before: Mapping[str, str], now: Mapping[str, str], folder: Path) -> None:
    if before.get("torch", now["torch"]) != now["torch"]:
        raise FedloomError(
            f"{folder} was started with torch {before['torch']} and this is torch {now['torch']}, which may round "
            f"differently: install torch {before['torch']} to continue to the same bytes, or start a new run."
        )


def rescore(prepared: Prepared, folder: Path) -> list[dict[str, Any]]:
    """Score the models of a finished run on the data of ``prepared``, and return one row per client."""
    state = load_checkpoint(folder, prepared.composition.task.federation.clients)
    if state is None:
        raise FedloomError(f"{folder} has no checkpoint, so its models cannot be scored.")
    run, config = with_hostile_groups(prepared.composition, state), prepared.config
    with single_thread():
        cores = engine.start(run.runtime(), config.workers, config.engine, config.ray_address)
        try:
            return score_models(run, cores, state)[1]
        finally:
            cores.close()


def _run_rounds(
    prepared: Prepared,
    state: RunState,
    history: History,
    observers: Sequence[Observer],
    given: Engine | None,
    begun: BegunRounds | None,
) -> History:
    callbacks, folder = CallbackList(observers), history.folder
    try:
        run, state = _play_rounds(prepared, state, history, callbacks, given, begun)
        if folder is None:
            history.rows_of = partial(prediction_row, run, state)
        else:
            ended = (history.clients, history.confusion, history.baselines)
            write_results(folder, dict(zip(FINISHED, ended, strict=True)))
        callbacks.run_ends(history)
    finally:
        callbacks.close()
    return history


def _play_rounds(
    prepared: Prepared,
    state: RunState,
    history: History,
    callbacks: CallbackList,
    given: Engine | None,
    begun: BegunRounds | None,
) -> tuple[Composition, RunState]:
    """Play what is left of a run into its history, and return the state that it ended with."""
    run, config, folder = prepared.composition, prepared.config, history.folder
    starts = state.round == 0 and not history.records
    run = run if starts else with_hostile_groups(run, state)
    best = BestRound(config.early_stopping, history)
    # What is not saved is played again, and would spend privacy twice.
    checkpoint_every = 1 if run.privacy is not None or run.client_privacy else config.checkpoint_every
    note_begun = None if begun is None else begun.append
    report = callbacks.client_trained if callbacks.hears("client_trained") else report_nothing
    with single_thread():
        cores = given or engine.start(run.runtime(), config.workers, config.engine, config.ray_address)
        try:
            callbacks.begin(history)
            if starts:
                began = time.perf_counter()
                first = _try_round(partial(play_prelude, run, cores, state, note_begun, report), run, 0)
                if run.awaited is not None:
                    run, cores = _draw_from_groups(prepared, state, cores, first)
                if run.eval_every:
                    first["metrics"], history.clients = score_models(run, cores, state)
                _record_exclusions(cores, first)
                first |= {} if run.hostile is None else run.hostile.note()
                if run.eval_every or first["steps"] or HOSTILE in first:
                    _record_round(history, first, callbacks, _seconds_since(began, run))
            best.find(state)
            while not is_over(run, state) and not best.is_over and callbacks.lets_round_begin(state.round + 1):
                began = time.perf_counter()
                history.row = state.server.get("row")
                record = _try_round(lambda: play_round(run, cores, state, note_begun, report), run, state.round + 1)
                last = is_over(run, state)
                if is_scored(run, state.round, last):
                    metrics, history.clients = score_models(run, cores, state)
                    record["metrics"] |= metrics | forgetting(metrics, history.records)
                    record["metrics"] |= _efficiency(run, metrics, turns_of(record) + len(record.get("lost", ())))
                _record_exclusions(cores, record)
                _record_round(history, record, callbacks, _seconds_since(began, run))
                best.update(state)
                last = last or best.is_over or callbacks.reason is not None
                if folder is not None and (last or state.round % checkpoint_every == 0):
                    save_checkpoint(folder, state, best.state)
            if callbacks.reason is not None and not is_over(run, state) and not best.is_over:
                _note_callback_stop(history, callbacks.reason, run, state)
            if best.state is not None and best.state.round < state.round:
                state, history.clients = best.state, []
                if folder is not None:
                    go_back(folder, state)
            history.row = state.server.get("row")
            if not history.clients and run.eval_every:  # it went back to a round, or was killed before its end
                history.clients = score_models(run, cores, state)[1]
            if run.eval_every:
                history.confusion = count_confusion(run, cores, state)
                history.baselines = score_baselines(run, cores, state.round)
        except Stopped as end:
            history.stopped = str(end)
            append_stop(folder, history.stopped)
        finally:
            cores.close()
    return run, state


def _note_callback_stop(history: History, reason: str, run: Composition, state: RunState) -> None:
    """Note that a callback ended the run. Nothing is wrong with it, so it can continue."""
    history.stopped, history.can_continue = reason, True
    append_stop(history.folder, reason, can_continue=True)
    log.info("stopped by a callback after round %s: %s", state.round, reason)
    if not is_scored(run, state.round):
        history.clients = []  # they were those of an earlier round


def _draw_from_groups(
    prepared: Prepared, state: RunState, cores: Engine, record: dict[str, Any]
) -> tuple[Composition, Engine]:
    """The run with hostile clients drawn from its groups, and a new engine: workers copy what clients train on."""
    run, config = with_hostile_groups(prepared.composition, state), prepared.config
    _record_exclusions(cores, record)
    cores.close()
    return run, engine.start(run.runtime(), config.workers, config.engine, config.ray_address)


def _efficiency(run: Composition, metrics: Mapping[str, float], selected: float) -> dict[str, float]:
    """Accuracy, or the task's score, per selected client; nothing where less is better or nothing is sent."""
    scores = ["accuracy", *(metric.name for metric in run.task.metrics[:1] if metric.higher_is_better)]
    named = {key: value for score in scores for key, value in score_per_selected(metrics, score, selected).items()}
    return named if run.exchanges else {}


def _try_round(play: Callable[[], dict[str, Any]], run: Composition, number: int) -> dict[str, Any]:
    """Play a round; if too few clients answer, try it again: the model and what clients keep have not changed."""
    for tries_left in range(run.retries, -1, -1):
        try:
            return play()
        except Abandoned as why:
            reason = f"round {number} was abandoned, the model is unchanged: {why}"
            if not tries_left:
                raise FedloomError(f"{reason}; resume the run when more clients are connected.") from None
            log.warning("%s; trying it again", reason)
    raise AssertionError("a round either ends or is abandoned")


def _record_exclusions(cores: Engine, record: dict[str, Any]) -> None:
    """Add to a round's record which clients' replies were excluded, and why, and what is to be said of others."""
    for key, found in (("excluded", cores.take_exclusions()), ("remarks", cores.take_remarks())):
        if found:
            record[key] = found


def _seconds_since(began: float, run: Composition) -> float | None:
    """How long a round took; None where nobody may learn who was drawn, since more clients take longer."""
    return None if run.draws_are_secret else time.perf_counter() - began


def _record_round(history: History, record: dict[str, Any], callbacks: CallbackList, seconds: float | None) -> None:
    history.records.append(record)
    if seconds is not None:
        history.seconds[record["round"]] = round(seconds, 6)
    append_record(history.folder, record, history.seconds.get(record["round"]))
    callbacks.round_ends(record)


def partition_counts(task: Task) -> dict[str, Any]:
    """The training samples per client and class, with the names of both, and what was made of the user's data.

    If there are too many clients, only the latter.
    """
    federation = task.federation
    notes = {"notes": list(federation.notes)} if federation.notes else {}
    if federation.clients > PICTURED_CLIENTS:
        return notes
    counts, names = federation.counts(), list(federation.class_names)
    if federation.seen is not None:  # of all tasks of the stream, or of the last where it has the others' samples too
        states = [federation.counts(), *(state.counts() for _, state in federation.later)]
        counts = np.maximum.reduce(states)
    return {
        "counts": counts.tolist(),
        "class_names": ["all classes"] if names and counts.shape[1] == 1 else names,
        "client_names": [federation.name(client) for client in range(federation.clients)],
        **notes,
    }
