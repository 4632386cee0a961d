"""Successive halving under a budget of seconds: many candidates for few rounds, then fewer for longer.

Karnin, Koren and Somekh, ICML 2013; Jamieson and Talwalkar, AISTATS 2016. Two differences: the best half is kept for
each group of clients (and by the largest regret over the groups), because small and big clients may need different
methods; and rungs shrink to the time that is left. Every rung starts its runs from scratch, since a schedule or a
method may depend on the number of rounds. The result of a run depends only on its candidate, rounds and seed: the time
decides how far the tournament gets, never the result of a run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedloom.runs.plans.side_by_side import RunToDo, side_by_side

MOST_SEEDS = 5
FEWEST = 2
"""How many candidates per group are in the last rung."""
FIRST_ROUNDS, GROWTH = 8, 2
"""The first rung has an eighth of the rounds. Every later rung has twice the rounds and half of the candidates."""
FIRST_SHARE = 1 / 3
"""The share of the budget for the first rung, the only one with all candidates."""
OVERALL = "overall"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run: scores (higher is better) by group and client, and the seconds that it took.

    ``fixed`` of these seconds do not grow with the rounds; ``read`` means that the run was finished before; ``failed``
    is a sentence that says why there are no scores.
    """

    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    seconds: float = 0.0
    fixed: float = 0.0
    read: bool = False
    failed: str | None = None


RunCandidate = Callable[[str, int, int], Outcome]
"""``(candidate, rounds, seed) -> outcome``; seeds count from 0."""


@dataclass(frozen=True)
class RungPlan:
    """A planned rung: ``keep`` candidates per group run ``rounds`` rounds with ``seeds`` seeds."""

    rounds: int
    seeds: int
    keep: int


@dataclass(frozen=True)
class Rung:
    """A finished rung: the candidates that were run with all of its seeds, after the first rung the best first."""

    rounds: int
    seeds: int
    candidates: tuple[str, ...]


@dataclass(frozen=True)
class Move:
    """The next run, for a progress display."""

    rung: int
    rungs: int
    candidate: str
    seed: int
    rounds: int
    done: int
    total: int
    seconds_left: float


