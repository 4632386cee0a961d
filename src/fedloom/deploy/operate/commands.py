"""``fedloom deploy run``, ``status`` and ``stop``: the operator's commands for a deployment whose server is up.

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
from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.flower.release import check_flower
from fedloom.deploy.flower.server_half import MODULE as SERVER_HALF
from fedloom.deploy.operate.programs import LogMark, is_listening
from fedloom.deploy.operate.supervise import LinePrinter, pid_file
from fedloom.deploy.participant_folder import (
    FLOWER,
    OUTCOME,
    RUN,
    SERVER_FILE,
    SERVING,
    STATUS,
    TICKETS,
    make_private,
    read_json,
    role_of,
)
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.server.tickets import refuse_lost_states
from fedloom.deploy.settings import OPENED, READY, load_server, refuse_other_participant
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.metrics_file import METRICS
from fedloom.runs.folder.record_tail import RecordTail

START_TIMEOUT = 120.0
"""Seconds in which the server half must have started."""
MAX_RESUBMISSIONS, MAX_STARTS = 5, 2
"""How often a run whose server half dies without finishing a round is submitted, and one whose server half dies before
it has begun: that is rarely an accident, but the SuperLink may have been killed beneath it."""

SITE_STATES = {OPENED: "its data are read; it is not connected yet", READY: "connected; no request yet"}
"""The meaning of the last line of a site's log."""

_ERROR_LINE = re.compile(r"[\w.]*(Error|Exception|Exit)\b: ")
"""The last line of a traceback."""

Observer = Callable[[dict[str, Any]], None]


def run(folder: Path, say: LinePrinter, observe: Observer, new: bool = False, from_round: int | None = None) -> Path:
    """Start a deployment's run, or continue it, and wait for its end.

    Args:
        folder: The server's folder.
        say: Gets lines for the user.
        observe: Gets the record of each round.
        new: Begin a new run, with all sites that the deployment has now; the folder of the last one is kept.
        from_round: Continue after this round, of which there must be a checkpoint; what came later is forgotten.

    Returns:
        The run's folder.
    """
    refuse_other_participant(folder)
    check_flower()
    settings, run_folder = load_server(folder), folder / RUN
    if new and from_round is not None:
        raise FedloomError("a new run has no earlier round: give --new or --from-round, not both.")
    if new or not (run_folder / "config.toml").exists():
        _refuse_unapproved(folder)
    if new and run_folder.exists():
        say(f"The last run is kept in {_put_aside(run_folder)}.")
    if from_round is not None:
        _go_back(folder, from_round)
    records = RecordTail(run_folder / METRICS)
    tries, starts, reached = 0, 0, -1  # tries and deaths at the start since the last finished round
    while tries < MAX_RESUBMISSIONS:
        _wait_for_server(folder)
        log = LogMark.at_end_of(folder / "logs" / "superlink.log")
        with _submission_lock(folder):
            if not is_serving(run_folder):
                (run_folder / OUTCOME).unlink(missing_ok=True)
                (run_folder / SERVING).unlink(missing_ok=True)
                _submit(folder)
                _wait_until_serving(run_folder)
        outcome = _follow(run_folder, records, say, observe)
        if outcome is None:
            done = _last_round(run_folder)
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
        return run_folder
    raise FedloomError(
        f"the server half of the run ended unexpectedly {MAX_RESUBMISSIONS} times: see "
        f"{folder / 'logs' / 'superlink.log'}; {len(settings.sites)} sites were expected."
    )


def _start_error(log: LogMark) -> str:
    """Why the server half of a run died before it had begun, as far as the log says."""
    said = [line for line in log.new_lines() if _ERROR_LINE.match(line)]
    reason = printable_line(said[-1], 300) if said else "it printed no error"
    return f"the server half of the run died at its start ({reason}): see {log.path}."


def _refuse_unapproved(folder: Path) -> None:
    """Refuse to begin a run that the deployment's approver, if it has one, has not approved."""
    from fedloom.deploy.provision.run_approval import approved_number  # it needs torch

    approved_number(folder)


def _go_back(folder: Path, number: int) -> None:
    """Let a run that is not running continue after an earlier round."""
    from fedloom.runs.earlier_round import forget_later_rounds  # it needs torch

    run_folder = folder / RUN
    _refuse_if_at_work(run_folder)
    if not (run_folder / "config.toml").exists():
        raise FedloomError(f"{run_folder} has no run yet, so it has no earlier round: leave --from-round out.")
    rounds = int(read_toml(run_folder / "config.toml")["rounds"])
    if _last_round(run_folder) >= rounds:
        raise FedloomError(
            f"the run has played all of its {rounds} rounds, and its sites have saved their models: begin a new one "
            "(fedloom deploy run --new)."
        )
    refuse_lost_states(run_folder / TICKETS, number)
    forget_later_rounds(run_folder, number)
    (run_folder / OUTCOME).unlink(missing_ok=True)
    audit_log.append(folder, "run set back", round=number)


def _refuse_if_at_work(run_folder: Path) -> None:
    if is_serving(run_folder):
        raise FedloomError(f"the run in {run_folder} is running: end it with fedloom deploy stop, or wait for its end.")


def _put_aside(run_folder: Path) -> Path:
    """Rename the folder of a run that has ended, to ``run-1``, ``run-2`` and so on."""
    _refuse_if_at_work(run_folder)
    number = 1
    while (kept := run_folder.with_name(f"{run_folder.name}-{number}")).exists():
        number += 1
    run_folder.rename(kept)
    return kept


def _wait_for_server(folder: Path) -> None:
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
def _submission_lock(folder: Path) -> Iterator[None]:
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
        _show(records, observe)
        waiting = read_json(run_folder / STATUS).get("waiting", "")
        if waiting and waiting != shown:
            shown = waiting
            say(f"Waiting: {waiting}.")
        outcome = read_json(run_folder / OUTCOME)
        if outcome:
            _show(records, observe)
            return outcome
        if (run_folder / SERVING).exists():
            if not is_serving(run_folder) and not (run_folder / OUTCOME).exists():
                return None
        elif time.monotonic() - started > START_TIMEOUT:
            return None
        time.sleep(0.1)


def _show(records: RecordTail, observe: Observer) -> None:
    for record in records.new():
        if "round" in record:  # the last line may say why the run stopped
            observe(record)


def _last_round(run_folder: Path) -> int:
    """The last round in the metrics."""
    return max((record["round"] for record in RecordTail(run_folder / METRICS).new() if "round" in record), default=-1)


def stop(folder: Path) -> bool:
    """Stop the programs of a participant, and the run at the server; whether anything was running."""
    number = folder / "flower" / "run"
    if pid_file(folder).process() is not None:
        audit_log.append(folder, "stop requested")
    if role_of(folder) == "server" and pid_file(folder).process() is not None and number.exists():
        with contextlib.suppress(*connection_errors()):  # the run or the SuperLink may have ended
            SuperLinkControl(folder).stop(number.read_text())
        number.unlink(missing_ok=True)
    return pid_file(folder).stop()
