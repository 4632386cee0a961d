"""The live page: the frame that ``live.js`` fills. The first status is in the page, the rest comes as events.

The script is ours and always the same, so its digest in the content security policy is too; the policy allows no other
script, and to fetch from where the page came from alone.
"""

from __future__ import annotations

import time
from functools import cache
from importlib import resources
from typing import Any

from fedloom.plotting.style import PALETTE
from fedloom.reports.page import Script, charting_code, html_page, page_policy, script_json
from fedloom.watch.live_events import page_status
from fedloom.watch.status import Status

SELF = "'self'"
"""Where a page may fetch from: where it came from."""

HEAD = """\
<header>
<h1 id="title"></h1>
<p class="state"><span class="pill" id="phase"></span> <span id="state"></span></p>
<p id="reason" class="lead" hidden></p>
<div class="progress" role="progressbar" aria-valuemin="0"><i id="bar"></i></div>
</header>
<p id="trouble" class="verdict warning" role="alert" hidden></p>
<p id="lost" class="verdict warning" hidden>The connection to fedloom watch is lost; it is tried again.</p>
"""
"""The top of a live page: what it shows, how far it is, and what is wrong."""

_BODY = f"""{HEAD}\
<div class="cards" id="cards"></div>
<section id="measured" hidden><h2>Metrics</h2><div class="charts" id="charts"></div></section>
<section id="people" hidden><h2 id="people-title"></h2><p class="note" id="people-note"></p>
<div class="wide high"><table id="participants"><thead></thead><tbody></tbody></table></div></section>
<section id="played" hidden><h2>Rounds</h2><p class="note" id="rounds-note"></p>
<div class="wide high"><table id="rounds"><thead></thead><tbody></tbody></table></div></section>
<section id="missing" hidden><h2>Left out</h2><p class="note" id="missing-note"></p>
<div class="high"><table class="words" id="left-out"><thead></thead><tbody></tbody></table></div></section>
<section id="written" hidden><h2>Logs</h2><div id="logs"></div></section>
<footer id="about"></footer>
<noscript><p class="verdict warning">This page needs its script; /health and /metrics do not.</p></noscript>"""


def live_page(status: Status) -> str:
    """The page of a folder, with its status now."""
    now = time.time()
    first: dict[str, Any] = {"now": now, "status": page_status(status, now), "palette": list(PALETTE)}
    script = Script(_code(), script_json(first), SELF)
    return html_page(status.title, [_BODY], script, watch_asset("live.css"))


@cache
def security_policy() -> str:
    """The content security policy of every answer: that of the page, which no other page may frame."""
    return f"{page_policy(Script(_code(), '', SELF))}; frame-ancestors 'none'; base-uri 'none'"


@cache
def _code() -> str:
    return charting_code("\n".join((watch_asset("words.js"), watch_asset("live.js"))))


def watch_asset(name: str) -> str:
    """A file of this folder that becomes part of pages."""
    return resources.files("fedloom.watch").joinpath(name).read_text(encoding="utf-8")
