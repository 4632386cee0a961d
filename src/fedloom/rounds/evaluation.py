"""Scores of models: of the shared model on the global test set, of clients' models on their own parts.

Every client's own test part counts, and beside it, under names of its own, its validation part where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.message import Message
from fedloom.core.seeds import numpy_generator
from fedloom.core.task import FederationView
from fedloom.rounds.answers import diverged
from fedloom.rounds.client_runtime import VALIDATION
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Engine, Job, Tensors, answered_jobs, merge, with_prefix
from fedloom.rounds.metrics import metric_values, over_clients, size_groups, value_of
from fedloom.rounds.run_state import RunState
from fedloom.training.metric_sums import MetricSums

SCORED_AT_ONCE = 2048
"""Clients whose models are in memory together while they are scored."""
SCORED_NUMBERS = 1 << 24
"""Numbers in the sums of metrics that are in memory together."""
SCORED_SAMPLES = 4096
"""Samples of the global test set scored in one job."""


def is_scored(run: Composition, number: int, over: bool = False) -> bool:
    """Whether models are scored after a round (always after the last one; never when ``eval_every`` is 0)."""
    return run.eval_every > 0 and (number % run.eval_every == 0 or number == run.setting.rounds or over)


def score_models(run: Composition, engine: Engine, state: RunState) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Score the models as they stand: named numbers, and a row per scored client."""
    federation = run.task.federation.at(state.round)
    metrics = _score_shared_model(run, engine, state, federation) | _measure_attack(run, state)
    ids, columns, totals = _score_clients(run, engine, state, federation)
    if not ids:
        check_values(run, state.round, metrics.values())
        return metrics, []
    check_values(run, state.round, metrics.values())
    named, rows = name_client_scores(run, federation, ids, columns, totals)
    return metrics | named, rows


