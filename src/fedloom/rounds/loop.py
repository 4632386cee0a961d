"""The round loop: select, broadcast, train, aggregate.

It composes what a run is made of and knows none of it: the method, the selection, the weighting, the aggregator, the
server optimiser and the engine are values. Everything random is keyed and sums are taken in client order, so the
state after a round depends on the state before it and on nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fedloom.core.aggregator import TOLERATED, AggregatorMemory
from fedloom.core.algorithm import Round, ScheduledServerStep, ServerStep, State, groups_of
from fedloom.core.errors import FedloomError, Stopped
from fedloom.rounds.client_selection import select_clients
from fedloom.rounds.client_work import Report, report_nothing
from fedloom.rounds.composition import Composition
from fedloom.rounds.evaluation import check_values, is_scored, local_metrics
from fedloom.rounds.exchange.asking import asking_of
from fedloom.rounds.exchange.budget import epsilons
from fedloom.rounds.exchange.line import exchange, line_of
from fedloom.rounds.exchange.silence import NothingSent
from fedloom.rounds.jobs import Engine
from fedloom.rounds.method_check import check_state, check_wave
from fedloom.rounds.record_keys import DRAWN
from fedloom.rounds.round_context import RoundContext
from fedloom.rounds.round_costs import RoundCosts
from fedloom.rounds.run_state import RunState, packed_groups

log = logging.getLogger("fedloom")


NoteBegun = Callable[[int], None]
"""Called with a round's number before anything is drawn, where that must survive a stop."""


def play_prelude(
    run: Composition,
    engine: Engine,
    state: RunState,
    note_begun: NoteBegun | None = None,
    report: Report = report_nothing,
) -> dict[str, Any]:
    """Do what a method does once before its first round: change ``state`` and return the record of round 0."""
    engine.begin(0)
    context, costs = run.context(0), _open_costs(run, state)
    prelude = run.algorithm.prelude(state.server, context)
    if prelude is not None:
        if run.client_privacy and run.privacy is None:  # beside a private mean nobody may be asked before round 1
            _count_play(state, 0, note_begun)
        server = _drive(RoundContext(run, engine, state, context, costs, report=report), prelude)
        check_state(run.algorithm, server)
        state.server, state.aggregator, state.down = server, costs.memory.tensors(), dict(costs.down)
        state.remember(costs.norms)
    if run.awaited is not None:
        state.formed = packed_groups(groups_of(run.algorithm, state.server) or [])
    return _record(0, costs, costs.findings)


def play_round(
    run: Composition,
    engine: Engine,
    state: RunState,
    note_begun: NoteBegun | None = None,
    report: Report = report_nothing,
) -> dict[str, Any]:
    """Play one round: change ``state`` and return the round's record, without scores of the new model.

    Args:
        run: What the run is made of.
        engine: Where jobs run.
        state: The state before the round; it is changed.
        note_begun: Called with the round's number before anything is drawn, where that must survive a stop.
        report: Called with the work of each client whose answer counts.
    """
    number = state.round + 1
    if run.awaited is not None:
        raise AssertionError("groups are formed, and hostile clients were not drawn from them")
    engine.begin(number)
    _check_budget(run, state)
    if run.privacy is not None or run.client_privacy:
        _count_play(state, number, note_begun)
    context, costs = run.context(number), _open_costs(run, state)
    choice = select_clients(run, engine, state, context, costs)
    # What the clients of a round score tells who they are.
    measure = is_scored(run, number) and run.exchanges and not run.draws_are_secret
    waves = run.algorithm.play(state.server, choice.places, context)
    try:
        server = _drive(RoundContext(run, engine, state, context, costs, measure, report), waves)
        check_state(run.algorithm, server, state.server)
        server = _optimize(run, state, server)
    except NothingSent:
        server = state.server
    _say_tolerated(run, number, costs)
    metrics = local_metrics(run, number, costs.measured) if measure else {}
    check_values(run, number, metrics.values())
    state.server, state.round, state.selection = server, number, dict(choice.state)
    state.aggregator, state.down = costs.memory.tensors(), dict(costs.down)
    state.remember(costs.norms)
    if run.privacy is not None:
        metrics = metrics | {"privacy/epsilon": run.privacy.spent(state.plays)}
    metrics = metrics | epsilons(run, state, number)
    if run.draws_are_secret:
        costs.hide_draws(run.planned_costs(number))
    return _record(number, costs, metrics | costs.findings, () if run.draws_are_secret else choice.lost)


