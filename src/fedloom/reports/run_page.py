"""The report of a run or a comparison, as one HTML page.

Every number says what it is a mean over. Every section is there even if its figure is not: then a sentence says what
was not measured. ``page.py`` has the parts that all pages share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path

from fedloom.config.task_title import task_title
from fedloom.core.errors import FedloomError
from fedloom.reports import client_figures, figures
from fedloom.reports.confusion_table import confusion_tables
from fedloom.reports.crossover_figure import crossover_figure
from fedloom.reports.explore_data import explore_json
from fedloom.reports.left_out_sites import left_out_table
from fedloom.reports.page import card, config_toml, document, save_page, section
from fedloom.reports.privacy_table import privacy_table
from fedloom.reports.stream_table import stream_table
from fedloom.reports.summary_table import (
    SummaryRow,
    baseline_rows,
    cell_text,
    differences,
    is_apart,
    summary,
)
from fedloom.reports.verdict import verdict
from fedloom.rounds.score import Score
from fedloom.runs.folder.run_files import read_notices
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import Histories, client_count, common_score, join_names

POOLED = "Pooled"
COLUMNS = {
    "Method": "",
    "Seeds": "",
    "Global test": "server's model",
    "Client mean": "own models, own tests",
    POOLED: "own models, all clients' tests",
    "Worst decile": "of the clients",
    "Std over clients": "points, within a run",
    "MB up": "all clients",
    "MB down": "all clients",
    "MB between": "client to client",
    "Local steps": "all clients",
    "Rounds": "",
}
MOST_PANELS = 12


def write_report(histories: Histories, path: str | Path, title: str | None = None) -> Path:
    """Write the report of one or several methods, and return its path.

    Args:
        histories: The runs of each method, one per seed, by the method's name.
        path: The HTML file to write.
        title: The title of the page; None makes one from the runs.
    """
    for name, runs in histories.items():
        if not runs:
            raise FedloomError(f"Method '{name}' has no run to report.")
    if not any(record["metrics"] for runs in histories.values() for run in runs for record in run.records):
        raise FedloomError("There is nothing to report: no run has measured anything yet.")
    return save_page(report_page(histories, title), path)


def report_page(histories: Histories, title: str | None = None) -> str:
    """The report as text."""
    rows, score = summary(histories), common_score(histories)
    first = next(iter(histories.values()))[0]
    methods = ", ".join(histories) if len(histories) < 4 else f"{len(histories)} methods"
    name = title or f"{methods} on {task_title(first.config)}"
    body = (
        _lead(histories, first),
        *_headline(rows, score),
        *_notices(histories),
        *_verdict(histories),
        *_table(rows, score, baseline_rows(histories)),
        *stream_table(histories),
        *privacy_table(histories),
        *left_out_table(histories),
        *_figures(histories),
        *_config(histories),
    )
    return document(name, body, explore_json(histories))


def _plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _lead(histories: Histories, first: History) -> str:
    seeds = sorted({len(runs) for runs in histories.values()})
    each = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
    parts = (
        f"Task {task_title(first.config)}",
        _plural(client_count(first), "client"),
        _plural(max((r["round"] for r in first.records), default=0), "round"),
        f"{each} seed{'' if seeds[-1] == 1 else 's'} per method" if len(histories) > 1 else _plural(seeds[0], "seed"),
    )
    return f'<p class="lead">{escape(" · ".join(parts))}</p>'


def _headline(rows: Sequence[SummaryRow], score: Score) -> Iterator[str]:
    yield '<h2 id="headline">Headline numbers</h2>'
    yield '<div class="cards">'
    for key, what, over in (
        (f"client_{score.name}", "Client mean", "each client's model on its own test set, mean of clients"),
        (f"global_{score.name}", "Global test", "the server's model on the global test set"),
        ("worst_decile", "Worst decile", "the worst-off tenth of clients, own models on own tests"),
    ):
        over = f"{score.title} of {over}"
        measured = [row for row in rows if row[key] is not None and not is_apart(row, key)]
        if not measured:
            yield card("not measured", what, over)
            continue
        best = max(measured, key=lambda row: score.rank(float(row[key])))
        level = [str(row["method"]) for row in measured if row[key] == best[key]]
        seeds = "one seed" if best["seeds"] == 1 else f"mean ± standard deviation of {best['seeds']} seeds"
        names = f"{join_names(level)} are level" if len(level) > 1 else level[0]
        highest = f"{score.best} of {len(rows)} methods: {names}; " if len(rows) > 1 else ""
        yield card(cell_text(best, key, score), what, f"{highest}{over}; after round {best['last_measured']}; {seeds}")
    traffic = [row["megabytes_sent"] for row in rows]
    steps = [row["steps"] for row in rows]
    over = f"up, down and between clients, whole run{_over(rows, traffic)}"
    yield card(f"{_span(traffic)} MB", "Traffic", over)
    yield card(_span(steps), "Local steps", f"gradient steps of all clients, whole run{_over(rows, steps)}")
    yield "</div>"


def _notices(histories: Histories) -> Iterator[str]:
    """What the operator of a deployed run should know, for instance that certificates will expire."""
    for notice in dict.fromkeys(one for runs in histories.values() for run in runs for one in read_notices(run.folder)):
        yield f'<p class="verdict warning">{escape(notice)}</p>'


def _over(rows: Sequence[SummaryRow], values: Sequence[float]) -> str:
    seeds = "; mean over seeds" if any(row["seeds"] > 1 for row in rows) else ""
    return seeds + (
        "" if len(rows) == 1 else "; from method to method" if len(set(values)) > 1 else "; for every method"
    )


def _span(values: Sequence[float]) -> str:
    low, high = (_number(value) for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


def _verdict(histories: Histories) -> Iterator[str]:
    if verdict(histories):
        yield '<h2 id="verdict">Verdict</h2>'
        words = escape(verdict(histories)).replace(" %", "&nbsp;%").replace(" ± ", "&nbsp;±&nbsp;")
        yield f'<p class="verdict">{words}</p>'
    differ = differences(histories)
    if differ:
        keys = ", ".join(f"<code>{escape(key)}</code>" for key in differ[:12]) + (", …" if len(differ) > 12 else "")
        but = f"Apart from method and seed, these runs differ in {keys}: compare with care."
        yield f'<p class="verdict warning">{but}</p>'


def _table(rows: Sequence[SummaryRow], score: Score, baselines: Sequence[SummaryRow]) -> Iterator[str]:
    pools = any(row["pooled"] is not None for row in rows)
    columns = {head: small for head, small in COLUMNS.items() if head != POOLED or pools}
    heads = [f"<th>{head}{f'<small>{small}</small>' if small else ''}</th>" for head, small in columns.items()]
    yield '<h2 id="numbers">Numbers</h2>'
    yield '<div class="wide"><table><thead><tr>' + "".join(heads) + "</tr></thead><tbody>"
    for row in (*rows, *baselines):
        cells = [str(row["method"]), str(row["seeds"])]
        keys = (f"global_{score.name}", f"client_{score.name}", *(["pooled"] if pools else []), "worst_decile")
        cells += [cell_text(row, key, score) for key in keys]
        cells += [cell_text(row, "client_spread", score).removesuffix(" %")]
        cells += [_number(row[f"megabytes_{way}"]) for way in ("up", "down", "between")]
        cells += [_number(row[key]) for key in ("steps", "rounds")]
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    for row in rows:
        if row["stopped"]:
            kept = f"after round {row['last_measured']}" if row["last_measured"] is not None else "never"
            reason = f"{row['method']} stopped early ({row['stopped'].rstrip('.')}); it was last measured {kept}."
            yield f'<p class="verdict warning">{escape(reason)}</p>'
    what = "Accuracies" if score.name == "accuracy" else f"Values of {score.title}"
    points = ", in points" if score.is_share else ""
    pooled = (
        f"<em>Pooled</em>: {escape(score.title)} over the test samples of all clients together, which for metrics that "
        "do not add up over samples is not the mean of clients: clients with one class can raise or lower that. "
        if pools
        else ""
    )
    yield (
        f'<p class="note">{what} are the last ones measured. With several seeds, a number is the mean over seeds '
        "and what follows ± is the sample standard deviation over them; with one seed that deviation is unknown. "
        "<em>Client mean</em>: every client's model scored on that client's own test set, each client counting "
        f"the same. {pooled}<em>Worst decile</em>: the worst-off tenth of these clients. <em>Std over clients</em>: "
        f"how far clients lie from each other{points}. <em>MB between</em>: what clients of a chain hand to each other "
        "without the server; it is not part of up or down. 1 MB = 10⁶ bytes. <em>baseline</em>: answering without a "
        "model, fitted on the training samples of all clients, or (<em>own</em>) of each client.</p>"
    )


def _curves(histories: Histories) -> Iterator[str]:
    """The curves: a chart for the script, and the same as figures where there is none, and for print."""
    yield (
        '<div class="explore"><h2 id="curves">Curves</h2><div class="controls" id="filters"></div>'
        '<div class="controls"><label>Show <select id="metric"></select></label> '
        '<label><select id="axis" aria-label="Axis"></select></label>'
        '<label><select id="split" aria-label="Lines"></select></label><button type="button" id="whole">Whole range'
        f'</button>{_save_buttons("curves")}<button type="button" id="all-pdf">All figures as PDF</button></div>'
        '<div id="methods" class="controls"></div>'
        '<div id="chart"></div><div id="readout" aria-live="polite"></div><p class="note" id="chart-note"></p>'
        '<div id="compare" hidden><h2>Difference</h2><div class="controls"><label><select id="first" '
        'aria-label="First line"></select></label> minus <label><select id="second" aria-label="Second line"></select>'
        f'</label>{_save_buttons("gap", csv=False)}</div><p class="verdict" id="difference" aria-live="polite"></p>'
        '<div id="gap-chart"></div><p class="note" id="gap-readout"></p><p class="note">The values at the end, seed by '
        "seed: what both share cancels. The band is Student's 95 % interval of one pair that was chosen in advance; "
        "of many pairs that are tried, some leave out 0 by chance. The verdict above counts them all.</p></div>"
        '<div id="run-list" hidden><h2>Runs</h2><div class="controls"><button type="button" id="runs-csv">CSV</button>'
        '</div><p class="note" id="run-note"></p><div class="wide high"><table id="run-table"><thead></thead><tbody>'
        "</tbody></table></div></div></div>"
    )
    yield '<div class="fixed">'
    by = {
        "round": "by round",
        "megabytes": "by megabytes",
        "steps": "by local steps",
        "seconds": "by seconds",
    }
    for axis, words in by.items():
        heading = f"{common_score(histories).heading} {words}"
        yield from section(f"by-{axis}", heading, [partial(figures.score_figure, axis, histories)])
    yield "</div>"


def _save_buttons(what: str, csv: bool = True) -> str:
    formats = (*(["csv"] if csv else []), "png", "svg", "pdf")
    buttons = "".join(f'<button type="button" id="{what}-{name}">{name.upper()}</button>' for name in formats)
    return f'<span class="formats">{buttons}</span>'


def _clients() -> str:
    """The table of clients, which the script fills in."""
    return (
        '<div id="clients" hidden><h2>Clients</h2><div class="controls"><label><select id="seed" aria-label="Seed">'
        '</select></label> <label>Find <input id="find" type="search"></label>'
        '<button type="button" id="clients-csv">CSV</button></div><p class="note" id="client-note"></p>'
        '<div class="wide high"><table id="client-table"><thead></thead><tbody></tbody></table></div></div>'
    )


def _figures(histories: Histories) -> Iterator[str]:
    yield from _curves(histories)
    yield _clients()
    yield from confusion_tables(histories)
    yield from _before_after(histories)
    yield from section("spread", "Spread over clients", [partial(client_figures.spread_figure, histories)])
    yield from section("size", "Client-size groups", [partial(client_figures.size_group_figure, histories)])
    runs = [run for seeds in histories.values() for run in seeds]
    longest = max(runs, key=lambda run: len(run.records))
    twins = [run for run in runs if run.config.get("seed") == longest.config.get("seed")]
    seed = f"Seed {longest.config.get('seed', 'not recorded')}"
    shared = all(run.partition == longest.partition for run in twins)
    note = (
        f"{seed}; the same for every method." if shared else f"{seed} of {longest.label}; other methods' data differ."
    )
    yield from section(
        "partition", "Data partition", [partial(client_figures.partition_figure, longest)], note * (len(runs) > 1)
    )
    note = f"{seed} of {longest.label}." * (len(runs) > 1)
    yield from section("selection", "Selection", [partial(client_figures.selection_figure, longest)], note)
    yield from section("bytes", "Bytes sent", [partial(figures.traffic_figure, histories)])
    probed = [run for run in runs if run.config.get("method", {}).get("threshold") == "auto"][:MOST_PANELS]
    if probed:
        yield from section("crossover", "The found threshold", [partial(crossover_figure, run) for run in probed])


def _before_after(histories: Histories) -> Iterator[str]:
    shown = {name: runs[0] for name, runs in list(histories.items())[:MOST_PANELS]}
    note = "The selected clients change from round to round, and with them whom the mean is over."
    if any(len(runs) > 1 for runs in histories.values()):
        note += " Shown is each method's first seed."
    if len(histories) > len(shown):
        note += f" Shown are the first {MOST_PANELS} methods."
    limits = figures.common_limits(list(shown.values()))
    draw = [partial(figures.before_after_figure, run, limits, name) for name, run in shown.items()]
    yield from section("before-after", "Before and after local training", draw, note)


def _config(histories: Histories) -> Iterator[str]:
    yield '<h2 id="config">Config</h2>'
    for name, runs in histories.items():
        seeds = ", ".join(str(run.config.get("seed", "not recorded")) for run in runs)
        yield f"<details><summary>{escape(name)} (seed {escape(seeds)})</summary>"
        yield f"<pre>{escape(config_toml(runs[0].config))}</pre></details>"
    yield '<h2 id="reproduce">How to reproduce</h2>'
    several = (
        " Change <code>seed</code> for the other seeds." if any(len(runs) > 1 for runs in histories.values()) else ""
    )
    yield (
        "<p>Save a config from above as <code>config.toml</code> (it is also in the run's folder, complete, with all "
        f"defaults written out) and run it with the same version of Fedloom.{several}</p>"
        "<pre>fedloom run config.toml</pre>"
    )
