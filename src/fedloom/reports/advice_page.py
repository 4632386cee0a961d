"""The page of an advice: cards, a figure, a table with every candidate that is named, and how it was found."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.plotting.style import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    new_figure,
    set_heading,
    shorten,
    show_percent,
    with_style,
)
from fedloom.reports.page import card, document, save_page, section
from fedloom.runs.plans.advise.advice import Advice, Pick, Standing
from fedloom.runs.plans.advise.text import (
    ROLES,
    against_baseline_text,
    bytes_text,
    caveats,
    score_text,
    sure_text,
    sureness,
    title,
    tournament_sentences,
    whom,
    why,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"use": BLUE, "runner_up": ORANGE, "local": MUTED, "baseline": GREEN}


@with_style
def advice_figure(advice: Advice) -> Figure:
    """What the advice names, on the test data of each group of clients."""
    rows = [(pick, role) for pick in (*advice.groups, advice.overall) for role in ROLES if getattr(pick, role)]
    names = [shorten(getattr(pick, role).candidate, 44) for pick, role in rows]
    left = 0.3 + 0.078 * max(map(len, names))
    figure = new_figure(left + 5.6, 1.2 + 0.27 * (len(rows) + len(advice.groups)), left=left, right=1.1)
    axes = figure.add_subplot()
    score = advice.task_score
    place, ticks, before = -1.0, [], None
    for pick, role in rows:
        standing, hue = getattr(pick, role), COLOURS[role]
        place += 1.0 if pick is before else 2.0 if before else 1.0
        if pick is not before:
            axes.text(1.02, place, pick.group, transform=axes.get_yaxis_transform(), va="center", color=INK)
        before = pick
        ticks.append(place)
        axes.errorbar(score.rank(standing.test), place, xerr=standing.std or 0.0, color=hue, fmt="o", capsize=3)
    axes.set_yticks(ticks, names, color=INK)
    axes.set_ylim(place + 0.7, -0.7)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    if score.is_share:
        show_percent(axes.xaxis)
    axes.set_xlabel(f"{score.title} on the clients' test parts{' (%)' if score.is_share else ''}")
    set_heading(
        axes,
        "What to use, by client size",
        "blue: use; orange: runner-up; grey: alone; green: baseline; bar: ± 1 std over seeds",
    )
    return figure


def write_advice_page(advice: Advice, path: Path) -> Path:
    """Write the advice as a page, and return its path.

    Args:
        advice: What ``fl.advise`` returned.
        path: The HTML file to write.
    """
    return save_page(document(f"Advice for {advice.task}", _body(advice)), path)


def _body(advice: Advice) -> Iterator[str]:
    against = against_baseline_text(advice)
    if against:
        yield f'<p class="verdict warning">{escape(against)}</p>'
    yield f'<p class="lead">{escape(title(advice))}</p><div class="cards">'
    for pick in (*advice.groups, advice.overall):
        yield card(
            pick.use.candidate, whom(pick).partition(":")[0], f"{score_text(pick.use, advice.task_score)} on test data"
        )
    yield "</div>"
    yield from section("groups", "By client size", [partial(advice_figure, advice)])
    yield '<h2 id="numbers">Numbers</h2><div class="wide"><table><thead><tr>'
    heads = ("Clients", "", "Candidate", "Test", "Validation", "How sure", "Up", "Down", "Between", "Steps")
    yield "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    for pick in (*advice.groups, advice.overall):
        for role, name in ROLES.items():
            standing = getattr(pick, role)
            if standing is not None:
                yield _line(advice, pick, name, standing)
    yield "</tbody></table></div>"
    yield (
        '<p class="note">How sure: whether this one is worse or better than the method to use on test data, from '
        "paired differences over seeds. Up, down, between clients, steps: per client that takes part and round.</p>"
    )
    for pick in (*advice.groups, advice.overall):
        yield f'<p class="verdict"><b>{escape(whom(pick))}.</b> {escape(why(advice, pick))}</p>'
    yield '<h2 id="found">How it was found</h2><ul>'
    yield "".join(f"<li>{escape(sentence)}</li>" for sentence in tournament_sentences(advice)) + "</ul>"
    yield "".join(f'<p class="verdict warning">{escape(sentence)}</p>' for sentence in caveats(advice))


def _line(advice: Advice, pick: Pick, name: str, standing: Standing) -> str:
    price = advice.costs[standing.candidate]
    valid = advice.task_score.text(advice.task_score.rank(standing.valid))
    sure = sureness(pick).get(name)
    cells = [pick.group, name, standing.candidate, score_text(standing, advice.task_score), valid]
    cells += ["" if sure is None else sure_text(sure)]
    cells += [bytes_text(number) for number in (price.bytes_up, price.bytes_down, price.bytes_between)]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (*cells, f"{price.steps:.3g}")) + "</tr>"
