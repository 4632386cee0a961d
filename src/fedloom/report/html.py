"""The report of a run or a comparison: one HTML file that opens anywhere, without a network.

Figures are inline SVG and the style is inline CSS; there is no script. Every number says what it is over, every
section is there even if its figure is not (then a sentence says what was not measured), and all text that comes
from a config or a user is escaped.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.core.errors import FedloomError
from fedloom.plotting.style import svg
from fedloom.report import figures
from fedloom.report.crossover import crossover
from fedloom.report.excluded import left_out
from fedloom.report.table import Row, accuracy, differences, summary, verdict
from fedloom.runs.history import History
from fedloom.runs.statistics import Histories, client_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = {
    "Method": "",
    "Seeds": "",
    "Global test": "server's model",
    "Client mean": "own models, own tests",
    "Worst decile": "of the clients",
    "Std over clients": "points, within a run",
    "MB up": "all clients",
    "MB down": "all clients",
    "MB between": "client to client",
    "Local steps": "all clients",
    "Rounds": "",
}
MOST_PANELS = 12
PIXELS_PER_INCH = 107  # a full-width figure fills the page, and all letters have one size


def write(histories: Histories, path: str | Path, title: str | None = None) -> Path:
    """Write the report of one or several methods (a list of seeds each) to ``path``, and return the path."""
    for name, runs in histories.items():
        if not runs:
            raise FedloomError(f"method '{name}' has no run to report.")
    if not any(record["metrics"] for runs in histories.values() for run in runs for record in run.records):
        raise FedloomError("there is nothing to report: no run has measured anything yet.")
    return save(page(histories, title), path)


def save(text: str, path: str | Path) -> Path:
    """Write a page so that it is there whole or not at all, and return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def page(histories: Histories, title: str | None = None) -> str:
    """The report as text."""
    rows = summary(histories)
    first = next(iter(histories.values()))[0]
    name = title or f"{', '.join(histories) if len(histories) < 4 else f'{len(histories)} methods'} on {_task(first)}"
    body = (
        _lead(histories, first),
        *_headline(rows),
        *_verdict(histories, rows),
        *_table(rows),
        *left_out(histories),
        *_figures(histories),
        *_config(histories),
    )
    return document(name, body)


def document(name: str, body: Iterable[str]) -> str:
    """A whole page of this house's style under a heading."""
    style = resources.files("fedloom.report").joinpath("page.css").read_text(encoding="utf-8")
    inside = "\n".join((f"<h1>{escape(name)}</h1>", *body))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(name)}</title>'
        f"<style>\n{style}</style></head>\n<body>\n{inside}\n"
        f"<footer>Written by Fedloom {escape(metadata.version('fedloom'))}.</footer>\n</body></html>\n"
    )


def _task(history: History) -> str:
    task = history.config.get("task", {})
    return str(task.get("name", "its task") if isinstance(task, Mapping) else task)


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _lead(histories: Histories, first: History) -> str:
    seeds = sorted({len(runs) for runs in histories.values()})
    each = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
    parts = (
        f"Task {_task(first)}",
        _plural(client_count(first), "client"),
        _plural(max((r["round"] for r in first.records), default=0), "round"),
        f"{each} seed{'' if seeds[-1] == 1 else 's'} per method" if len(histories) > 1 else _plural(seeds[0], "seed"),
    )
    return f'<p class="lead">{escape(" · ".join(parts))}</p>'


