"""The advice for people: as text that fits a terminal, as a figure, and as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.plotting.style import BLUE, INK, MUTED, ORANGE, heading, new_figure, percent, short, styled
from fedloom.report.html import card, document, save, section
from fedloom.report.table import and_
from fedloom.runs.plans.advise.advice import SURE, Advice, Cost, Pick, Standing
from fedloom.runs.plans.advise.candidates import method_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 98
MOST_NAMES = 6
ROLES = {"use": ("use", BLUE), "runner_up": ("runner-up", ORANGE), "local": ("alone", MUTED)}


def text(advice: Advice) -> str:
    """The whole advice in at most a hundred columns."""
    lines = [*_wrapped(_title(advice)), ""]
    for pick in advice.groups:
        lines += [*_pick(advice, pick), ""]
    lines += [*_pick(advice, advice.overall), "", "How it was found"]
    for sentence in (*found(advice), *warnings(advice)):
        lines += _wrapped(sentence, "  ")
    return "\n".join(lines)


def _wrapped(sentence: str, indent: str = "", hang: str | None = None) -> list[str]:
    later = indent if hang is None else hang
    return textwrap.wrap(sentence, WIDE, initial_indent=indent, subsequent_indent=later, break_on_hyphens=False)


def _title(advice: Advice) -> str:
    return (
        f"Advice for {advice.task} ({advice.overall.clients} clients): chosen on validation data, and the numbers "
        f"below are on test data."
    )


def _pick(advice: Advice, pick: Pick) -> Iterator[str]:
    yield who(pick)
    standings = [(name, getattr(pick, role)) for role, (name, _) in ROLES.items()]
    wide = max(len(standing.candidate) for _, standing in standings if standing is not None)
    for name, standing in standings:
        if standing is not None:
            sure = {"runner-up": pick.over_runner_up, "alone": pick.over_local}.get(name)
            words = "" if sure is None else f"   {percentage(sure)} sure to be worse"
            yield f"  {name:9}  {standing.candidate:{wide}}  {written(standing, advice.score)}{words}"
    yield f"  {'cost':9}  {cost(advice.costs[pick.use.candidate])}"
    yield from _wrapped(f"  {'why':9}  {why(advice, pick)}", "", " " * 13)


def who(pick: Pick) -> str:
    """Whom an advice is for."""
    low, high = pick.sizes
    span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    if pick.group == "overall":
        return f"One method for all {pick.clients} clients"
    called = "All clients (they are of one size)" if pick.group == "all" else f"{pick.group.capitalize()} clients"
    return f"{called}: {pick.clients} with {span} training samples"


def written(standing: Standing, score: str) -> str:
    """A candidate's test score for people."""
    std = standing.std
    if score == "accuracy":
        return f"{100 * standing.test:5.1f}{'' if std is None else f' ± {100 * std:.1f}'} %"
    return f"loss {-standing.test:.4g}{'' if std is None else f' ± {std:.2g}'}"


def percentage(sure: float) -> str:
    """A probability without false precision at its ends, and never rounded up."""
    return "> 99 %" if sure > 0.99 else "< 1 %" if sure < 0.01 else f"{int(100 * sure + 1e-9)} %"


def cost(price: Cost) -> str:
    """What a candidate costs, per client that takes part and round."""
    steps = f"{price.steps:.3g} local steps"
    ways = {"up": price.bytes_up, "down": price.bytes_down, "between clients": price.bytes_between}
    sent = [
        f"{_bytes(number)} {way}"
        for way, number in ways.items()
        if number or (price.bytes and way != "between clients")
    ]
    return f"{and_(sent) if sent else 'nothing sent'}, {steps} per client and round"


