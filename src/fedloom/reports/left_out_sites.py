"""The part of a report that lists replies of sites that were left out of a deployed run, and why."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from fedloom.runs.statistics import Histories

MOST = 200
"""Rows of the table, at most."""


def left_out_table(histories: Histories) -> Iterator[str]:
    """A table with a row per reply that was left out: round, site, request and reason. Nothing if there is none."""
    rows = [
        (name, run.config.get("seed", ""), record["round"], one["name"], one["what"], one["reason"])
        for name, runs in histories.items()
        for run in runs
        for record in run.records
        for one in record.get("excluded", ())
    ]
    if not rows:
        return
    several = sum(map(len, histories.values())) > 1
    heads = [*(("Method", "Seed") if several else ()), "Round", "Site", "Of what", "Reason"]
    yield '<h2 id="left-out">Left out</h2>'
    yield '<p class="note">Replies of sites that were left out; each round went on without them.</p>'
    yield '<div class="wide"><table class="words"><thead><tr>'
    yield "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>"
    for row in rows[:MOST]:
        cells = row if several else row[2:]
        yield "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    if len(rows) > MOST:
        yield f'<p class="note">The first {MOST} of {len(rows):,}; all are in <code>metrics.jsonl</code>.</p>'
