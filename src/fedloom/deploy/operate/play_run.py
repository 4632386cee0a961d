"""Start a deployed run, or continue it, and follow it to its end.

The SuperLink gets the run and starts its server half. This module follows the run's folder and shows the same progress
as for a simulation. When the server half dies, or the SuperLink, the run is submitted again and continues from its last
round.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.flower.control import SuperLinkControl, write_app
from fedloom.deploy.flower.server_half import MODULE as SERVER_HALF
from fedloom.deploy.operate.programs import LogMark, is_listening
from fedloom.deploy.operate.supervise import LinePrinter, pid_file
from fedloom.deploy.participant_folder import (
    CLAIM,
    FLOWER,
    OUTCOME,
    RUN,
    SERVER_FILE,
    SERVING,
    STATUS,
    make_private,
    read_json,
)
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.settings import load_server
from fedloom.runs.folder.metrics_file import METRICS
from fedloom.runs.folder.record_tail import RecordTail

START_TIMEOUT = 120.0
"""Seconds in which the server half must have started."""
MAX_RESUBMISSIONS, MAX_STARTS = 5, 2
"""How often a run whose server half dies without finishing a round is submitted, and one whose server half dies before
it has begun: that is rarely an accident, but the SuperLink may have been killed beneath it."""

_ERROR_LINE = re.compile(r"[\w.]*(Error|Exception|Exit)\b: ")
"""The last line of a traceback."""

Observer = Callable[[dict[str, Any]], None]


def play(folder: Path, say: LinePrinter, observe: Observer) -> None:
    """Start the run in the server's folder, or continue it, or watch it, to its end."""
    run_folder = folder / RUN
    records = RecordTail(run_folder / METRICS)
    tries, starts, reached = 0, 0, -1  # tries and deaths at the start since the last finished round
    while tries < MAX_RESUBMISSIONS:
        wait_for_server(folder)
        log = LogMark.at_end_of(folder / "logs" / "superlink.log")
        with submission_lock(folder):
            if not is_serving(run_folder):
                start(folder)
        outcome = _follow(run_folder, records, say, observe)
        if outcome is None:
            done = last_round(run_folder)
            tries, reached = (
                (1 if done > reached else tries + 1),
                done,
            )
            if not read_json(run_folder / SERVING).get("starting"):
                starts = 0
                say("The server half of the run ended unexpectedly. It continues from its last round.")
                continue
            starts, error = starts + 1, _start_error(log)
            if starts == MAX_STARTS:
                raise FedloomError(error)
            say(f"{error[0].upper()}{error[1:]} It is tried once more.")
            continue
        if "error" in outcome:
            raise FedloomError(outcome["error"])
        return
    raise FedloomError(
        f"the server half of the run ended unexpectedly {MAX_RESUBMISSIONS} times: see "
        f"{folder / 'logs' / 'superlink.log'}; {len(load_server(folder).sites)} sites were expected."
    )


def start(folder: Path) -> None:
    """Let the SuperLink start the server half of the run; whoever calls it holds the lock."""
    run_folder = folder / RUN
    (run_folder / OUTCOME).unlink(missing_ok=True)
    (run_folder / SERVING).unlink(missing_ok=True)
    _submit(folder)
    _wait_until_serving(run_folder)


def _start_error(log: LogMark) -> str:
    """Why the server half of a run died before it had begun, as far as the log says."""
    said = [line for line in log.new_lines() if _ERROR_LINE.match(line)]
    reason = printable_line(said[-1], 300) if said else "it printed no error"
    return f"the server half of the run died at its start ({reason}): see {log.path}."


def wait_for_server(folder: Path) -> None:
    settings, end = load_server(folder), time.monotonic() + START_TIMEOUT
    port = settings.link_port
    while not is_listening(port, settings.link_host):
        if pid_file(folder).process() is None:
            raise FedloomError(f"the server is not running: start it with  fedloom deploy server {folder}")
        if time.monotonic() > end:
            raise FedloomError(f"the server does not answer on port {port}: see {folder / 'logs' / 'superlink.log'}.")
        time.sleep(0.1)


def _submit(folder: Path) -> None:
    audit_log.append_changed_settings(folder, SERVER_FILE)
    audit_log.append(folder, "run submitted")
    home = make_private(folder / FLOWER)
    make_private(folder / RUN)
    (home / "run").write_text(SuperLinkControl(folder).start(write_app(home, folder)))


@contextlib.contextmanager
def submission_lock(folder: Path) -> Iterator[None]:
    """Hold a lock, so that of two commands that watch a run only one submits it again."""
    with open(folder / "flower" / "submitting", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _wait_until_serving(run_folder: Path) -> None:
    end = time.monotonic() + START_TIMEOUT
    while not (run_folder / SERVING).exists() and time.monotonic() < end:
        time.sleep(0.05)


def is_serving(run_folder: Path) -> bool:
    """Whether the server half of the run is running."""
    process = read_json(run_folder / SERVING).get("process")
    return process is not None and not (run_folder / OUTCOME).exists() and _is_alive(int(process))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return SERVER_HALF.encode() in Path(f"/proc/{process}/cmdline").read_bytes()
    except ProcessLookupError:
        return False
    except OSError:
        return True


def _follow(run_folder: Path, records: RecordTail, say: LinePrinter, observe: Observer) -> Any:
    """Show a run's rounds as they end; the outcome, or None if the server half died."""
    shown, started = "", time.monotonic()
    while True:
        _show(records, say, observe)
        waiting = read_json(run_folder / STATUS).get("waiting", "")
        if waiting and waiting != shown:
            shown = waiting
            say(f"Waiting: {waiting}.")
        outcome = read_json(run_folder / OUTCOME)
        if outcome:
            _show(records, say, observe)
            return outcome
        if (run_folder / SERVING).exists():
            if not is_serving(run_folder) and not (run_folder / OUTCOME).exists():
                return None
        elif time.monotonic() - started > START_TIMEOUT:
            return None
        time.sleep(0.1)


def _show(records: RecordTail, say: LinePrinter, observe: Observer) -> None:
    for record in records.new():
        if "round" in record:  # the last line may say why the run stopped
            observe(record)
        for remark in record.get("remarks", ()):
            if remark["what"] == CLAIM:
                say(f"From round {record['round']} on, {remark['name']} {remark['reason']}.")


def last_round(run_folder: Path) -> int:
    """The last round in the metrics."""
    return max((record["round"] for record in RecordTail(run_folder / METRICS).new() if "round" in record), default=-1)