def _bytes(number: float) -> str:
    for size, unit in ((1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} B"


def why(advice: Advice, pick: Pick) -> str:
    """The reason of a choice, with the rivals that are as good and with a warning where tests do not confirm it."""
    own = method_of(pick.use.candidate)
    rivals = list(dict.fromkeys(name for name in map(method_of, pick.level) if name != own))
    if pick.reason == "regret":
        gaps = ", ".join(f"{group} {_gap(advice, regret)}" for group, regret in advice.regrets.items())
        words = f"its worst gap to a group's best on validation data is the smallest ({gaps})"
    elif rivals:
        shown = [*rivals[:MOST_NAMES], *(["others"] if len(rivals) > MOST_NAMES else [])]
        reason = (
            "has the best mean, and none of the others is clearly cheaper" if pick.reason == "best" else pick.reason
        )
        words = f"no clear winner between {and_([own, *shown])} on validation data: {own} {reason}"
    else:
        words = (
            "the best on validation data" if pick.reason == "best" else f"as good as other settings, and {pick.reason}"
        )
    rival, sure = ("the runner-up", pick.over_runner_up) if pick.runner_up else ("training alone", pick.over_local)
    if sure is not None and sure < 1 - SURE:
        words += f"; on test data {rival} is ahead"
    elif sure is not None and sure < SURE and not rivals:
        words += f"; its lead over {rival} is not established on test data"
    return words[0].upper() + words[1:] + "."


def _gap(advice: Advice, gap: float) -> str:
    return f"{100 * gap:.1f} points" if advice.score == "accuracy" else f"{gap:.3g}"


def found(advice: Advice) -> Iterator[str]:
    """How the tournament went, a sentence per rung."""
    for number, rung in enumerate(advice.rungs, 1):
        seeds = "1 seed" if rung.seeds == 1 else f"{rung.seeds} seeds"
        yield f"Rung {number}: {len(rung.candidates)} candidates, {rung.rounds} rounds, {seeds}."
    yield f"{advice.seconds:.0f} of {60 * advice.minutes:.0f} seconds were used."


def warnings(advice: Advice) -> Iterator[str]:
    """What the advice does not know."""
    last = advice.rungs[-1]
    if last.rounds < advice.rounds:
        yield (
            f"The budget ended at {last.rounds} of the {advice.rounds} rounds you mean to train: slow starters may be "
            "judged too early; more minutes would tell."
        )
    if last.seeds == 1:
        yield "There was time for one seed: how sure it is counts the differences between clients, not between seeds."
    for names, sentence in _grouped(advice.cannot_run).items():
        yield f"Could not run: {names}. {sentence}"
    if advice.not_run:
        shown = ", ".join(advice.not_run[:MOST_NAMES]) + (", …" if len(advice.not_run) > MOST_NAMES else "")
        yield f"Not run for lack of time: {len(advice.not_run)} candidates ({shown})."


def _grouped(failed: dict[str, str]) -> dict[str, str]:
    """Candidates that failed with the same sentence together."""
    by_sentence: dict[str, list[str]] = {}
    for name, sentence in failed.items():
        by_sentence.setdefault(sentence, []).append(name)
    return {", ".join(names): sentence for sentence, names in by_sentence.items()}


@styled
def figure(advice: Advice) -> Figure:
    """What the advice names, on the test data of each group of clients."""
    rows = [(pick, role) for pick in (*advice.groups, advice.overall) for role in ROLES if getattr(pick, role)]
    names = [short(getattr(pick, role).candidate, 44) for pick, role in rows]
    left = 0.3 + 0.078 * max(map(len, names))
    drawn = new_figure(left + 5.6, 1.2 + 0.27 * (len(rows) + len(advice.groups)), left=left, right=1.1)
    axes = drawn.add_subplot()
    sign = 1 if advice.score == "accuracy" else -1
    place, ticks, before = -1.0, [], None
    for pick, role in rows:
        standing, (_, hue) = getattr(pick, role), ROLES[role]
        place += 1.0 if pick is before else 2.0 if before else 1.0
        if pick is not before:
            axes.text(1.02, place, pick.group, transform=axes.get_yaxis_transform(), va="center", color=INK)
        before = pick
        ticks.append(place)
        axes.errorbar(sign * standing.test, place, xerr=standing.std or 0.0, color=hue, fmt="o", capsize=3)
    axes.set_yticks(ticks, names, color=INK)
    axes.set_ylim(place + 0.7, -0.7)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    if advice.score == "accuracy":
        percent(axes.xaxis)
    axes.set_xlabel(f"{advice.score} on the clients' test parts{' (%)' if advice.score == 'accuracy' else ''}")
    heading(axes, "What to use, by client size", "blue: use; orange: runner-up; grey: alone; bar: ± 1 std over seeds")
    return drawn


def write(advice: Advice, path: Path) -> Path:
    """Write the advice as a page, and return its path."""
    return save(document(f"Advice for {advice.task}", _body(advice)), path)


def _body(advice: Advice) -> Iterator[str]:
    yield f'<p class="lead">{escape(_title(advice))}</p><div class="cards">'
    for pick in (*advice.groups, advice.overall):
        yield card(pick.use.candidate, who(pick).partition(":")[0], f"{written(pick.use, advice.score)} on test data")
    yield "</div>"
    yield from section("groups", "By client size", [partial(figure, advice)])
    yield '<h2 id="numbers">Numbers</h2><div class="wide"><table><thead><tr>'
    heads = ("Clients", "", "Candidate", "Test", "Validation", "How sure", "Up", "Down", "Between", "Steps")
    yield "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    for pick in (*advice.groups, advice.overall):
        for role, (name, _) in ROLES.items():
            standing = getattr(pick, role)
            if standing is not None:
                yield _line(advice, pick, name, standing)
    yield "</tbody></table></div>"
    yield (
        '<p class="note">How sure: the probability that the method to use is better than this one on test data, from '
        "drawing clients and seeds anew. Up, down, between clients, steps: per client that takes part and round.</p>"
    )
    for pick in (*advice.groups, advice.overall):
        yield f'<p class="verdict"><b>{escape(who(pick))}.</b> {escape(why(advice, pick))}</p>'
    yield '<h2 id="found">How it was found</h2><ul>'
    yield "".join(f"<li>{escape(sentence)}</li>" for sentence in found(advice)) + "</ul>"
    yield "".join(f'<p class="verdict warning">{escape(sentence)}</p>' for sentence in warnings(advice))


def _line(advice: Advice, pick: Pick, name: str, standing: Standing) -> str:
    price = advice.costs[standing.candidate]
    valid = f"{100 * standing.valid:.1f} %" if advice.score == "accuracy" else f"{-standing.valid:.4g}"
    sure = {"runner-up": pick.over_runner_up, "alone": pick.over_local}.get(name)
    cells = [pick.group, name, standing.candidate, written(standing, advice.score), valid]
    cells += ["" if sure is None else percentage(sure)]
    cells += [_bytes(number) for number in (price.bytes_up, price.bytes_down, price.bytes_between)]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (*cells, f"{price.steps:.3g}")) + "</tr>"
