"""The round loop: select, broadcast, train, aggregate, score.

It composes what a run is made of and knows none of it: the method, the selection, the weighting, the aggregator, the
server optimiser and the engine are values. Everything random is keyed and sums are taken in client order, so the
state after a round depends on the state before it and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, ServerStep, State
from fedloom.core.cohort import Setting
from fedloom.core.message import Aggregator, Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.seeds import numpy_generator
from fedloom.core.selector import Selector
from fedloom.core.server_context import ServerContext
from fedloom.core.task import FederationView, Task
from fedloom.rounds.client_selection import chosen
from fedloom.rounds.client_states import ClientStates
from fedloom.rounds.exchange import Abandoned, Diverged, Ledger, blocks, check_values, done, exchange, merge
from fedloom.rounds.jobs import ClientRuntime, Engine, Job, Tensors
from fedloom.rounds.metrics import over_clients, size_groups
from fedloom.training.execution import Execution
from fedloom.training.local_trainer import LocalTrainer

__all__ = [
    "Abandoned",
    "Composition",
    "Diverged",
    "RunState",
    "begin",
    "ended",
    "play_prelude",
    "play_round",
    "score",
    "scored",
]

SCORED_TOGETHER = 64
"""Clients scored in one job."""
SCORED_AT_ONCE = 2048
"""Clients whose models are in memory together while they are scored."""
SCORED_SAMPLES = 4096
"""Samples of the global test set scored in one job."""


@dataclass(frozen=True)
class Composition:
    """What a run is made of."""

    task: Task
    algorithm: Algorithm
    setting: Setting
    execution: Execution
    select: Selector
    weigh: Callable[[Tensor, Tensor], Tensor]
    aggregator: Aggregator
    optimize: ServerStep | None
    stages: tuple[PredictionStage, ...] = ()
    new_clients: tuple[int, ...] = ()
    """Clients held out of training altogether: they are only scored."""
    eval_every: int = 1
    eval_clients: int | None = None
    size_bounds: Sequence[int] | None = None
    clients_on_global: bool = False
    quorum: int = 1
    """The fewest clients whose answers make a round."""
    retries: int = 0
    """How often a round with fewer is tried again."""
    scored_together: int = SCORED_TOGETHER
    present: Callable[[], Collection[int]] | None = None
    """Who can be reached now, and so be scored; everyone where nobody asks. A round is for all clients: those who are
    away do not answer."""

    def training(self, round_number: int) -> FederationView:
        """The federation that is trained on in a round."""
        return self.algorithm.trains_on(self.task.federation.at(round_number), self.new_clients)

    @cached_property
    def trainer(self) -> LocalTrainer:
        """The machinery of the task itself: for scoring, and for the server's own passes."""
        return LocalTrainer(self.task, self.execution.name)

    def runtime(self) -> ClientRuntime:
        """What a process needs to do this run's jobs."""
        held = self.algorithm.trains_on(self.task.federation, self.new_clients)
        same = held is self.task.federation
        training = self.trainer if same else LocalTrainer(replace(self.task, federation=held), self.execution.name)
        return ClientRuntime(self.algorithm, training, self.trainer, self.setting, self.stages, self.clients_on_global)

    def context(self, round_number: int) -> ServerContext:
        """The server's workplace in a round."""
        clients = list(range(self.training(round_number).clients))
        if self.new_clients and len(clients) > 1:
            clients = [client for client in clients if client not in self.new_clients]
        setting = self.setting
        return ServerContext(
            self.trainer, setting.work, setting.seed, round_number, setting.rounds, clients, self.weigh
        )

    def reachable(self, clients: list[int]) -> list[int]:
        """Those of some clients who can be reached now."""
        if self.present is None:
            return clients
        present = set(self.present())
        return [client for client in clients if client in present]


@dataclass
class RunState:
    """Everything a run carries from round to round: plain tensors and numbers."""

    round: int
    server: State
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    client_states: ClientStates = field(default_factory=lambda: ClientStates(0))
    selection: dict[str, Tensor] = field(default_factory=dict)


def begin(run: Composition) -> RunState:
    """The state before the first round."""
    return RunState(0, run.algorithm.start(run.task), {}, ClientStates(run.task.federation.clients))


def play_prelude(run: Composition, engine: Engine, state: RunState) -> dict[str, Any]:
    """What a method does once before its first round: changes ``state`` and returns the record of round 0."""
    engine.begin(0)
    context, ledger = run.context(0), Ledger()
    prelude = run.algorithm.prelude(state.server, context)
    if prelude is not None:
        state.server = _played(run, engine, state, prelude, context, ledger, measure=False)
    return _record(0, ledger, {})


def play_round(run: Composition, engine: Engine, state: RunState) -> dict[str, Any]:
    """One round: changes ``state`` and returns its record, without scores of the finished model."""
    number = state.round + 1
    engine.begin(number)
    context, ledger = run.context(number), Ledger()
    choice = chosen(run, engine, state, context, ledger)
    measure = scored(run, number) and run.algorithm.travels
    server = _played(
        run, engine, state, run.algorithm.play(state.server, choice.places, context), context, ledger, measure
    )
    if run.optimize is not None and "row" in server:
        row, state.optimizer = run.optimize(state.server["row"], server["row"], state.optimizer)
        trained = run.task.layout.trained_columns
        server = {**server, "row": row if trained is None else torch.where(trained, row, server["row"])}
    metrics = _local_metrics(run, context, ledger) if measure else {}
    check_values(run, number, metrics.values())
    state.server, state.round, state.selection = server, number, dict(choice.state)
    return _record(number, ledger, metrics, choice.lost)


