"""``fedloom deploy status``: a status as lines, as JSON, and as a table in the terminal that is kept up to date."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from rich.console import Group

    from fedloom.watch.status import Participant, Status
    from fedloom.watch.status_reader import StatusReader

EVERY = 1.0
"""Seconds between two looks."""
MOST_LEFT_OUT = 10
"""Answers that were left out, the last ones, on a screen."""


def status_values(status: Status) -> dict[str, Any]:
    """A status as plain values, for ``--json``."""
    certificates = {
        "days_left": dict(status.certificates), "warnings": list(status.warnings), "authority": status.authority
    }  # fmt: skip
    if status.kind == "site":
        return {
            "site": status.title.removeprefix("Site "),
            "running": status.process,
            "last": [status.last_words] if status.last_words else [],
            "model": status.has_model,
            **certificates,
        }
    return {
        "running": status.process,
        "sites": {one.name: bool(one.connected) for one in status.participants},
        "late": {one.name: one.late for one in status.participants if one.is_always_late},
        "differ": {one.name: one.differs for one in status.participants if one.differs},
        "revoked": dict(status.revoked),
        **certificates,
        "at_work": status.serving,
        "waiting": status.reason if status.serving else "",
        "round": status.round,
        "metrics": dict(status.metrics),
        "excluded": [
            {"round": one.round, "client": one.client, "name": one.name, "what": one.what, "reason": one.reason}
            for one in status.left_out
        ],
        "remarks": [
            {"round": one.round, "name": one.name, "what": one.what, "reason": one.reason} for one in status.remarks
        ],
        "outcome": dict(status.outcome),
        "in_line": list(status.in_line),
    }


def status_lines(status: Status) -> list[str]:
    """A status as lines for people."""
    running = f"running (process {status.process})" if status.process else "not running"
    if status.kind == "site":
        last = [f"last: {status.last_words}"] if status.last_words else []
        model = "its final model is saved: fedloom predict" if status.has_model else "no final model yet"
        lines = [f"site {status.title.removeprefix('Site ')}: {running}", *last, model, *_certificate_lines(status)]
        return [*lines, *_audit_lines(status)]
    lines = [f"server: {running}"]
    lines += [f"  {one.name}: {_site_words(status, one)}" for one in status.participants]
    lines += [*_certificate_lines(status), *_audit_lines(status)]
    if status.serving and status.reason:
        lines.append(f"waiting: {status.reason}")
    if status.round is not None:
        lines.append(f"run: {'running' if status.serving else 'not running'}, {status.round} rounds done")
    lines += [f"  {name}: {value:.4g}" for name, value in _headline(status)]
    for one in status.left_out[-MOST_LEFT_OUT:]:
        lines.append(f"  round {one.round}: {one.name} left out of '{one.what}': {one.reason}")
    for remark in status.remarks[-MOST_LEFT_OUT:]:
        lines.append(f"  round {remark.round}: {remark.name} ({remark.what}): {remark.reason}")
    if status.phase in ("failed", "stopped"):
        lines.append(f"the run stopped: {status.reason}")
    elif status.phase == "finished":
        lines.append("the run is finished")
        for late in status.outcome.get("excluded", ()):
            lines.append(f"  at the end: {late['name']} left out of '{late['what']}': {late['reason']}")
    return [*lines, *(f"in line: a new run of {one}" for one in status.in_line)]


def show_status(reader: StatusReader, as_json: bool) -> None:
    """Show a status until the user stops it: a table in a terminal, elsewhere its lines whenever they change."""
    from rich.live import Live

    from fedloom.cli.terminal.console import PlainConsole

    console, before = PlainConsole(), ""
    if console.is_terminal and not as_json:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(status_table(reader.read(), time.time()), refresh=True)
                time.sleep(EVERY)
    while True:
        found = reader.read()
        text = json.dumps(status_values(found)) if as_json else "\n".join(status_lines(found))
        if text != before:
            before = text
            say(text if as_json else f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{text}")
        time.sleep(EVERY)


def status_table(status: Status, now: float) -> Group:
    """A status as a block of a terminal: how far it is, its sites, its scores and who was left out last."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    of = "" if status.rounds is None else f" of {status.rounds:,}"
    rounds = "" if status.round is None else f", round {status.round:,}{of}"
    lines = [f"{status.title}: {status.phase}{rounds}"]
    lines += [
        words for words in (status.trouble(now) or status.reason, *status.warnings, *_audit_lines(status)) if words
    ]
    lines += [f"in line: a new run of {one}" for one in status.in_line]
    parts: list[Any] = [Text(line) for line in lines]
    if status.participants:
        table = Table()
        for name in (
            "site",
            "state",
            "last sign of life",
            "last round",
            "left out",
            "samples",
            "version",
            "certificate",
        ):
            table.add_column(name, justify="left" if name in ("site", "state") else "right")
        for one in status.participants:
            table.add_row(*(Text(cell) for cell in _site_cells(status, one, now)))
        parts.append(table)
    parts += [Text(f"{name}: {value:.4g}") for name, value in _headline(status)]
    parts += [
        Text(f"round {one.round}: {one.name} left out of '{one.what}': {one.reason}")
        for one in status.left_out[-MOST_LEFT_OUT:]
    ]
    parts += [
        Text(f"round {one.round}: {one.name} ({one.what}): {one.reason}") for one in status.remarks[-MOST_LEFT_OUT:]
    ]
    return Group(*parts)


def _site_cells(status: Status, one: Participant, now: float) -> Iterator[str]:
    from fedloom.watch.status import duration

    yield one.name
    yield one.trouble or _site_words(status, one)
    yield "–" if one.seen is None else f"{duration(max(0.0, now - one.seen))} ago"
    yield "–" if one.last_round is None else str(one.last_round)
    yield str(one.left_out or "–")
    yield "–" if one.train is None else f"{one.train:,}"
    yield one.version or "–"
    yield "–" if one.certificate_days is None else f"{one.certificate_days} days"


def _site_words(status: Status, one: Participant) -> str:
    if one.name in status.revoked:
        return f"revoked at {status.revoked[one.name]}"
    return one.connection + (f"; it {one.differs}" if one.differs else "")


def _headline(status: Status) -> Iterator[tuple[str, float]]:
    """The scores over all clients, without losses and spreads."""
    for name, value in status.metrics.items():
        what = name.split("/")
        if not {"loss", "withheld_recall"} & set(what) and (len(what) == 3 or what[-1] == "mean"):
            yield name, value


def _certificate_lines(status: Status) -> list[str]:
    """How long certificates are valid, warnings, and the fingerprint by which people compare their folders."""
    lines = list(status.warnings) or [f"certificates: valid for {min(status.certificates.values())} more days"]
    return [*lines, f"authority: {status.authority}"] if status.authority else lines


def _audit_lines(status: Status) -> list[str]:
    return [f"audit log: {status.audit}"] if status.audit.startswith("broken") else []
