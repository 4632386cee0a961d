"""The result of a tournament: the candidate for each group of clients, its cost, and the confidence in the choice.

Candidates are chosen by their scores on validation data. Only those that the advice names are then scored on test data,
once; the confidence is computed from these scores, from differences over seeds (``runs/results/significance.py``). Two
candidates are level if validation data do not tell them apart and their means are within a point: then the clearly
cheaper one is taken. With fewer than three seeds nothing is told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fedloom.rounds.score import Score
from fedloom.runs.plans.advise.halving import OVERALL, Outcome, Rung, Tournament
from fedloom.runs.plans.advise.text import advice_text
from fedloom.runs.results.significance import LEAST_SEEDS, SURE, probability_better
from fedloom.runs.results.summaries import mean_and_std

LEVEL = 0.01
CHEAPER = 0.9
"""A candidate is clearly cheaper if it costs at most this share."""


Reason = Literal["best", "sends less", "takes fewer steps", "regret"]
"""Why a candidate was chosen: it has the best mean, it is level with the best and cheaper, or (for all clients
together) its largest regret over the groups is the smallest."""


@dataclass(frozen=True)
class Cost:
    """Bytes and gradient steps per participating client and round, including the work before round 1."""

    bytes_up: float
    bytes_down: float
    steps: float
    bytes_between: float = 0.0
    """Bytes sent between clients, without the server."""

    @property
    def bytes(self) -> float:
        """All bytes sent."""
        return self.bytes_up + self.bytes_down + self.bytes_between


@dataclass(frozen=True)
class Standing:
    """A candidate's scores in a group of clients: on validation data, and on test data with the spread over seeds.

    Higher is better: where the score itself is better when it is lower, as a loss is, these are its negatives. ``std``
    is None with a single seed.
    """

    candidate: str
    valid: float
    test: float
    std: float | None
    seeds: int


@dataclass(frozen=True)
class Pick:
    """The advice for a group of clients.

    ``over_runner_up`` and ``over_local`` are the probabilities, on test data, that ``use`` is better than the best
    other method and than local training, corrected for both being asked; None with fewer than three seeds.
    ``level`` are the other candidates that are level with the best.
    """

    group: str
    use: Standing
    runner_up: Standing | None
    local: Standing | None
    over_runner_up: float | None
    over_local: float | None
    level: tuple[str, ...]
    reason: Reason
    clients: int
    sizes: tuple[int, int]
    """The fewest and the most training samples of the group's clients."""
    baseline: Standing | None = None
    """The strongest baseline of the task on the group's validation data."""
    over_baseline: float | None = None
    """The probability, on test data, that ``use`` is better than it; None with fewer than three seeds."""

    @property
    def beats_baseline(self) -> bool:
        """Whether ``use`` is better than the baseline, as far as the seeds say."""
        if self.baseline is None:
            return True
        return self.use.test > self.baseline.test if self.over_baseline is None else self.over_baseline >= SURE


@dataclass(frozen=True)
class BaselineOutcomes:
    """What a baseline scored with each seed.

    Args:
        words: What it does, behind "better than".
        valid: Its scores on validation data.
        test: Its scores on test data.
    """

    words: str
    valid: list[Outcome]
    test: list[Outcome]


@dataclass(frozen=True, repr=False)
class Advice:
    """The method to use for small, intermediate and big clients, and the one to use if all clients must share it.

    Args:
        task: What texts call the task.
        score: The name of the task's score.
        higher_is_better: Whether a higher score is better.
        is_share: Whether the score is a share, shown in per cent.
        groups: The advice for each group of clients.
        overall: The advice if all clients must use the same method.
        regrets: How far the method for all clients is from the best one in each group, on validation data.
        costs: The cost of each candidate.
        rungs: The rungs of the tournament.
        cannot_run: The candidates that cannot run on this task, and why.
        not_run: The candidates for which there was no time.
        rounds: The requested rounds; the last rung has the number of rounds that were run.
        minutes: The time that was given.
        seconds: The time that was taken.
        folder: The folder of the advice; None if it stayed in memory.
        baselines: What each baseline does, behind "better than", by its name.
    """

    task: str
    score: str
    groups: tuple[Pick, ...]
    overall: Pick
    regrets: dict[str, float]
    costs: dict[str, Cost]
    rungs: tuple[Rung, ...]
    cannot_run: dict[str, str]
    not_run: tuple[str, ...]
    rounds: int
    minutes: float
    seconds: float
    folder: Path | None = None
    higher_is_better: bool = True
    is_share: bool = True
    baselines: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        picks = ", ".join(f"{pick.group} clients {pick.use.candidate}" for pick in self.groups)
        return f"<Advice for {self.task}: all clients {self.overall.use.candidate}; {picks}>"

    @property
    def task_score(self) -> Score:
        """The score of the task, with its direction and unit."""
        return Score(self.score, self.higher_is_better, self.is_share)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {**asdict(self), "folder": str(self.folder) if self.folder else None}

    def __str__(self) -> str:
        return advice_text(self)


TestOutcomes = Callable[[str], Sequence[Outcome]]
"""A candidate's outcomes on test data, one per seed of the last rung."""
Family = Callable[[str], str]
"""The method of a candidate, without its settings. A runner-up must have another one."""