def _record(number: int, ledger: Ledger, metrics: dict[str, float], lost: Sequence[int] = ()) -> dict[str, Any]:
    record = {"round": number, "selected": sorted(ledger.selected) if number else []}
    if lost:
        record["lost"] = list(lost)
    costs = {name: getattr(ledger, name) for name in ("bytes_down", "bytes_up", "bytes_between", "steps")}
    return {**record, **costs, "metrics": metrics}


def _played(
    run: Composition,
    engine: Engine,
    state: RunState,
    game: Round,
    context: ServerContext,
    ledger: Ledger,
    measure: bool,
) -> State:
    """Drive a method's round: send each wave it yields, hand it the replies, until it returns the new state."""
    try:
        wave = next(game)
        while True:
            wave = game.send(exchange(run, engine, state, context, wave, ledger, measure))
    except StopIteration as end:
        server: State = end.value
        return server


def scored(run: Composition, number: int, over: bool = False) -> bool:
    """Whether models are scored after a round (always after the last one; never when ``eval_every`` is 0)."""
    return run.eval_every > 0 and (number % run.eval_every == 0 or number == run.setting.rounds or over)


def ended(run: Composition, state: RunState) -> bool:
    """Whether a run has no more rounds: they are all played, or its method has finished."""
    return state.round >= run.setting.rounds or run.algorithm.finished(state.server)


def score(run: Composition, engine: Engine, state: RunState) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Scores of the models as they stand: named numbers, and a row per scored client."""
    federation, setting, name = run.task.federation.at(state.round), run.setting, run.task.objective.score
    metrics: dict[str, float] = {}
    if run.algorithm.whole and "row" in state.server and len(federation.global_test):
        total = len(federation.global_test)
        slices = [[i, min(i + SCORED_SAMPLES, total)] for i in range(0, total, SCORED_SAMPLES)]
        jobs = [Job("global", state.round, part, []) for part in slices]
        results = done(jobs, engine.run(jobs, Message({"row": state.server["row"]}), {}))[1]
        if len(results) == len(jobs):
            sums = {key: sum(float(result[key]) for result in results) for key in ("loss", "score", "counts")}
            metrics[f"global_model/global_test/{name}"] = sums["score"] / sums["counts"]
            metrics["global_model/global_test/loss"] = sums["loss"] / sums["counts"]
    ids = run.reachable(list(range(federation.clients)))
    if run.eval_clients is not None and run.eval_clients < len(ids):
        drawn = numpy_generator(setting.seed, "evaluation").choice(len(ids), run.eval_clients, replace=False)
        ids = sorted(ids[place] for place in drawn)
    ids, columns = _score_clients(run, engine, state, ids)
    if not ids:
        check_values(run, state.round, metrics.values())
        return metrics, []
    values, losses = columns["score"] / columns["counts"], columns["loss"] / columns["counts"]
    check_values(run, state.round, [*metrics.values(), *losses[columns["counts"] > 0].tolist()])
    sizes = federation.train.sizes[torch.tensor(ids)]
    all_groups = size_groups(federation.train.sizes, run.size_bounds)
    groups = [all_groups[client] for client in ids]
    new = torch.tensor([client in run.new_clients for client in ids])
    for kind, measured in ((name, values), ("loss", losses)):
        metrics |= over_clients(f"client_model/own_test/{kind}", measured, sizes, groups, new)
    if "global" in columns:
        metrics |= over_clients(f"client_model/global_test/{name}", columns["global"], sizes, groups, new)
    if "recall" in columns:
        metrics |= over_clients("client_model/own_test/withheld_recall", columns["recall"], sizes, new=new)
    rows = [
        {
            "client": client,
            "name": federation.name(client),
            "train": int(size),
            "test": len(federation.test[client]),
            "points": int(federation.points[client]),
            "group": "new" if client in run.new_clients else group,
            name: None if torch.isnan(value) else float(value),
            "loss": None if torch.isnan(loss) else float(loss),
        }
        for client, size, group, value, loss in zip(ids, sizes, groups, values, losses, strict=True)
    ]
    for row, value in zip(rows, columns.get("global", ()), strict=False):
        row[f"global_{name}"] = float(value)
    return metrics, rows


def _score_clients(run: Composition, engine: Engine, state: RunState, ids: list[int]) -> tuple[list[int], Tensors]:
    """Those of some clients who answer, and sums of loss, score and counts for each of them.

    Clients' kept rows are only read a few thousand at a time.
    """
    who, parts = [], []
    for some in (ids[i : i + SCORED_AT_ONCE] for i in range(0, len(ids), SCORED_AT_ONCE)):
        jobs = [Job("score", state.round, block, places) for block, places in blocks(some, run.scored_together)]
        message = run.algorithm.broadcast(state.server, some)
        jobs, results, answered = done(jobs, engine.run(jobs, message, state.client_states.read(some)))
        if answered:
            who += [some[place] for place in answered]
            parts.append(merge(jobs, results))
    return who, {name: torch.cat([part[name] for part in parts]) for name in (parts[0] if parts else ())}


def _local_metrics(run: Composition, context: ServerContext, ledger: Ledger) -> dict[str, float]:
    """Scores of the selected clients' models as they received them and as they trained them."""
    metrics: dict[str, float] = {}
    sizes = run.training(context.round).train.sizes
    all_groups = size_groups(sizes, run.size_bounds)
    ids = sorted(ledger.measured)
    groups, samples = [all_groups[client] for client in ids], sizes[torch.tensor(ids)] if ids else sizes
    for model in ("received", "trained"):
        for what, name in (("score", run.task.objective.score), ("loss", "loss")):
            if ids and f"{model}/{what}" in ledger.measured[ids[0]]:
                values = torch.tensor([ledger.measured[client][f"{model}/{what}"] for client in ids])
                metrics |= over_clients(f"{model}_model/own_test/{name}", values, samples, groups)
    return metrics
