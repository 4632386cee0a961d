"""The round loop: select, broadcast, train, aggregate, score.

It composes what a run is made of and knows none of it: the method, the selection, the weighting, the aggregator, the
server optimiser and the engine are values. Everything random is keyed and sums are taken in client order, so the
state after a round depends on the state before it and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, ServerStep, State
from fedloom.core.cohort import Setting
from fedloom.core.execution import Execution, cohorts
from fedloom.core.jobs import Engine, Job, Tensors
from fedloom.core.keep import Keep
from fedloom.core.measure import over_clients, size_groups
from fedloom.core.message import Aggregator, Message, Replies
from fedloom.core.seeds import numpy_generator
from fedloom.core.task import Task
from fedloom.errors import FedloomError

SCORED_TOGETHER = 64
"""Clients scored in one job."""
SCORED_AT_ONCE = 2048
"""Clients whose models are in memory together while they are scored."""
SCORED_SAMPLES = 4096
"""Samples of the global test set scored in one job."""


class Diverged(FedloomError):  # noqa: N818
    """A method whose numbers are no longer finite."""


@dataclass(frozen=True)
class Composition:
    """What a run is made of."""

    task: Task
    algorithm: Algorithm
    setting: Setting
    execution: Execution
    select: Callable[[int, int, int], list[int]]
    weigh: Callable[[Tensor, Tensor], Tensor]
    aggregator: Aggregator
    optimize: ServerStep | None
    eval_every: int = 1
    eval_clients: int | None = None
    size_bounds: Sequence[int] | None = None


@dataclass
class RunState:
    """Everything a run carries from round to round: plain tensors and numbers."""

    round: int
    server: State
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    keep: Keep = field(default_factory=lambda: Keep(0))


def begin(run: Composition) -> RunState:
    """The state before the first round."""
    return RunState(0, run.algorithm.start(run.task), {}, Keep(run.task.federation.clients))


def play_round(run: Composition, engine: Engine, state: RunState) -> dict[str, Any]:
    """One round: changes ``state`` and returns its record, without scores of the finished model."""
    number = state.round + 1
    federation = run.algorithm.trains_on(run.task.federation)
    ids = run.select(federation.clients, run.setting.seed, number)
    message = run.algorithm.broadcast(state.server, ids)
    places = {client: place for place, client in enumerate(ids)}
    measure = scored(run, number) and run.algorithm.travels
    jobs = [
        Job("update", number, cohort, [places[client] for client in cohort], measure)
        for cohort in cohorts(ids, federation.train.sizes, run.execution)
    ]
    results = engine.run(jobs, message, state.keep.read(ids))
    for result in results:
        _check_finite(run, result, number)
    merged = _merge(jobs, [{k: v for k, v in result.items() if not k.startswith("kept/")} for result in results])
    replies = Replies(
        ids=ids,
        tensors=_group(merged, "reply/"),
        samples=merged["samples"],
        steps=merged["steps"],
        weights=run.weigh(merged["samples"], merged["steps"]),
        aggregator=run.aggregator,
        clients=federation.clients,
    )
    server = run.algorithm.aggregate(state.server, replies)
    if run.optimize is not None and "row" in server:
        row, state.optimizer = run.optimize(state.server["row"], server["row"], state.optimizer)
        trained = run.task.layout.trained_columns
        server = {**server, "row": row if trained is None else torch.where(trained, row, server["row"])}
    metrics = _local_metrics(run, merged, replies) if measure else {}
    _check_scores(run, number, metrics.values())
    for job, result in zip(jobs, results, strict=True):
        state.keep.write(job.ids, _group(result, "kept/"))
    state.server, state.round = server, number
    travels = run.algorithm.travels
    return {
        "round": number,
        "selected": ids,
        "bytes_down": message.bytes_for(len(ids)) if travels else 0,
        "bytes_up": int(merged["bytes"].sum()) if travels else 0,
        "steps": int(merged["steps"].sum()),
        "metrics": metrics,
    }


def scored(run: Composition, number: int) -> bool:
    """Whether models are scored after a round (always after the last one; never when ``eval_every`` is 0)."""
    return run.eval_every > 0 and (number % run.eval_every == 0 or number == run.setting.rounds)


def score(run: Composition, engine: Engine, state: RunState) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Scores of the models as they stand: named numbers, and a row per scored client."""
    federation, setting, name = run.task.federation, run.setting, run.task.objective.score
    metrics: dict[str, float] = {}
    if "row" in state.server and len(federation.global_test):
        total = len(federation.global_test)
        slices = [[i, min(i + SCORED_SAMPLES, total)] for i in range(0, total, SCORED_SAMPLES)]
        jobs = [Job("global", state.round, part, []) for part in slices]
        results = engine.run(jobs, Message({"row": state.server["row"]}), {})
        sums = {key: sum(float(result[key]) for result in results) for key in ("loss", "score", "counts")}
        metrics[f"global_model/global_test/{name}"] = sums["score"] / sums["counts"]
        metrics["global_model/global_test/loss"] = sums["loss"] / sums["counts"]
    ids = list(range(federation.clients))
    if run.eval_clients is not None and run.eval_clients < len(ids):
        drawn = numpy_generator(setting.seed, "evaluation").choice(len(ids), run.eval_clients, replace=False)
        ids = sorted(int(client) for client in drawn)
    columns = _score_clients(run, engine, state, ids)
    values, losses = columns["score"] / columns["counts"], columns["loss"] / columns["counts"]
    _check_scores(run, state.round, [*metrics.values(), *losses[columns["counts"] > 0].tolist()])
    sizes = federation.train.sizes[torch.tensor(ids)]
    all_groups = size_groups(federation.train.sizes, run.size_bounds)
    groups = [all_groups[client] for client in ids]
    metrics |= over_clients(f"client_model/own_test/{name}", values, sizes, groups)
    metrics |= over_clients("client_model/own_test/loss", losses, sizes, groups)
    rows = [
        {
            "client": client,
            "name": federation.name(client),
            "train": int(size),
            "test": len(federation.test[client]),
            "group": group,
            name: None if torch.isnan(value) else float(value),
            "loss": None if torch.isnan(loss) else float(loss),
        }
        for client, size, group, value, loss in zip(ids, sizes, groups, values, losses, strict=True)
    ]
    return metrics, rows


