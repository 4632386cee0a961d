"""The parts of a report that list replies of sites that were left out of a deployed run, or clipped, and why."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from fedloom.runs.results.summaries import Histories

MOST = 200
"""Rows of the table, at most."""


def left_out_table(histories: Histories) -> Iterator[str]:
    """A table with a row per reply that was left out, and one of remarks on replies that count: round, site, of what,
    and reason. Nothing if there is none."""
    yield from _table(
        histories, "excluded", "Left out", "Replies of sites that were left out; each round continued without them."
    )
    yield from _table(histories, "remarks", "Remarks", "Replies that count, with a smaller change or fewer samples.")


def _table(histories: Histories, key: str, title: str, note: str) -> Iterator[str]:
    rows = [
        (name, run.config.get("seed", ""), record["round"], one["name"], one["what"], one["reason"])
        for name, runs in histories.items()
        for run in runs
        for record in run.records
        for one in record.get(key, ())
    ]
    if not rows:
        return
    several = sum(map(len, histories.values())) > 1
    heads = [*(("Method", "Seed") if several else ()), "Round", "Site", "Of what", "Reason"]
    yield f'<h2 id="{title.lower().replace(" ", "-")}">{title}</h2>'
    yield f'<p class="note">{note}</p>'
    yield '<div class="wide"><table class="words"><thead><tr>'
    yield "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    for row in rows[:MOST]:
        cells = row if several else row[2:]
        yield "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    if len(rows) > MOST:
        yield f'<p class="note">The first {MOST} of {len(rows):,}; all are in <code>metrics.jsonl</code>.</p>'
