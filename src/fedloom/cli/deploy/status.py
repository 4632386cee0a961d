"""``fedloom deploy status`` and ``audit``: what a participant does now, and who did what in its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.deploy.operate import run_until_stopped
from fedloom.cli.deploy.options import Folder
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.deploy.weaknesses import Weakness


def status(
    folder: Folder,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again when it changes, until Ctrl-C; plain lines in a pipe.")
    ] = False,
    as_json: o.Json = False,
) -> None:
    """Show the state of a participant: its programs, and at the server the sites, the run and excluded answers.

    [b]fedloom watch[/b] shows the same in a browser.
    """
    from fedloom.cli.deploy.status_view import show_status, status_lines, status_values
    from fedloom.deploy.participant_folder import role_of
    from fedloom.watch.status_reader import StatusReader

    role_of(folder)
    reader = StatusReader(folder)
    if watch:
        run_until_stopped(lambda: show_status(reader, as_json))
        return
    found = reader.read()
    for line in [json.dumps(status_values(found))] if as_json else status_lines(found):
        say(line)


def audit(folder: Folder, trust: o.Trust = None, as_json: o.Json = False) -> None:
    """Print who did what in a participant's folder, and what the plan of its deployment leaves open.

    Each line of [b]audit.jsonl[/b] holds the digest of the line before; the exit code is 2 where the chain breaks.
    Lines that were cut off the end do not show: note the last digest elsewhere, and compare.

    The plan is judged without data: what it lets somebody learn or ruin, how bad that is, and what to set. That
    something is left open does not change the exit code. Code that a plan names is run for that only with --trust.
    """
    from dataclasses import asdict

    from fedloom.core.errors import FedloomError
    from fedloom.deploy.audit_log import read_audit
    from fedloom.deploy.participant_folder import role_of

    role_of(folder)
    trail = read_audit(folder)
    found, unjudged = _weaknesses(folder, trust or ())
    if as_json:
        entries = {"entries": trail.entries, "head": trail.head, "problem": trail.problem}
        say(json.dumps({**entries, "weaknesses": [asdict(one) for one in found], "unjudged": unjudged}))
    else:
        for entry in trail.entries:
            say(_audit_line(entry))
        for line in _weakness_lines(found, unjudged):
            say(line)
        say(f"{len(trail.entries)} entries; the last digest is {trail.head}")  # people note it from the last line
    if trail.problem:
        raise FedloomError(trail.problem)


def _weaknesses(folder: Path, trusted: Sequence[str]) -> tuple[list[Weakness], str | None]:
    """What the plan leaves open, or why that cannot be said; the log is printed all the same."""
    from fedloom.core.errors import FedloomError
    from fedloom.deploy.plan_audit import find_weaknesses

    try:
        return find_weaknesses(folder, tuple(trusted)), None
    except FedloomError as reason:
        return [], str(reason)


def _weakness_lines(found: Sequence[Weakness], unjudged: str | None) -> Iterator[str]:
    from fedloom.deploy.weaknesses import SEVERITIES

    yield ""
    if unjudged is not None:
        yield f"The plan cannot be judged: {unjudged}"
    else:
        counts = [f"{sum(one.severity == each for one in found)} {each}" for each in SEVERITIES]
        yield f"What the plan leaves open: {', '.join(counts)}. That nothing else is named proves nothing."
    for one in found:
        yield f"{one.severity:<7} {one.what}"
        yield f"        could:  {one.could}"
        yield f"        advice: {one.advice}"
    yield ""


def _audit_line(entry: dict[str, Any]) -> str:
    from fedloom.deploy.protocol.printable import printable_line

    time, who, what = (str(entry.get(name, "")) for name in ("time", "who", "what"))
    facts = [f"{name}={value}" for name, value in entry.items() if name not in ("time", "who", "what", "before")]
    return printable_line(f"{time}  {who}  {what}  {' '.join(facts)}".rstrip(), 1000)