def _score_clients(run: Composition, engine: Engine, state: RunState, ids: list[int]) -> Tensors:
    """Sums of loss, score and counts per client; clients' kept rows are only read a few thousand at a time."""
    parts = []
    for some in (ids[i : i + SCORED_AT_ONCE] for i in range(0, len(ids), SCORED_AT_ONCE)):
        blocks = [list(range(i, min(i + SCORED_TOGETHER, len(some)))) for i in range(0, len(some), SCORED_TOGETHER)]
        jobs = [Job("score", state.round, [some[place] for place in block], block) for block in blocks]
        message = run.algorithm.broadcast(state.server, some)
        parts.append(_merge(jobs, engine.run(jobs, message, state.keep.read(some))))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _merge(jobs: list[Job], results: list[Tensors]) -> Tensors:
    """The results of all jobs as one, in the order of the clients' places."""
    places = torch.tensor([place for job in jobs for place in job.places])
    order = places.argsort()
    return {name: torch.cat([result[name] for result in results])[order] for name in results[0]}


def _group(tensors: Tensors, prefix: str) -> Tensors:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _local_metrics(run: Composition, merged: Tensors, replies: Replies) -> dict[str, float]:
    metrics: dict[str, float] = {}
    all_groups = size_groups(run.task.federation.train.sizes, run.size_bounds)
    groups = [all_groups[client] for client in replies.ids]
    for model in ("received", "trained"):
        for what, name in (("score", run.task.objective.score), ("loss", "loss")):
            if f"{model}/{what}" in merged:
                values = merged[f"{model}/{what}"]
                metrics |= over_clients(f"{model}_model/own_test/{name}", values, replies.samples, groups)
    return metrics


def _check_finite(run: Composition, result: Tensors, number: int) -> None:
    for name, tensor in result.items():
        sent = name.startswith(("reply/", "kept/")) and tensor.is_floating_point()
        if sent and not (bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())):
            raise _diverged(run, number, "what clients sent back")


def _check_scores(run: Composition, number: int, values: Iterable[float]) -> None:
    if not all(math.isfinite(value) for value in values):
        raise _diverged(run, number, "the loss")


def _diverged(run: Composition, number: int, what: str) -> Diverged:
    return Diverged(
        f"{type(run.algorithm).__name__.lower()} diverged in round {number}: {what} is no longer finite (NaN or "
        f"infinity); try a learning rate below {run.setting.work.lr:g} or a gradient clip."
    )