def _headline(rows: Sequence[Row]) -> Iterator[str]:
    yield '<h2 id="headline">Headline numbers</h2>'
    yield '<div class="cards">'
    for key, what, over in (
        ("client_accuracy", "Client mean", "accuracy of each client's model on its own test set, mean of clients"),
        ("global_accuracy", "Global test", "accuracy of the server's model on the global test set"),
        ("worst_decile", "Worst decile", "accuracy of the worst-off tenth of clients, own models on own tests"),
    ):
        measured = [row for row in rows if row[key] is not None]
        if not measured:
            yield card("not measured", what, over)
            continue
        best = max(measured, key=lambda row: float(row[key]))
        seeds = "one seed" if best["seeds"] == 1 else f"mean ± standard deviation of {best['seeds']} seeds"
        highest = f"highest of {len(rows)} methods: {best['method']}; " if len(rows) > 1 else ""
        yield card(accuracy(best, key), what, f"{highest}{over}; after round {best['last_measured']}; {seeds}")
    traffic = [row["megabytes_sent"] for row in rows]
    steps = [row["steps"] for row in rows]
    over = f"up, down and between clients, whole run{_over(rows, traffic)}"
    yield card(f"{_span(traffic)} MB", "Traffic", over)
    yield card(_span(steps), "Local steps", f"gradient steps of all clients, whole run{_over(rows, steps)}")
    yield "</div>"


def _over(rows: Sequence[Row], values: Sequence[float]) -> str:
    seeds = "; mean over seeds" if any(row["seeds"] > 1 for row in rows) else ""
    return seeds + (
        "" if len(rows) == 1 else "; from method to method" if len(set(values)) > 1 else "; for every method"
    )