def picks(
    tournament: Tournament,
    costs: Mapping[str, Cost],
    test_outcomes: TestOutcomes,
    family: Family,
    sizes: Mapping[str, Sequence[int]],
) -> tuple[list[Pick], Pick, dict[str, float]]:
    """The advice for each group, the advice for all clients together, and its regrets.

    ``sizes`` are the training samples of each group's clients.
    """
    ranks = tournament.rankings()
    chosen = {group: _choose(tournament, ranks[group], group, costs) for group in tournament.groups}
    chosen[OVERALL] = ranks[OVERALL][0], (), "regret"
    found = {}
    for group, (use, level, reason) in chosen.items():
        anchor = next((name for name in ranks[group] if name in tournament.anchors), None)
        rest = [name for name in ranks[group] if family(name) not in (family(use), family(anchor or use))]
        runner_up = rest[0] if rest else None
        against = anchor if anchor is not None and family(anchor) != family(use) else None
        rivals = [name for name in (runner_up, against) if name is not None]
        over = {
            name: _sureness(_differences(test_outcomes(use), test_outcomes(name), group), len(rivals))
            for name in rivals
        }
        own = sizes.get(group) or [size for some in sizes.values() for size in some]
        found[group] = Pick(
            group=group,
            use=_standing(tournament, use, group, test_outcomes),
            runner_up=None if runner_up is None else _standing(tournament, runner_up, group, test_outcomes),
            local=None if against is None else _standing(tournament, against, group, test_outcomes),
            over_runner_up=None if runner_up is None else over[runner_up],
            over_local=None if against is None else over[against],
            level=level,
            reason=reason,
            clients=len(own),
            sizes=(min(own), max(own)),
        )
    overall = found.pop(OVERALL)
    return list(found.values()), overall, tournament.regrets(overall.use.candidate)


def with_baseline(pick: Pick, baselines: Mapping[str, BaselineOutcomes], test_outcomes: TestOutcomes) -> Pick:
    """A pick with the baseline that is strongest in its group on validation data.

    Args:
        baselines: The baselines of the task by their names; there may be none.
    """
    found = {name: _group_mean(one.valid, pick.group) for name, one in baselines.items()}
    known = {name: value for name, value in found.items() if value is not None}
    if not known:
        return pick
    name = max(known, key=lambda one: known[one])
    test = baselines[name].test
    means = [_mean(scores) for outcome in test if (scores := _group_scores(outcome, pick.group))]
    mean, std = mean_and_std(means)
    standing = Standing(name, known[name], mean, std if len(means) > 1 else None, len(means))
    over = _sureness(_differences(test_outcomes(pick.use.candidate), test, pick.group))
    return replace(pick, baseline=standing, over_baseline=over)


def _group_mean(outcomes: Sequence[Outcome], group: str) -> float | None:
    means = [_mean(scores) for outcome in outcomes if (scores := _group_scores(outcome, group))]
    return _mean(means) if means else None


def _choose(
    tournament: Tournament, ranked: Sequence[str], group: str, costs: Mapping[str, Cost]
) -> tuple[str, tuple[str, ...], Reason]:
    """The candidate chosen for a group, the candidates that are level with it, and the reason."""
    best = ranked[0]
    score, results = tournament.score(best, group), tournament.results(best)
    level = []
    for name in ranked[1:]:
        gap = score - tournament.score(name, group)
        sure = _sureness(_differences(results, tournament.results(name), group))
        if gap <= LEVEL * max(1.0, abs(score)) and (sure is None or sure < SURE):
            level.append(name)
    cheap = [name for name in level if _is_cheaper(costs[name], costs[best])]
    if not cheap:
        return best, tuple(level), "best"
    use = min(cheap, key=lambda name: (costs[name].bytes, costs[name].steps, ranked.index(name)))
    saves: Reason = "sends less" if _is_clearly_less(costs[use].bytes, costs[best].bytes) else "takes fewer steps"
    return use, tuple(name for name in (best, *level) if name != use), saves


def _is_clearly_less(one: float, other: float) -> bool:
    return one < other and one <= CHEAPER * other


def _is_cheaper(one: Cost, other: Cost) -> bool:
    return _is_clearly_less(one.bytes, other.bytes) or (
        one.bytes <= other.bytes and _is_clearly_less(one.steps, other.steps)
    )


def _standing(tournament: Tournament, name: str, group: str, test_outcomes: TestOutcomes) -> Standing:
    means = [_mean(_group_scores(outcome, group)) for outcome in test_outcomes(name) if _group_scores(outcome, group)]
    mean, std = mean_and_std(means)
    valid = [
        _mean(_group_scores(outcome, group)) for outcome in tournament.results(name) if _group_scores(outcome, group)
    ]
    return Standing(name, _mean(valid), mean, std if len(means) > 1 else None, len(means))


def _group_scores(outcome: Outcome, group: str) -> list[float]:
    """The scores of a group's clients, or of all clients."""
    return list(_client_scores(outcome, group).values())


def _client_scores(outcome: Outcome, group: str) -> dict[str, float]:
    """The same by client."""
    chosen = [scores for name, scores in outcome.scores.items() if group in (name, OVERALL)]
    return {client: score for scores in chosen for client, score in scores.items()}


def _differences(one: Sequence[Outcome], other: Sequence[Outcome], group: str) -> list[float]:
    """For each seed, the mean difference of two candidates over the group's clients (or all) that have both scores."""
    found = []
    for first, second in zip(one, other, strict=True):
        scores, rival = _client_scores(first, group), _client_scores(second, group)
        common = scores.keys() & rival.keys()
        if common:
            found.append(_mean([scores[client] - rival[client] for client in sorted(common)]))
    return found


def _sureness(differences: Sequence[float], comparisons: int = 1) -> float | None:
    """The probability that a candidate is better than another; None with fewer seeds than a claim needs."""
    return probability_better(differences, comparisons) if len(differences) >= LEAST_SEEDS else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
