"""An explanation of what travels, as lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedloom.deploy.explain.words import KEPT, SCORING, SELECTION, WORK, words_for

if TYPE_CHECKING:
    from fedloom.deploy.explain.explain import Exchange, Explanation, Piece

TITLES = {SELECTION: "The selection asks", WORK: "Sites work"}


def told(run: Explanation) -> list[str]:
    """The whole explanation."""
    rounds = "1 round" if run.rounds == 1 else f"{run.rounds:,} rounds"
    lines = [f"What leaves a site and what reaches it: {run.method} on {run.task}, {run.clients} sites, {rounds}."]
    lines += _greeting(run)
    if run.of(0, WORK):
        lines += ["", "Once, before the first round", *_exchanges(run, 0)]
    if _outline(run, 1) == _outline(run, run.later):
        lines += ["", "Every round", *_exchanges(run, 1)]
    else:  # what a method does once, between two phases, is played in the first round too
        lines += ["", "The first round, with what is done once in some round", *_exchanges(run, 1)]
        lines += ["", "Every later round", *_exchanges(run, 2)]
    return [*lines, *_scoring(run), *_end(run), *_whole(run), *_stays(run)]


def _greeting(run: Explanation) -> list[str]:
    return [
        "",
        "When a site connects",
        "  leaves the site: its name and number, how many samples it has for training, validation and testing",
        "    and in all, the versions of fedloom and torch, and a checksum of the run's files",
        f"    (about {run.greeting:,} bytes). Every message and answer has a header of about {run.header:,} bytes.",
    ]


def _outline(run: Explanation, number: int) -> list[tuple[str, tuple[Piece, ...], tuple[Piece, ...], int]]:
    return [(e.what, e.down, e.up, count) for e, count in _merged(run.of(number, SELECTION, WORK))]


def _merged(some: Sequence[Exchange]) -> list[tuple[Exchange, int]]:
    """Exchanges that look alike as one, with the number of sites in all of them together."""
    found: dict[tuple[str, tuple[Piece, ...], tuple[Piece, ...]], list[Exchange]] = {}
    for one in some:
        found.setdefault((one.what, one.down, one.up), []).append(one)
    return [(alike[0], sum(len(one.clients) for one in alike)) for alike in found.values()]


def _exchanges(run: Explanation, number: int) -> list[str]:
    lines: list[str] = []
    for one, count in _merged(run.of(number, SELECTION, WORK)):
        lines.append(f"  {TITLES[one.what]}: {_sites(count, run.clients)}")
        lines += _table(one)
    reaches, leaves = run.per_site(number, SELECTION, WORK)
    lines.append(f"  In all, at most {reaches:,} bytes reach a site and {leaves:,} leave it in a round.")
    if number < len(run.records):
        cost = run.records[number]
        down, up, between = (cost[f"bytes_{way}"] for way in ("down", "up", "between"))
        lines.append(f"  The simulator counts {down:,} bytes down and {up:,} up for all sites.")
        if between:
            lines.append(f"  {between:,} bytes more are handed from site to site, by way of the server.")
        elif up < run.counted_up(number) and not run.of(number, SELECTION):
            lines.append("  What says nothing (a class that a site does not have) is sent as zeros and not counted.")
    return lines


def _sites(count: int, clients: int) -> str:
    if count == clients:
        return "all sites" if clients > 1 else "the site"
    return f"{count} of {clients} sites" if count < clients else f"{count} times, at {clients} sites"


def _table(one: Exchange) -> list[str]:
    rows = [("gets", piece) for piece in one.down] + [("sends", piece) for piece in one.up]
    lines = [
        f"    {way:<5} {piece.name:<14} {_shape(piece):>10} {piece.dtype:<7} {piece.bytes:>10,} B  {piece.words}"
        for way, piece in rows
    ]
    return lines or ["    nothing"]


def _shape(piece: Piece) -> str:
    return " x ".join(f"{size:,}" for size in piece.shape) or "1"


def _scoring(run: Explanation) -> list[str]:
    some = run.of(1, SCORING)
    if not some:
        return ["", "Models are never scored."]
    one, count = _merged(some)[0]
    times = "once" if run.scorings == 1 else f"{run.scorings:,} times"
    lines = ["", f"Scoring, {times} in the run: {_sites(count, run.clients)}", *_table(one)]
    if run.evaluator is not None:
        lines.append(f"  Then {run.evaluator} gets the shared model, and tells what it scores on its own data.")
    return [*lines, "  The simulator does not count these bytes."]


def _end(run: Explanation) -> list[str]:
    size = sum(piece.bytes for piece in run.final)
    names = ", ".join(piece.name for piece in run.final) or "nothing"
    lines = ["", "At the end", f"  reaches a site: {names} ({size:,} bytes), for the model that it predicts with"]
    if not run.cross_site:
        return [*lines, "    and that stays with it."]
    return [
        *lines,
        f"  leaves a site: that model, whole ({run.model:,} bytes), since cross_site is on; then the models of all",
        f"    {run.clients} sites reach it, and their scores on its test part leave it.",
    ]


def _whole(run: Explanation) -> list[str]:
    down, up = run.whole_run
    return [
        "",
        f"The whole run, for a site that is in every round: {down:,} bytes reach it and {up:,} leave it",
        "  (headers come on top; later rounds are taken to be like the last one above).",
    ]


def _stays(run: Explanation) -> list[str]:
    lines = ["", "What does not leave a site", "  its samples and their labels, and the files that they are in"]
    return lines + [f"  {name}: {words_for(name, KEPT)}" for name in run.kept]
