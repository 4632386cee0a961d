"""The advice as text for a terminal: for each group of clients the method, its score, its lead and its cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedloom.rounds.score import ACCURACY, Score
from fedloom.runs.plans.advise.candidates import method_of
from fedloom.runs.results.significance import LEAST_SEEDS, SURE
from fedloom.runs.results.summaries import join_names

if TYPE_CHECKING:
    from fedloom.runs.plans.advise.advice import Advice, Cost, Pick, Standing

WIDE = 98
MOST_NAMES = 6
ROLES = {"use": "use", "runner_up": "runner-up", "local": "alone", "baseline": "baseline"}
"""The fields of a pick that hold candidates, and their headings."""


def advice_text(advice: Advice) -> str:
    """The whole advice as text, at most a hundred columns wide."""
    lines = [*_wrap(against_baseline_text(advice)), *_wrap(title(advice)), ""]
    for pick in advice.groups:
        lines += [*_pick_lines(advice, pick), ""]
    lines += [*_pick_lines(advice, advice.overall), "", "How it was found"]
    for sentence in (*tournament_sentences(advice), *caveats(advice)):
        lines += _wrap(sentence, "  ")
    return "\n".join(lines)


def _wrap(sentence: str, indent: str = "", hang: str | None = None) -> list[str]:
    later = indent if hang is None else hang
    return textwrap.wrap(sentence, WIDE, initial_indent=indent, subsequent_indent=later, break_on_hyphens=False)


def title(advice: Advice) -> str:
    """The first sentence of an advice."""
    return (
        f"Advice for {advice.task} ({advice.overall.clients} clients): chosen on validation data, and the numbers "
        f"below are on test data."
    )


def _pick_lines(advice: Advice, pick: Pick) -> Iterator[str]:
    yield whom(pick)
    standings = [(name, getattr(pick, role)) for role, name in ROLES.items()]
    wide = max(len(standing.candidate) for _, standing in standings if standing is not None)
    for name, standing in standings:
        if standing is not None:
            sure = sureness(pick).get(name)
            words = "" if sure is None else f"   {sure_text(sure)}"
            yield f"  {name:9}  {standing.candidate:{wide}}  {score_text(standing, advice.task_score)}{words}"
    yield f"  {'cost':9}  {cost_text(advice.costs[pick.use.candidate])}"
    yield from _wrap(f"  {'why':9}  {why(advice, pick)}", "", " " * 13)


def sureness(pick: Pick) -> dict[str, float | None]:
    """The probability that the chosen method is better than each rival, by the rival's heading."""
    return {"runner-up": pick.over_runner_up, "alone": pick.over_local, "baseline": pick.over_baseline}


def against_baseline_text(advice: Advice) -> str:
    """For which clients what is advised is not better than answering without a model; empty if it always is.

    Only what is advised is scored on test data, so nothing is said of the candidates that were not chosen.
    """
    lost = [pick for pick in (*advice.groups, advice.overall) if not pick.beats_baseline]
    if not lost:
        return ""
    # A lead that the seeds do not establish is neither a win nor a defeat, and is called neither.
    ahead = any(pick.baseline is not None and pick.use.test > pick.baseline.test for pick in lost)
    start = "It is not established that what is advised is" if ahead else "What is advised is not"
    base = advice.overall.baseline
    if base is not None and len(lost) > len(advice.groups):
        words = advice.baselines.get(base.candidate, base.candidate)
        return f"{start} better than {words} ({score_text(base, advice.task_score).strip()})."
    groups = join_names(["all clients together" if pick.group == "overall" else pick.group for pick in lost])
    return f"{start} better than the baseline for these clients: {groups}."


def whom(pick: Pick) -> str:
    """The group of clients that a pick is for."""
    low, high = pick.sizes
    span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    if pick.group == "overall":
        return f"One method for all {pick.clients} clients"
    called = "All clients (they are of one size)" if pick.group == "all" else f"{pick.group.capitalize()} clients"
    return f"{called}: {pick.clients} with {span} training samples"


def score_text(standing: Standing, score: Score) -> str:
    """A candidate's test score as text, with its name unless it is accuracy."""
    text = score.text(score.rank(standing.test), standing.std)
    if score.name != ACCURACY.name:
        return f"{score.title} {text}"
    number, _, rest = text.partition(" ")
    return f"{number:>5} {rest}"


