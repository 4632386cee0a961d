"""The live page of a plan: the frame that ``plan.js`` fills, and the events that it gets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from typing import Any

from fedloom.plotting.style import PALETTE
from fedloom.reports.page import Script, asset, charting_code, html_page, page_policy, script_json
from fedloom.watch.live_events import to_json
from fedloom.watch.page import HEAD, SELF, watch_asset
from fedloom.watch.plan_reader import PlanReader
from fedloom.watch.plan_status import PlanStatus

_BODY = f"""{HEAD}\
<section id="measured" hidden><h2>So far</h2>
<div class="controls"><label>Show <select id="metric"></select></label></div>
<div id="chart"></div><div id="readout" aria-live="polite"></div><p class="note" id="chart-note"></p></section>
<section id="runs" hidden><h2 id="runs-title"></h2><p class="note" id="runs-note"></p>
<div class="wide"><table id="members"><thead></thead><tbody></tbody></table></div></section>
<footer id="about"></footer>
<noscript><p class="verdict warning">This page needs its script; /health and /metrics do not.</p></noscript>"""


def plan_page(status: PlanStatus) -> str:
    """The page of a plan, with its status now."""
    first = {"palette": list(PALETTE), "news": page_plan(status, time.time())}
    return html_page(status.title, [_BODY], Script(_code(), script_json(first), SELF), watch_asset("live.css"))


@cache
def plan_security_policy() -> str:
    """The content security policy of every answer, as that of the page of a run."""
    return f"{page_policy(Script(_code(), '', SELF))}; frame-ancestors 'none'; base-uri 'none'"


@cache
def _code() -> str:
    return charting_code("\n".join((asset("charts.js"), watch_asset("words.js"), watch_asset("plan.js"))))


def page_plan(status: PlanStatus, now: float) -> dict[str, Any]:
    """A plan as its page gets it."""
    left = status.seconds_left(now)
    return {
        "now": round(now, 1),
        "kind": status.kind,
        "title": status.title,
        "folder": status.folder,
        "phase": status.phase(now),
        "reason": status.reason(now),
        "trouble": " · ".join(one for one in (status.trouble(now), *status.notes) if one),
        "left": None if left is None else float(f"{left:.2g}"),
        "minutes": status.minutes,
        "members": [asdict(one) for one in status.members],
        "curves": [asdict(one) for one in status.curves],
        "lines": [asdict(one) for one in status.lines],
    }


class PlanEvents:
    """The events of one page: the whole plan, when something of it has changed.

    Args:
        reader: The reading that all pages share.
    """

    def __init__(self, reader: PlanReader) -> None:
        self.reader, self._sent = reader, ""

    def new(self) -> Iterator[tuple[str, str]]:
        """The events since the last call: their names, and their data as JSON in one line."""
        news = page_plan(self.reader.read(), time.time())
        text = to_json({key: value for key, value in news.items() if key != "now"})
        if text != self._sent:
            self._sent = text
            yield "plan", to_json(news)
