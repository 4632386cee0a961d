"""A sweep as a table, a verdict, a figure and a page.

The first metric decides the order. A combination is called best only with its spread beside it, and those whose gap to
it is within the combined standard deviation over seeds are marked as level with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.plotting.style import BLUE, INK, heading, new_figure, percent, room, short, styled, widened
from fedloom.report.html import card, document, save, section, toml
from fedloom.report.measured import Floats, last, over_seeds, traffic
from fedloom.report.table import Row, and_, stopped_of
from fedloom.runs.plans.grid import short_keys
from fedloom.runs.plans.sweep import Sweep, lower_is_better

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DOTS = 20
FAR_APART = 20  # a key whose values differ by more than this factor has a logarithmic axis
MARKS = {"best": "best", "level": "≈ best", "": "", "left out": "left out"}


def rows(sweep: Sweep) -> list[Row]:
    """A row per combination, the best first; what stopped early or was not measured comes last and is never best."""
    metric, *_ = sweep.metrics
    sign = 1 if lower_is_better(metric) else -1
    found = [_row(sweep, name) for name in sweep.settings]
    found.sort(key=lambda row: (row["mark"] == "left out", sign * (row["means"][metric] or 0)))
    if found[0]["mark"] == "":
        found[0]["mark"] = "best"
        for row in found[1:]:
            row["mark"] = row["mark"] or ("level" if _level(found[0], row, metric) else "")
    return found


def _row(sweep: Sweep, name: str) -> Row:
    runs = sweep.runs[name]
    scores = {metric: over_seeds([last(run, metric) for run in runs]) for metric in sweep.metrics}
    stopped = stopped_of(runs)
    return {
        "label": name,
        "settings": sweep.settings[name],
        "seeds": len(runs),
        "means": {metric: mean for metric, (mean, _) in scores.items()},
        "stds": {metric: std for metric, (_, std) in scores.items()},
        **traffic(runs),
        "steps": sum(run.total("steps") for run in runs) / len(runs),
        "stopped": stopped,
        "mark": "left out" if stopped or scores[sweep.metrics[0]][0] is None else "",
    }


def _level(first: Row, row: Row, metric: str) -> bool:
    gap: float = abs(first["means"][metric] - row["means"][metric])
    spread = _combined(first, row, metric)
    return gap == 0 if spread is None else gap <= spread


def _combined(one: Row, other: Row, metric: str) -> float | None:
    stds = [one["stds"][metric], other["stds"][metric]]
    return None if None in stds else float(np.hypot(*stds))


def best(found: Sequence[Row]) -> Row:
    """The best row, or the sentence that there is none."""
    if found[0]["mark"] != "best":
        raise FedloomError("no combination of this sweep ran to its end with a measured score: see why they stopped.")
    return found[0]


def is_share(metric: str) -> bool:
    """Whether a metric is a share, which people read in per cent."""
    return "accuracy" in metric or "recall" in metric


def written(row: Row, metric: str) -> str:
    """A row's metric for people, as ``87.3 ± 0.6 %``."""
    mean, std = row["means"][metric], row["stds"][metric]
    if mean is None:
        return "not measured"
    scale, unit, form = (100, " %", ".1f") if is_share(metric) else (1, "", ".4g")
    return f"{scale * mean:{form}}{'' if std is None else f' ± {scale * std:{form}}'}{unit}"


def verdict(found: Sequence[Row], metrics: Sequence[str]) -> str:
    """Which combination is best, how far its lead is established, and whether the grid should go further."""
    metric = metrics[0]
    if found[0]["mark"] != "best":
        return "No combination ran to its end with a measured score."
    first = found[0]
    words = [f"Best by {metric}: {first['label']} with {written(first, metric)}."]
    level = [row["label"] for row in found[1:] if row["mark"] == "level"]
    if first["seeds"] == 1 and len(found) > 1:
        words.append("With a single seed its lead is not established: --seeds 3 or more would tell.")
    elif level:
        names = and_(level) if len(level) < 4 else f"{len(level)} others"
        words.append(f"Its lead over {names} is not established: it is within the combined standard deviation.")
    edges = [key for key in first["settings"] if key.startswith(("method", "local")) and _at_edge(found, key)]
    if edges:
        are = "is at the edge of its grid" if len(edges) == 1 else "are at the edges of their grids"
        words.append(f"The best {and_(edges)} {are}: values beyond may be better.")
    early = sum(row["mark"] == "left out" for row in found)
    if early:
        words.append(f"Left out because they stopped early or were not measured: {early} of {len(found)}.")
    return " ".join(words)