def sure_text(probability: float) -> str:
    """How sure it is that a rival is worse than the chosen method, or better, in per cent and rounded down.

    Below 50 % the two are not told apart at all.

    Args:
        probability: The probability that the chosen method is better than the rival.
    """
    sure = abs(2 * probability - 1)
    if sure < 0.5:
        return "not told apart"
    share = "> 99 %" if sure > 0.99 else f"{int(100 * sure + 1e-9)} %"
    return f"{share} sure to be {'worse' if probability >= 0.5 else 'better'}"


def cost_text(price: Cost) -> str:
    """The cost of a candidate per participating client and round."""
    steps = f"{price.steps:.3g} local steps"
    ways = {"up": price.bytes_up, "down": price.bytes_down, "between clients": price.bytes_between}
    sent = [
        f"{bytes_text(number)} {way}"
        for way, number in ways.items()
        if number or (price.bytes and way != "between clients")
    ]
    return f"{join_names(sent) if sent else 'nothing sent'}, {steps} per client and round"


def bytes_text(number: float) -> str:
    """A number of bytes with its unit."""
    for size, unit in ((1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"


def why(advice: Advice, pick: Pick) -> str:
    """The reason for a choice, with rivals that are as good, and a warning if test data do not confirm it."""
    own = method_of(pick.use.candidate)
    rivals = list(dict.fromkeys(name for name in map(method_of, pick.level) if name != own))
    if pick.reason == "regret":
        gaps = ", ".join(f"{group} {_gap_text(advice, regret)}" for group, regret in advice.regrets.items())
        words = f"its worst gap to a group's best on validation data is the smallest ({gaps})"
    elif rivals:
        shown = [*rivals[:MOST_NAMES], *(["others"] if len(rivals) > MOST_NAMES else [])]
        reason = (
            "has the best mean, and none of the others is clearly cheaper" if pick.reason == "best" else pick.reason
        )
        words = f"no clear winner between {join_names([own, *shown])} on validation data: {own} {reason}"
    else:
        words = (
            "the best on validation data" if pick.reason == "best" else f"as good as other settings, and {pick.reason}"
        )
    rival, sure = ("the runner-up", pick.over_runner_up) if pick.runner_up else ("training alone", pick.over_local)
    if sure is not None and sure < 1 - SURE:
        words += f"; on test data {rival} is ahead"
    elif sure is not None and sure < SURE and not rivals:
        words += f"; on test data it cannot be told apart from {rival}"
    return words[0].upper() + words[1:] + "."


def _gap_text(advice: Advice, gap: float) -> str:
    return advice.task_score.gap_text(gap)


def tournament_sentences(advice: Advice) -> Iterator[str]:
    """How the tournament went, a sentence per rung."""
    for number, rung in enumerate(advice.rungs, 1):
        seeds = "1 seed" if rung.seeds == 1 else f"{rung.seeds} seeds"
        yield f"Rung {number}: {len(rung.candidates)} candidates, {rung.rounds} rounds, {seeds}."
    yield f"{advice.seconds:.0f} of {60 * advice.minutes:.0f} seconds were used."


def caveats(advice: Advice) -> Iterator[str]:
    """The limits of the advice."""
    last = advice.rungs[-1]
    if last.rounds < advice.rounds:
        yield (
            f"The budget ended at {last.rounds} of the {advice.rounds} rounds you intend to train: methods that start "
            "slowly may be judged too early; give more minutes."
        )
    if last.seeds < LEAST_SEEDS:
        yield (
            f"There was time for {'one seed' if last.seeds == 1 else f'{last.seeds} seeds'}, and fewer than three "
            "establish nothing: how certain the choice is cannot be estimated; give more minutes."
        )
    for names, sentence in _by_sentence(advice.cannot_run).items():
        yield f"Could not run: {names}. {sentence}"
    if advice.not_run:
        shown = ", ".join(advice.not_run[:MOST_NAMES]) + (", …" if len(advice.not_run) > MOST_NAMES else "")
        yield f"Not run for lack of time: {len(advice.not_run)} candidates ({shown})."


def _by_sentence(failed: dict[str, str]) -> dict[str, str]:
    """Group the candidates that failed with the same sentence."""
    by_sentence: dict[str, list[str]] = {}
    for name, sentence in failed.items():
        by_sentence.setdefault(sentence, []).append(name)
    return {", ".join(names): sentence for sentence, names in by_sentence.items()}