class Budget:
    """A budget of seconds. The seconds that finished runs took in an earlier process are charged to it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self.clock, self.began, self.charged = seconds, clock, clock(), 0.0

    @property
    def seconds_spent(self) -> float:
        """The seconds that were used."""
        return self.clock() - self.began + self.charged

    @property
    def seconds_left(self) -> float:
        """The seconds that are left; negative if a run took longer than that."""
        return self.seconds - self.seconds_spent


def schedule(candidates: int, rounds: int) -> list[RungPlan]:
    """The rungs of a tournament whose last rungs train for ``rounds`` rounds."""
    climb = [min(rounds, max(2, math.ceil(rounds / FIRST_ROUNDS)))]
    while climb[-1] < rounds:
        climb.append(min(rounds, GROWTH * climb[-1]))
    seeds = [1 if place < 2 else 2 for place in range(len(climb))]
    while seeds[-1] < MOST_SEEDS:
        climb.append(rounds)
        seeds.append(seeds[-1] + 1)
    keep = [max(FEWEST, math.ceil(candidates / GROWTH**place)) for place in range(len(climb))]
    return [RungPlan(*step) for step in zip(climb, seeds, keep, strict=True)]


@dataclass
class Tournament:
    """A tournament of candidates. The last rung decides."""

    names: Sequence[str]
    run_candidate: RunCandidate
    budget: Budget
    anchors: Collection[str] = ()
    """The best of these candidates is in every rung, whatever its rank, as a baseline for the others."""
    watch: Callable[[Move], None] = lambda _: None
    at_once: int = 1
    """How many candidates run at once."""
    load: Callable[[int], None] = lambda _: None
    """Called here with a seed before a run with it is started: what it loads, all runs share."""
    rungs: list[Rung] = field(default_factory=list)
    outcomes: dict[tuple[str, int, int], Outcome] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def not_run(self) -> list[str]:
        """The candidates that were never run, for lack of time."""
        played = {name for name, _, _ in self.outcomes}
        return [name for name in self.names if name not in played]

    def run(self, steps: Sequence[RungPlan]) -> Tournament:
        """Run the rungs until the last one or the end of the budget."""
        for number, step in enumerate(steps):
            leaders = list(self.names) if number == 0 else self._leaders_within_budget(step, len(steps) - number)
            if not leaders:
                break
            limit = self.budget.seconds * (FIRST_SHARE if number == 0 else 1)
            complete, cut = self._run_rung(number, len(steps), step, leaders, limit)
            if cut and number > 0:
                complete = self._complete_leaders(complete)
            if not complete:
                break
            self.rungs.append(Rung(step.rounds, step.seeds, tuple(complete)))
            if cut and number > 0:
                break
        return self

    def _run_rung(
        self, number: int, rungs: int, step: RungPlan, names: list[str], limit: float
    ) -> tuple[list[str], bool]:
        """Run a rung; return the candidates with a score for every seed, and whether the time ran out too early."""
        keys = [(name, step.rounds, seed) for name in names for seed in range(step.seeds)]
        cut = False

        def due() -> Iterator[RunToDo[tuple[str, int, int], Outcome]]:
            nonlocal cut
            for key in keys:
                name, rounds, seed = key
                if key in self.outcomes or name in self.failed:
                    continue
                spent, complete = self.budget.seconds_spent, self._complete(names, step)
                over = spent >= self.budget.seconds or (spent >= limit and len(complete) >= FEWEST)
                if over and self.outcomes:  # the first run says how long one takes
                    cut = True
                    return
                left, place = self.budget.seconds - spent, names.index(name)
                self.watch(Move(number + 1, rungs, name, seed, rounds, place, len(names), left))
                self.load(seed)
                yield RunToDo(key, f"{name} with seed {seed}", lambda _, key=key: self.run_candidate(*key))  # type: ignore[misc]

        for (name, rounds, seed), outcome in side_by_side(due(), self.at_once):
            self.outcomes[name, rounds, seed] = outcome
            if outcome.read:
                self.budget.charged += outcome.seconds / self.at_once
            if outcome.failed is not None:
                self.failed[name] = outcome.failed
        return self._complete(names, step), cut

    def _complete(self, names: Sequence[str], step: RungPlan) -> list[str]:
        """The candidates that were run with all seeds of a rung, and did not fail."""
        run = [name for name in names if all((name, step.rounds, seed) in self.outcomes for seed in range(step.seeds))]
        return [name for name in run if name not in self.failed]

    def _leaders_within_budget(self, step: RungPlan, steps_left: int) -> list[str]:
        """The leaders that there is time for, with an equal share of it for each later rung, or else with all of it."""
        ranks = self.rankings()
        for keep in range(step.keep, FEWEST - 1, -1):
            leaders = self.leaders(ranks, keep)
            if self._seconds(leaders, step) <= self.budget.seconds_left / steps_left:
                return leaders
        return leaders if self._seconds(leaders, step) <= self.budget.seconds_left else []

    def _complete_leaders(self, complete: Collection[str]) -> list[str]:
        """The leaders of an incomplete rung: as many ranks of every group as were run completely, none if below two."""
        ranks = self.rankings()
        for keep in range(len(complete), FEWEST - 1, -1):
            leaders = self.leaders(ranks, keep)
            if set(leaders) <= set(complete):
                return leaders
        return []

    def _seconds(self, names: Sequence[str], step: RungPlan) -> float:
        """How long these candidates will take, estimated from the longest run of each."""
        total = 0.0
        for name in names:
            missing = sum((name, step.rounds, seed) not in self.outcomes for seed in range(step.seeds))
            rounds, run = max(((r, o) for (n, r, _), o in self.outcomes.items() if n == name), key=lambda pair: pair[0])
            total += missing * (run.fixed + (run.seconds - run.fixed) / rounds * step.rounds)
        return total / self.at_once

    def leaders(self, ranks: Mapping[str, Sequence[str]], keep: int) -> list[str]:
        """The best ``keep`` candidates of every ranking, in the order of their ranks, and the best anchor."""
        anchor = [name for name in ranks[OVERALL] if name in self.anchors][:1]
        places = [[ranks[group][place] for group in ranks if place < len(ranks[group])] for place in range(keep)]
        return list(dict.fromkeys([*places[0], *anchor, *(name for place in places[1:] for name in place)]))

    def rankings(self) -> dict[str, list[str]]:
        """The candidates of the last rung, best first: for each group, and by the largest regret over the groups."""
        order = {name: place for place, name in enumerate(self.names)}
        names = [name for name in self.rungs[-1].candidates if name not in self.failed]
        table = {group: {name: self.score(name, group) for name in names} for group in self.groups}
        best = {group: max(column.values()) for group, column in table.items()}
        table[OVERALL] = {name: -max(best[group] - table[group][name] for group in best) for name in names}
        return {
            group: sorted(names, key=lambda name, column=column: (-column[name], order[name]))  # type: ignore[misc]
            for group, column in table.items()
        }

    @property
    def groups(self) -> list[str]:
        """The groups of clients in which the last rung's candidates have scores."""
        rung = self.rungs[-1]
        first = (outcome for name in rung.candidates for outcome in self.results(name))
        return list(dict.fromkeys(group for outcome in first for group in outcome.scores))

    def results(self, name: str) -> list[Outcome]:
        """A candidate's outcomes in the last rung, one per seed."""
        rung = self.rungs[-1]
        found = (self.outcomes.get((name, rung.rounds, seed)) for seed in range(rung.seeds))
        return [outcome for outcome in found if outcome is not None]

    def score(self, name: str, group: str) -> float:
        """A candidate's score in a group: the mean over seeds of the mean over the group's clients."""
        means = [sum(s.values()) / len(s) for o in self.results(name) if (s := o.scores.get(group))]
        return sum(means) / len(means) if means else -math.inf

    def regrets(self, name: str) -> dict[str, float]:
        """How far a candidate is from the best one, by group."""
        names = [other for other in self.rungs[-1].candidates if other not in self.failed]
        return {g: max(self.score(other, g) for other in names) - self.score(name, g) for g in self.groups}
