"""The table of a comparison for a notebook and for a paper: the same cells as HTML, Markdown and LaTeX.

The best mean of every score is marked. That is a mark for reading, not a verdict: whether a difference holds says
``verdict``. Baselines stand below the methods and are never marked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedloom.core.html_table import html_table
from fedloom.reports.summary_table import SummaryRow, baseline_rows, is_apart, summary
from fedloom.rounds.score import Score
from fedloom.runs.results.baselines import LABEL
from fedloom.runs.results.summaries import Histories, common_score

NOTHING = "–"
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    **{one: f"\\{one}" for one in "&%$#_{}"},
}


@dataclass(frozen=True)
class ComparisonTable:
    """The table of a comparison as texts.

    Args:
        headings: One per column.
        rows: The cells of every method, and then of every baseline.
        methods: How many of the rows are those of methods.
        best: The places, row and column, of the best means.
        caption: What the numbers are, and what they are over.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    methods: int
    best: frozenset[tuple[int, int]]
    caption: str

    def to_html(self, below: Sequence[str] = ()) -> str:
        """As a part of a page.

        Args:
            below: Sentences that stand below the caption.
        """
        return html_table(self.headings, self.rows, below=[self.caption, *below], bold=self.best)

    def to_markdown(self) -> str:
        """As Markdown, with the caption below."""
        lines = [self._markdown_row(self.headings), f"|---|{'---:|' * (len(self.headings) - 1)}"]
        for place, cells in enumerate(self.rows):
            marked = [
                f"**{_markdown(cell)}**" if (place, column) in self.best else _markdown(cell)
                for column, cell in enumerate(cells)
            ]
            lines.append(f"| {' | '.join(marked)} |")
        return "\n".join([*lines, "", _markdown(self.caption), ""])

    def to_latex(self) -> str:
        """As a ``table`` of LaTeX, which needs the package ``booktabs``."""
        lines = [" & ".join(map(_latex, self.headings)) + r" \\", r"\midrule"]
        for place, cells in enumerate(self.rows):
            if place == self.methods:
                lines.append(r"\midrule")
            marked = [
                rf"\textbf{{{_latex(cell)}}}" if (place, column) in self.best else _latex(cell)
                for column, cell in enumerate(cells)
            ]
            lines.append(" & ".join(marked) + r" \\")
        body = "\n".join(lines)
        return (
            "\\begin{table}\n\\centering\n"
            f"\\caption{{{_latex(self.caption)}}}\n"
            f"\\begin{{tabular}}{{l{'r' * (len(self.headings) - 1)}}}\n"
            f"\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        )

    @staticmethod
    def _markdown_row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(_markdown, cells))} |"


def comparison_table(runs: Histories) -> ComparisonTable:
    """The table of some runs.

    Args:
        runs: The histories of each method, one per seed.
    """
    score = common_score(runs)
    methods, baselines = summary(runs), baseline_rows(runs)
    rows = [*methods, *baselines]
    unit = " (%)" if score.is_share else ""
    named = {
        f"global_{score.name}": f"global model{unit}",
        f"client_{score.name}": f"clients' models{unit}",
        "worst_decile": f"worst tenth of clients{unit}",
    }
    columns = {key: words for key, words in named.items() if any(row[key] is not None for row in methods)}
    cells = [
        (
            row["method"],
            *(_cell(row, key, score) for key in columns),
            *((f"{row['megabytes_sent']:,.1f}", f"{row['rounds']:g}") if place < len(methods) else (NOTHING, NOTHING)),
        )
        for place, row in enumerate(rows)
    ]
    best = frozenset(
        (place, column)
        for column, key in enumerate(columns, 1)
        for place in _best_places(methods, [line[column] for line in cells], key, score)
    )
    headings = ("method", *columns.values(), "MB sent", "rounds")
    return ComparisonTable(headings, tuple(cells), len(methods), best, _caption(runs, rows, columns, score))


def _cell(row: SummaryRow, key: str, score: Score) -> str:
    """A score with its spread over seeds; the unit stands in the heading."""
    if row[key] is None:
        return NOTHING
    return score.text(row[key], row[f"{key}_std"]).removesuffix(" %") + (" *" if is_apart(row, key) else "")


def _best_places(methods: Sequence[SummaryRow], texts: Sequence[str], key: str, score: Score) -> list[int]:
    """The methods with the best mean of a score: all of those whose means look alike; none if there is no rival."""
    known = {
        place: score.rank(row[key])
        for place, row in enumerate(methods)
        if row[key] is not None and not row["stopped"] and not is_apart(row, key)
    }
    if len(known) < 2:
        return []
    means = {place: texts[place].split(" ±")[0] for place in known}
    first = max(known, key=lambda place: known[place])
    return [place for place in known if means[place] == means[first]]


def _caption(runs: Histories, rows: Sequence[SummaryRow], columns: dict[str, str], score: Score) -> str:
    """What the numbers are over."""
    seeds = sorted({len(some) for some in runs.values()})
    one = next(iter(runs.values()))[0].config
    task = one.get("task", {}).get("name", "own data")
    over = f"mean ± standard deviation over {seeds[-1]} seeds" if seeds[-1] > 1 else "one seed, so no spread is known"
    over += f" ({seeds[0]} of some methods)" if seeds[0] != seeds[-1] else ""
    models = {
        f"global_{score.name}": "global model: on the global test set",
        f"client_{score.name}": "clients' models: on each client's own test samples, mean over clients",
        "worst_decile": "worst tenth: mean over the tenth of clients with the worst values",
    }
    parts = [
        f"{score.heading} on {task}, {score.best} is best: {over}, after the last round that was measured",
        *(words for key, words in models.items() if key in columns),
        "MB sent: down, up and between clients",
        "bold: the best mean, which alone does not say that the difference holds",
    ]
    if any(row["early_stopping"] for row in rows):
        parts.append("runs with early stopping: after their best round")
    if any(str(row["method"]).startswith(LABEL) for row in rows):
        parts.append("baselines answer without a model")
    if any(is_apart(row, key) for row in rows for key in columns):
        parts.append("*: this model owes nothing to other clients and takes no part in the comparison")
    parts += [f"{row['method']} stopped early ({row['stopped'].rstrip('.')})" for row in rows if row["stopped"]]
    return "; ".join(parts) + "."


def comparison_frame(runs: Histories, reach: float | None) -> list[dict[str, Any]]:
    """The rows of a data frame: numbers of methods and of baselines, which a column tells apart.

    Args:
        runs: The histories of each method, one per seed.
        reach: A value of the score whose rounds are counted.
    """
    methods = [{**row, "is_baseline": False} for row in summary(runs, reach)]
    return [*methods, *({**row, "is_baseline": True} for row in baseline_rows(runs))]


def _markdown(text: str) -> str:
    """Text in which nothing is Markdown."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


def _latex(text: str) -> str:
    """Text in which nothing is a command of LaTeX."""
    return "".join(LATEX.get(one, one) for one in text)
