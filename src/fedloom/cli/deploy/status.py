"""``fedloom deploy status`` and ``audit``: what a participant does now, and who did what in its folder."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from fedloom.cli import options as o
from fedloom.cli.deploy.operate import run_until_stopped
from fedloom.cli.deploy.options import Folder
from fedloom.cli.terminal.say import say


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


def audit(folder: Folder, as_json: o.Json = False) -> None:
    """Print who did what and when in a participant's folder, and check that nobody changed the log.

    Each line of [b]audit.jsonl[/b] holds the digest of the line before; the exit code is 2 where the chain breaks.
    Lines that were cut off the end do not show: note the last digest elsewhere, and compare.
    """
    from fedloom.core.errors import FedloomError
    from fedloom.deploy.audit_log import read_audit
    from fedloom.deploy.participant_folder import role_of

    role_of(folder)
    trail = read_audit(folder)
    if as_json:
        say(json.dumps({"entries": trail.entries, "head": trail.head, "problem": trail.problem}))
    else:
        for entry in trail.entries:
            say(_audit_line(entry))
        say(f"{len(trail.entries)} entries; the last digest is {trail.head}")
    if trail.problem:
        raise FedloomError(trail.problem)


def _audit_line(entry: dict[str, Any]) -> str:
    from fedloom.deploy.protocol.printable import printable_line

    time, who, what = (str(entry.get(name, "")) for name in ("time", "who", "what"))
    facts = [f"{name}={value}" for name, value in entry.items() if name not in ("time", "who", "what", "before")]
    return printable_line(f"{time}  {who}  {what}  {' '.join(facts)}".rstrip(), 1000)