def _at_edge(found: Sequence[Row], key: str) -> bool:
    values = [row["settings"][key] for row in found]
    numbers = {value for value in values if _number(value)}
    return len(numbers) > 1 and len(numbers) == len(set(map(str, values))) and values[0] in (min(numbers), max(numbers))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@styled
def figure(sweep: Sweep) -> Figure:
    """The first metric over the grid: a line for one key, a map for two, and the best combinations for more."""
    found = [row for row in rows(sweep) if row["mark"] != "left out"]
    if not found:
        raise FedloomError("No combination of this sweep ran to its end with a measured score.")
    keys = [key for key, values in sweep.grid.items() if len(values) > 1]
    if len(keys) == 1:
        return _line(sweep, found, keys[0])
    return _map(sweep, found, keys[0], keys[1]) if len(keys) == 2 else _dots(sweep, found)


def _note(found: Sequence[Row], marks: str) -> str:
    seeds = found[0]["seeds"]
    return f"{marks}: mean of {seeds} seeds ± 1 standard deviation" if seeds > 1 else f"{marks}: one seed, no spread"


def _line(sweep: Sweep, found: Sequence[Row], key: str) -> Figure:
    metric, values = sweep.metrics[0], sweep.grid[key]
    drawn = new_figure(6.4, 3.6, left=0.75)
    axes = drawn.add_subplot()
    numeric = all(_number(value) for value in values)
    order = sorted(values) if numeric else values
    by_value = {str(row["settings"][key]): row for row in found}
    there = [value for value in order if str(value) in by_value]
    x = np.array(there if numeric else [order.index(value) for value in there], dtype=np.float64)
    mean, std = (_column([by_value[str(value)] for value in there], metric, what) for what in ("means", "stds"))
    axes.errorbar(x, mean, std, color=BLUE, marker="o", capsize=3, linestyle="-" if numeric else "none")
    if numeric and x.min() > 0 and x.max() > FAR_APART * x.min():
        axes.set_xscale("log")
    if numeric:
        axes.set_xticks(x, [f"{value:g}" for value in there])
        axes.minorticks_off()
    else:
        axes.set_xticks(range(len(order)), [short(str(value)) for value in order])
        axes.set_xlim(-0.5, len(order) - 0.5)
    axes.set_xlabel(key)
    _value_axis(axes.yaxis, metric)
    axes.set_ylabel(_unit(metric))
    if is_share(metric):
        axes.set_ylim(widened(axes.get_ylim(), 0.02))
    heading(axes, metric, _note(found, "dot and bar"))
    return drawn


def _map(sweep: Sweep, found: Sequence[Row], down: str, across: str) -> Figure:
    metric = sweep.metrics[0]
    ys, xs = (sorted(v) if all(map(_number, v)) else v for v in (sweep.grid[down], sweep.grid[across]))
    cells = np.full((len(ys), len(xs)), np.nan)
    names = [short(str(value)) for value in ys]
    left, wide = 0.4 + room(names), max(4.8, 0.95 * len(xs))
    drawn = new_figure(left + wide + 0.1, 1.2 + 0.55 * len(ys), left=left, bottom=0.6)
    axes = drawn.add_subplot()
    for row in found:
        place = ys.index(row["settings"][down]), xs.index(row["settings"][across])
        cells[place] = row["means"][metric]
        text = written(row, metric).removesuffix(" %").replace(" ± ", "\n± ")
        weight = "bold" if row["mark"] == "best" else "normal"
        axes.text(place[1], place[0], text, ha="center", va="center", color=INK, fontsize=8.5, fontweight=weight)
    good = -cells if lower_is_better(metric) else cells
    low, high = np.nanmin(good), np.nanmax(good)
    strength = 0.08 + 0.55 * (good - low) / (high - low or 1)
    colours = np.array([[(*_rgb(BLUE), 0.0 if np.isnan(s) else s) for s in line] for line in strength])
    axes.imshow(colours, aspect="auto", interpolation="none")
    axes.grid(visible=False)
    axes.set_xticks(range(len(xs)), [short(str(value), 12) for value in xs])
    axes.set_yticks(range(len(ys)), names)
    axes.set_xlabel(across)
    axes.set_ylabel(down)
    heading(axes, f"{metric}{' (%)' if is_share(metric) else ''}", _note(found, "cell") + "; bold: best")
    return drawn