def _count_play(state: RunState, number: int, note_begun: NoteBegun | None) -> None:
    """Count a round that adds noise before anything is drawn: on disk first, where it survives a stop."""
    if note_begun is not None:
        note_begun(number)
    state.count_plays()


def _optimize(run: Composition, state: RunState, server: State) -> State:
    """The server's state after a step of the run's server optimiser, if it has one."""
    if run.optimize is None or "row" not in server:
        return server
    step: ServerStep = run.optimize
    if isinstance(step, ScheduledServerStep):
        step = step.at(state.round + 1, run.setting.rounds)
    row, state.optimizer = step(state.server["row"], server["row"], state.optimizer)
    trained = run.task.layout.trained_columns
    return {**server, "row": row if trained is None else torch.where(trained, row, server["row"])}


def _say_tolerated(run: Composition, number: int, costs: RoundCosts) -> None:
    """Say once in a run that its aggregator withstands fewer hostile clients than its settings promise."""
    if TOLERATED in costs.findings and TOLERATED not in run.told:
        run.told.add(TOLERATED)
        log.warning(
            "%s withstood %d hostile among the clients of round %s, fewer than its settings promise: let more clients "
            "take part (told once in a run; %s in the records has it for each round)",
            *(run.aggregator.name, costs.findings[TOLERATED], number, TOLERATED),
        )


def _check_budget(run: Composition, state: RunState) -> None:
    """Stop before a round that would spend more privacy than the run may."""
    budget = None if run.privacy is None else run.privacy.budget
    if run.privacy is not None and budget is not None and run.privacy.spent(state.plays + 1) > budget:
        raise Stopped(
            f"round {state.round + 1} would spend epsilon {run.privacy.spent(state.plays + 1):.4g}, and the budget is "
            f"{budget:g}: the model of round {state.round} is the last; more noise allows more rounds."
        )


def is_over(run: Composition, state: RunState) -> bool:
    """Whether a run has no more rounds: all are played, or the method has nothing more to do."""
    return state.round >= run.setting.rounds or run.algorithm.is_finished(state.server)


def _open_costs(run: Composition, state: RunState) -> RoundCosts:
    """The costs of a round that has not begun, with what server and aggregator remember of the rounds before."""
    memory = AggregatorMemory(state.aggregator)
    return RoundCosts(memory=memory, down=state.down, counts_bytes=run.exchanges)


def _drive(round: RoundContext, waves: Round) -> State:
    """Send each wave that a method yields and hand it the replies, until it returns the new server state."""
    line, asking = line_of(round.run), asking_of(round.run)
    try:
        wave = next(waves)
        if round.run.privacy is not None and not round.number:
            raise FedloomError(
                f"{type(round.run.algorithm).__name__.lower()} asks clients before round 1, and the noise of a private "
                "mean is counted for rounds: use another method, or another aggregator."
            )
        while True:
            check_wave(round.run.algorithm, wave)
            wave = waves.send(exchange(round, wave, line, asking))
    except StopIteration as end:
        server: State = end.value
        return server


def _record(number: int, costs: RoundCosts, metrics: dict[str, float], lost: Sequence[int] = ()) -> dict[str, Any]:
    record: dict[str, Any] = {"round": number, "selected": sorted(costs.selected) if number else []}
    if costs.planned is not None:
        record[DRAWN] = costs.planned.clients
    if lost:
        record["lost"] = list(lost)
    spent = {name: getattr(costs, name) for name in ("bytes_down", "bytes_up", "bytes_between", "steps")}
    return {**record, **spent, "metrics": metrics}