def name_client_scores(
    run: Composition, federation: FederationView, ids: Sequence[int], columns: Tensors, totals: Tensors
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Named numbers over some scored clients, and a row for each of them.

    Args:
        run: What the run is made of.
        federation: The data as they stand in the round.
        ids: The clients.
        columns: What was measured of each of them (``with_metric_values``).
        totals: The sums of metrics over all of them.
    """
    metrics, name = dict[str, float](), run.task.objective.score
    values, losses = columns["score"] / columns["counts"], columns["loss"] / columns["counts"]
    validation = _validation_values(run, with_prefix(columns, VALIDATION))
    index, new_clients = torch.tensor(ids), set(run.new_clients)
    sizes = federation.train.sizes[index]
    groups = size_groups(sizes, run.size_limits(federation))
    new = torch.tensor([client in new_clients for client in ids])
    for kind, measured in ((name, values), ("loss", losses)):
        metrics |= over_clients(f"client_model/own_test/{kind}", measured, sizes, groups, new)
    if "global" in columns:
        metrics |= over_clients(f"client_model/global_test/{name}", columns["global"], sizes, groups, new)
    for metric in run.task.metrics:
        for test in ("own", "global"):
            if f"{test}/{metric.name}" in columns:
                prefix, measured = f"client_model/{test}_test/{metric.name}", columns[f"{test}/{metric.name}"]
                metrics |= over_clients(prefix, measured, sizes, groups, new, metric.higher_is_better)
        metrics |= _entry(f"client_model/own_test/{metric.name}/pooled", value_of(metric, totals[metric.name]))
    if "recall" in columns:
        metrics |= over_clients("client_model/own_test/withheld_recall", columns["recall"], sizes, new=new)
    metrics |= _over_validation_parts(run, validation, totals, sizes, groups, new)
    counts = (sizes, federation.test.sizes[index], federation.points[index])
    rows: list[dict[str, Any]] = [
        {
            "client": client,
            "name": federation.name(client),
            "train": train,
            "test": test,
            "points": points,
            "group": "new" if client in new_clients else group,
            name: None if math.isnan(value) else value,
            "loss": None if math.isnan(loss) else loss,
        }
        for client, group, train, test, points, value, loss in zip(
            ids, groups, *(column.tolist() for column in (*counts, values, losses)), strict=True
        )
    ]
    for row, counted in zip(rows, run.counted_samples(federation.train.sizes)[index].tolist(), strict=True):
        if counted < row["train"]:
            row["counted"] = counted
    if "global" in columns:
        for row, value in zip(rows, columns["global"].tolist(), strict=True):
            row[f"global_{name}"] = value
    for metric in run.task.metrics:
        for test, key in (("own", metric.name), ("global", f"global_{metric.name}")):
            if f"{test}/{metric.name}" in columns:
                for row, value in zip(rows, columns[f"{test}/{metric.name}"].tolist(), strict=True):
                    row[key] = None if math.isnan(value) else value
    for kind, measured in validation.items():
        for row, value in zip(rows, measured.tolist(), strict=True):
            row[f"validation_{kind}"] = None if math.isnan(value) else value
    return metrics, rows


def check_values(run: Composition, number: int, values: Iterable[float]) -> None:
    """Raise an error if a score is not finite."""
    if not all(math.isfinite(value) for value in values):
        raise diverged(run, number, "the loss is no longer finite (NaN or infinity)")


def _validation_values(run: Composition, columns: Tensors) -> Tensors:
    """Each client's score, loss and metrics on its validation part by their names; nothing if nobody has one.

    Args:
        run: What the run is made of.
        columns: What clients measured on their validation parts.
    """
    if not columns:
        return {}
    counts = columns["counts"]
    means = {run.task.objective.score: columns["score"] / counts, "loss": columns["loss"] / counts}
    return means | with_prefix(columns, "own/")


def _over_validation_parts(
    run: Composition, values: Tensors, totals: Tensors, sizes: Tensor, groups: Sequence[str], new: Tensor
) -> dict[str, float]:
    """The named numbers of what clients predict with on their validation parts."""
    prefix, found = "client_model/own_validation", dict[str, float]()
    better = {metric.name: metric.higher_is_better for metric in run.task.metrics}
    for kind, measured in values.items():
        found |= over_clients(f"{prefix}/{kind}", measured, sizes, groups, new, better.get(kind))
    for metric in run.task.metrics if values else ():
        found |= _entry(f"{prefix}/{metric.name}/pooled", value_of(metric, totals[VALIDATION + metric.name]))
    return found


def _entry(name: str, value: float) -> dict[str, float]:
    """A metric under its name; nothing where it is undefined."""
    return {} if math.isnan(value) else {name: value}


def _score_shared_model(
    run: Composition, engine: Engine, state: RunState, federation: FederationView
) -> dict[str, float]:
    """The shared model's mean score and loss on the global test set, where there are both."""
    total = len(federation.global_test)
    if not (holds(Fact.WHOLE_MODEL, run.algorithm) and "row" in state.server and total):
        return {}
    slices = [[start, min(start + SCORED_SAMPLES, total)] for start in range(0, total, SCORED_SAMPLES)]
    jobs = [Job("global", state.round, part, []) for part in slices]
    results = answered_jobs(jobs, engine.run(jobs, Message({"row": state.server["row"]}), {}))[1]
    if len(results) < len(jobs):
        return {}
    sums = {key: sum(float(result[key]) for result in results) for key in ("loss", "score", "counts")}
    scored = {
        f"global_model/global_test/{run.task.objective.score}": sums["score"] / sums["counts"],
        "global_model/global_test/loss": sums["loss"] / sums["counts"],
    }
    for metric in run.task.metrics:
        added = torch.stack([result[f"metric/{metric.name}"][0] for result in results]).sum(0)
        scored |= _entry(f"global_model/global_test/{metric.name}", value_of(metric, added))
    return scored


def _measure_attack(run: Composition, state: RunState) -> dict[str, float]:
    """How far an attack got with the shared model, if there is an attack that measures it and a model to measure."""
    if run.hostile is None or not (holds(Fact.WHOLE_MODEL, run.algorithm) and "row" in state.server):
        return {}
    return run.hostile.measure(state.server["row"], run.context(state.round))


def scored_clients(run: Composition, federation: FederationView) -> Sequence[int]:
    """The clients whose models are scored: all who can be reached, or the same random ``eval_clients`` every time."""
    ids = run.reachable(range(federation.clients))
    if run.eval_clients is None or run.eval_clients >= len(ids):
        return ids
    places = numpy_generator(run.setting.seed, "evaluation").choice(len(ids), run.eval_clients, replace=False)
    return sorted(ids[place] for place in places.tolist())


def _score_clients(
    run: Composition, engine: Engine, state: RunState, federation: FederationView
) -> tuple[list[int], Tensors, Tensors]:
    """The scored clients who answer, sums of loss, score and counts for each of them, and totals of metrics.

    Clients' kept rows are read some thousands at a time. A client's metrics are its values (``own/NAME``): the sums
    that they are made of are added up at once, over the clients who are not held out of training. What is measured on
    validation parts has the same names behind ``VALIDATION``.
    """
    who, parts, at_once, diverged = [], [], _clients_at_once(run), 0
    ids, validates = scored_clients(run, federation), has_validation(federation)
    totals: Tensors = {}
    for some in (list(ids[start : start + at_once]) for start in range(0, len(ids), at_once)):
        together = run.blocks(some)
        jobs = [Job("score", state.round, block, places, measure=validates) for block, places in together]
        message = run.algorithm.broadcast(state.server, some)
        jobs, results, answered = answered_jobs(jobs, engine.run(jobs, message, state.client_states.read(some)))
        these, columns = _leave_out_diverged(run, engine, [some[place] for place in answered], merge(jobs, results))
        diverged += len(answered) - len(these)
        if these:
            who += these
            parts.append(with_metric_values(run, these, columns, totals))
    if diverged > len(who):
        check_values(run, state.round, [math.inf])
    return who, {name: torch.cat([part[name] for part in parts]) for name in (parts[0] if parts else ())}, totals


def _leave_out_diverged(
    run: Composition, engine: Engine, ids: list[int], columns: Tensors
) -> tuple[list[int], Tensors]:
    """The scored clients and their columns without those whose loss or score is not finite; they are named."""
    sums = [column.double() for name, column in columns.items() if name.removeprefix(VALIDATION) in ("loss", "score")]
    fine = torch.stack(sums).isfinite().all(0) if sums else torch.ones(len(ids), dtype=torch.bool)
    if bool(fine.all()):
        return ids, columns
    for place in (~fine).nonzero().flatten().tolist():
        client = ids[place]
        engine.exclude(client, run.task.federation.name(client), "score", "its loss or score is not finite")
    kept = [client for client, stays in zip(ids, fine.tolist(), strict=True) if stays]
    return kept, {name: column[fine] for name, column in columns.items()}


def has_validation(federation: FederationView) -> bool:
    """Whether clients have validation parts, beside their test parts and not in the place of them."""
    return federation.valid is not federation.test and bool(federation.valid.sizes.any())


def check_metrics(run: Composition) -> None:
    """Measure the initial model on one sample, and on two, to refuse a metric of the user's before the run."""
    row, sums = run.task.initial_row(), MetricSums(run.task.metrics, 1)
    for samples in (1, 2) if run.task.metrics else ():
        run.trainer.sample_scores(row, torch.zeros(samples, dtype=torch.int64), sums.of_client(0))
    for metric in run.task.metrics:
        added = sums.sums[metric.name][0]
        if not bool(added.isfinite().all()):
            raise FedloomError(
                f"metric {metric.name}: sums gives a number that is not finite for the initial model, and no sum "
                "with it has a value: let it give 0 where nothing counts."
            )
        value_of(metric, added)


def _clients_at_once(run: Composition) -> int:
    """How many clients are scored together: fewer where the sums of their metrics are long."""
    if not run.task.metrics:
        return SCORED_AT_ONCE
    row, first = run.task.initial_row(), torch.zeros(1, dtype=torch.int64)
    sums = MetricSums(run.task.metrics, 1).rows(lambda watch: run.trainer.sample_scores(row, first, watch))
    fit = SCORED_NUMBERS // max(1, sum(rows.numel() for rows in sums.values()))
    return max(run.scored_together, min(SCORED_AT_ONCE, fit // run.scored_together * run.scored_together))


def with_metric_values(run: Composition, ids: Sequence[int], columns: Tensors, totals: Tensors) -> Tensors:
    """The columns of some clients with values instead of sums of metrics; the sums are added to ``totals``."""
    if not run.task.metrics:
        return columns
    new_clients = set(run.new_clients)
    known = torch.tensor([client not in new_clients for client in ids])
    kept = {
        name: column for name, column in columns.items() if not name.startswith(("metric/", f"{VALIDATION}metric/"))
    }
    for part in ("", VALIDATION) if f"{VALIDATION}counts" in columns else ("",):
        sums = with_prefix(columns, f"{part}metric/")
        for name, rows in sums.items():
            totals[part + name] = rows[known].sum(0) + totals.get(part + name, 0)
        values = metric_values(run.task.metrics, sums, columns[f"{part}counts"])
        kept |= {f"{part}own/{name}": column for name, column in values.items()}
    return kept


def local_metrics(run: Composition, number: int, measured: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Scores of the selected clients' models as they received them and as they trained them.

    Args:
        run: What the run is made of.
        number: The round.
        measured: For each client ``received/score``, ``trained/loss`` and so on, as far as it has them.
    """
    metrics: dict[str, float] = {}
    ids = sorted(measured)
    if not ids:
        return metrics
    federation = run.training_federation(number)
    samples = federation.train.sizes[torch.tensor(ids)]
    groups = size_groups(samples, run.size_limits(federation))
    for model in ("received", "trained"):
        for what, name in (("score", run.task.objective.score), ("loss", "loss")):
            if f"{model}/{what}" in measured[ids[0]]:
                values = torch.tensor([measured[client][f"{model}/{what}"] for client in ids])
                metrics |= over_clients(f"{model}_model/own_test/{name}", values, samples, groups)
        for metric in run.task.metrics:
            if f"{model}/metric/{metric.name}" in measured[ids[0]]:
                found = [measured[client][f"{model}/metric/{metric.name}"] for client in ids]
                values, prefix = torch.tensor(found, dtype=torch.float64), f"{model}_model/own_test/{metric.name}"
                metrics |= over_clients(prefix, values, samples, groups, None, metric.higher_is_better)
    return metrics
