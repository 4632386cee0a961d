"""The part of a report that says what private runs have spent: for whom, against whom, by which noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fedloom.runs.results.summaries import Histories

KINDS = {
    "privacy/epsilon": ("clients", "everybody but the server", "aggregation", "privatemean"),
    "privacy/sample_epsilon": ("single samples", "everybody", "sample_privacy", ""),
    "privacy/local_epsilon": ("all samples of a client", "everybody", "channel", "localnoise"),
    "privacy/sum_epsilon": ("all samples of a client", "everybody", "channel", "privatesum"),
}
"""Of each number of the records: who is protected, from whom, and where its settings are."""


def privacy_table(histories: Histories) -> Iterator[str]:
    """A row per method and kind of noise: the largest epsilon over seeds and clients, and its delta. Nothing if no run
    is private."""
    rows = []
    for method, runs in histories.items():
        for name, (whose, against, section, step) in KINDS.items():
            spent = [record["metrics"][name] for run in runs for record in run.records if name in record["metrics"]]
            if spent:
                settings = _settings(runs[0].config, section, step)
                study = ", for study only: the noise is seeded" if settings.get("seeded") else ""
                draws = runs[0].config.get("made_by", {}).get("draws") if name == "privacy/epsilon" else None
                study += f"; draws are {draws}" if draws and not study else ""
                delta = f"{settings['delta']:g}" if "delta" in settings else ""
                rows.append((method, whose, against + study, f"{max(spent):.3g}", delta))
    if not rows:
        return
    yield '<h2 id="privacy">Privacy</h2>'
    yield '<p class="note">What the runs have spent, the largest over seeds and clients. Scores are not protected.</p>'
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f"<th>{head}</th>" for head in ("Method", "Protects", "From", "Epsilon", "Delta"))
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _settings(config: Mapping[str, Any], section: str, step: str) -> Mapping[str, Any]:
    """The settings of a noise in a run's config."""
    found = config.get(section, {})
    if section == "channel":
        found = next((one for one in found if one.get("name") == step), {})
    return found if isinstance(found, Mapping) else {}