def _span(values: Sequence[float]) -> str:
    low, high = (_number(value) for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


def card(number: str, what: str, over: str) -> str:
    """A number, what it is, and what it is over."""
    return f'<div class="card"><span class="what">{what}</span><b>{escape(number)}</b><span>{escape(over)}</span></div>'


def _verdict(histories: Histories, rows: Sequence[Row]) -> Iterator[str]:
    if len(rows) > 1:
        yield '<h2 id="verdict">Verdict</h2>'
        yield f'<p class="verdict">{escape(verdict(rows)).replace(" %", "&nbsp;%").replace(" ± ", "&nbsp;±&nbsp;")}</p>'
    differ = differences(histories)
    if differ:
        keys = ", ".join(f"<code>{escape(key)}</code>" for key in differ[:12]) + (", …" if len(differ) > 12 else "")
        yield f'<p class="verdict warning">Beside method and seed these runs differ in {keys}: compare with care.</p>'


def _table(rows: Sequence[Row]) -> Iterator[str]:
    heads = [f"<th>{head}{f'<small>{small}</small>' if small else ''}</th>" for head, small in COLUMNS.items()]
    yield '<h2 id="numbers">Numbers</h2>'
    yield '<div class="wide"><table><thead><tr>' + "".join(heads) + "</tr></thead><tbody>"
    for row in rows:
        cells = [str(row["method"]), str(row["seeds"])]
        cells += [accuracy(row, key) for key in ("global_accuracy", "client_accuracy", "worst_decile")]
        cells += [accuracy(row, "client_spread").removesuffix(" %")]
        cells += [_number(row[f"megabytes_{way}"]) for way in ("up", "down", "between")]
        cells += [_number(row[key]) for key in ("steps", "rounds")]
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    for row in rows:
        if row["stopped"]:
            kept = f"after round {row['last_measured']}" if row["last_measured"] is not None else "never"
            reason = f"{row['method']} stopped early ({row['stopped'].rstrip('.')}); it was last measured {kept}."
            yield f'<p class="verdict warning">{escape(reason)}</p>'
    yield (
        '<p class="note">Accuracies are the last ones measured. With several seeds, a number is the mean over seeds '
        "and what follows ± is the sample standard deviation over them; with one seed that deviation is unknown. "
        "<em>Client mean</em>: every client's model scored on that client's own test set, each client counting "
        "the same. <em>Worst decile</em>: the worst-off tenth of these clients. <em>Std over clients</em>: how far "
        "clients lie from each other, in points. <em>MB between</em>: what clients of a chain hand to each other "
        "without the server; it is no part of up or down. 1 MB = 10⁶ bytes.</p>"
    )


def _figures(histories: Histories) -> Iterator[str]:
    by = {"round": "Accuracy by round", "megabytes": "Accuracy by megabytes", "steps": "Accuracy by local steps"}
    for axis, heading in by.items():
        yield from section(f"by-{axis}", heading, [partial(figures.accuracy_by, axis, histories)])
    yield from _before_after(histories)
    yield from section("spread", "Spread over clients", [partial(figures.spread, histories)])
    yield from section("size", "Client-size groups", [partial(figures.by_size, histories)])
    runs = [run for seeds in histories.values() for run in seeds]
    longest = max(runs, key=lambda run: len(run.records))
    twins = [run for run in runs if run.config.get("seed") == longest.config.get("seed")]
    seed = f"Seed {longest.config.get('seed', 'not recorded')}"
    shared = all(run.partition == longest.partition for run in twins)
    note = (
        f"{seed}; the same for every method." if shared else f"{seed} of {longest.label}; other methods' data differ."
    )
    yield from section("partition", "Data partition", [partial(figures.partition, longest)], note * (len(runs) > 1))
    note = f"{seed} of {longest.label}." * (len(runs) > 1)
    yield from section("selection", "Selection", [partial(figures.selection, longest)], note)
    yield from section("bytes", "Bytes sent", [partial(figures.bytes, histories)])
    probed = [run for run in runs if run.config.get("method", {}).get("threshold") == "auto"][:MOST_PANELS]
    if probed:
        yield from section("crossover", "The found threshold", [partial(crossover, run) for run in probed])


def _before_after(histories: Histories) -> Iterator[str]:
    shown = {name: runs[0] for name, runs in list(histories.items())[:MOST_PANELS]}
    note = "The selected clients change from round to round, and with them whom the mean is over."
    if any(len(runs) > 1 for runs in histories.values()):
        note += " Shown is each method's first seed."
    if len(histories) > len(shown):
        note += f" Shown are the first {MOST_PANELS} methods."
    limits = figures.common_limits(list(shown.values()))
    draw = [partial(figures.before_after, run, limits, name) for name, run in shown.items()]
    yield from section("before-after", "Before and after local training", draw, note)


def section(name: str, heading: str, draw: Sequence[Callable[[], Figure]], note: str = "") -> Iterator[str]:
    """A heading and its figures, or the sentence that says why there is none."""
    yield f'<h2 id="{name}">{heading}</h2>'
    pictures = []
    reason = ""
    for number, picture in enumerate(draw):
        try:
            figure = picture()
        except FedloomError as why:
            reason = str(why)
            continue
        width = f"max-width: {PIXELS_PER_INCH * figure.get_figwidth():.0f}px"
        pictures.append(f'<figure style="{width}">{svg(figure, f"{name}-{number}", heading)}</figure>')
    if not pictures:
        yield f'<p class="note">{escape(reason)}</p>'
        return
    yield f'<p class="note">{escape(note)}</p>' if note else ""
    yield f'<div class="grid">{"".join(pictures)}</div>' if len(draw) > 1 else pictures[0]


def _config(histories: Histories) -> Iterator[str]:
    yield '<h2 id="config">Config</h2>'
    for name, runs in histories.items():
        seeds = ", ".join(str(run.config.get("seed", "not recorded")) for run in runs)
        yield f"<details><summary>{escape(name)} (seed {escape(seeds)})</summary>"
        yield f"<pre>{escape(toml(runs[0].config))}</pre></details>"
    yield '<h2 id="reproduce">How to reproduce</h2>'
    several = (
        " Change <code>seed</code> for the other seeds." if any(len(runs) > 1 for runs in histories.values()) else ""
    )
    yield (
        "<p>Save a config from above as <code>config.toml</code> (it is also in the run's folder, complete, with all "
        f"defaults written out) and run it with the same version of Fedloom.{several}</p>"
        "<pre>fedloom run config.toml</pre>"
    )


def toml(config: Mapping[str, Any]) -> str:
    """A config as it is written in a file."""
    import tomli_w

    return tomli_w.dumps(_without_none(config))


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in value if inner is not None]
    return value
