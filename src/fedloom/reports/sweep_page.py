"""The page of a sweep: its verdict, its figure, a table with a row per combination, and the best one's config."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from fedloom.config.task_title import task_title
from fedloom.core.errors import FedloomError
from fedloom.reports.page import card, config_toml, document, save_page, section
from fedloom.runs.plans.grid import short_keys
from fedloom.runs.plans.sweep import Sweep
from fedloom.runs.plans.sweep_table import MARKS, SweepRow, setting_cells, value_text
from fedloom.runs.results.summaries import join_names


def write_sweep_page(sweep: Sweep, folder: Path) -> Path:
    """Write ``sweep.png``, ``sweep.svg`` and ``report.html`` into a folder, and return the page's path."""
    try:
        figure = sweep.plot()
    except FedloomError:  # the page says so
        pass
    else:
        for ending in ("png", "svg"):
            figure.savefig(folder / f"sweep.{ending}", bbox_inches="tight", dpi=150)
    return save_page(sweep_page(sweep), folder / "report.html")


def sweep_page(sweep: Sweep) -> str:
    """The sweep as one self-contained page."""
    rows = sweep.rows
    keys = join_names([*sweep.grid])
    first = next(iter(sweep.runs.values()))[0]
    return document(f"Sweep of {keys} on {task_title(first.config)}", _body(sweep, rows))


def _body(sweep: Sweep, rows: Sequence[SweepRow]) -> Iterator[str]:
    shown = list(dict.fromkeys((sweep.chosen_by, *sweep.metrics)))
    yield f'<p class="lead">{len(rows)} combinations · {rows[0]["seeds"]} seeds each</p>'
    if rows[0]["mark"] == "best":
        which = f"{rows[0]['label']}; {sweep.metrics[0]}"
        yield f'<div class="cards">{card(value_text(rows[0], sweep.metrics[0]), "Best", which)}</div>'
    yield f'<p class="verdict">{escape(sweep.verdict)}</p>'
    yield from section("grid", "The grid", [sweep.plot])
    yield '<h2 id="numbers">Numbers</h2><div class="wide"><table><thead><tr>'
    heads = ["", *short_keys(sweep.grid).values(), *shown, "MB sent", "Local steps"]
    yield "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr></thead><tbody>"
    for row in (*rows, *sweep.baselines):
        cells: list[str] = [MARKS[row["mark"]], *setting_cells(sweep.grid, row)]
        cells += [value_text(row, metric) for metric in shown]
        cells += [f"{row['megabytes_sent']:,.2f}", f"{row['steps']:,.0f}"]
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    for row in rows:
        if row["stopped"]:
            yield f'<p class="verdict warning">{escape(row["label"])}: {escape(row["stopped"])}</p>'
    yield (
        '<p class="note">Scores are the last ones measured. The combinations are ordered by '
        f"{escape(sweep.chosen_by)}, which no test data take part in. MB sent is up, down and between clients.</p>"
    )
    yield f'<h2 id="config">Config of {escape(rows[0]["label"])}</h2>'
    yield f"<pre>{escape(config_toml(sweep.runs[rows[0]['label']][0].config))}</pre>"