def _rgb(hue: str) -> tuple[float, ...]:
    return tuple(int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _dots(sweep: Sweep, found: Sequence[Row]) -> Figure:
    metric, shown = sweep.metrics[0], found[:MOST_DOTS]
    names = [short(row["label"], 48) for row in shown]
    left = 0.3 + 0.078 * max(map(len, names))
    drawn = new_figure(left + 5.6, 1.2 + 0.25 * len(shown), left=left)
    axes = drawn.add_subplot()
    mean, std = _column(shown, metric, "means"), _column(shown, metric, "stds")
    axes.errorbar(mean, np.arange(len(shown)), xerr=std, color=BLUE, fmt="o", capsize=3)
    axes.set_yticks(range(len(shown)), names, color=INK)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    _value_axis(axes.xaxis, metric)
    axes.set_xlabel(_unit(metric))
    which = f"the best {len(shown)} of {len(found)}" if len(found) > len(shown) else "what ran to its end"
    heading(axes, f"{metric}: {which}", _note(found, "dot and bar"))
    return drawn


def _column(found: Sequence[Row], metric: str, what: str) -> Floats:
    return np.array([np.nan if row[what][metric] is None else row[what][metric] for row in found], dtype=np.float64)


def _value_axis(axis: Any, metric: str) -> None:
    if is_share(metric):
        percent(axis)


def _unit(metric: str) -> str:
    return metric.rpartition("model/")[2] + (" (%)" if is_share(metric) else "")


def write(sweep: Sweep, folder: Path) -> Path:
    """Write ``sweep.png``, ``sweep.svg`` and ``report.html`` into a folder, and return the page's path."""
    try:
        drawn = figure(sweep)
    except FedloomError:  # the page says so
        pass
    else:
        for ending in ("png", "svg"):
            drawn.savefig(folder / f"sweep.{ending}", bbox_inches="tight", dpi=150)
    return save(page(sweep), folder / "report.html")


def page(sweep: Sweep) -> str:
    """The sweep as one self-contained page."""
    found = rows(sweep)
    keys = and_([*sweep.grid])
    task = next(iter(sweep.runs.values()))[0].config.get("task", {}).get("name", "its task")
    return document(f"Sweep of {keys} on {task}", _body(sweep, found))


def _body(sweep: Sweep, found: Sequence[Row]) -> Iterator[str]:
    metric = sweep.metrics[0]
    yield f'<p class="lead">{len(found)} combinations · {found[0]["seeds"]} seeds each</p>'
    if found[0]["mark"] == "best":
        told = f"{found[0]['label']}; {metric}"
        yield f'<div class="cards">{card(written(found[0], metric), "Best", told)}</div>'
    yield f'<p class="verdict">{escape(verdict(found, sweep.metrics))}</p>'
    yield from section("grid", "The grid", [partial(figure, sweep)])
    yield '<h2 id="numbers">Numbers</h2><div class="wide"><table><thead><tr>'
    heads = ["", *short_keys(sweep.grid).values(), *sweep.metrics, "MB sent", "Local steps"]
    yield "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr></thead><tbody>"
    for row in found:
        cells: list[str] = [MARKS[row["mark"]], *map(str, row["settings"].values())]
        cells += [written(row, metric) for metric in sweep.metrics]
        cells += [f"{row['megabytes_sent']:,.2f}", f"{row['steps']:,.0f}"]
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    for row in found:
        if row["stopped"]:
            yield f'<p class="verdict warning">{escape(row["label"])}: {escape(row["stopped"])}</p>'
    yield (
        '<p class="note">Scores are the last ones measured, on test data: the best of many combinations is a little '
        "lucky, so measure it anew before you quote it. MB sent is up, down and between clients.</p>"
    )
    yield f'<h2 id="config">Config of {escape(found[0]["label"])}</h2>'
    yield f"<pre>{escape(toml(sweep.runs[found[0]['label']][0].config))}</pre>"
