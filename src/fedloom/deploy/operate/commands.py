"""``fedloom deploy run`` and ``stop``: the operator's commands for a deployment whose server is up.

A run is started or continued (``play_run.py``); a new one waits in line while another is going on (``run_queue.py``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.flower.control import SuperLinkControl
from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.flower.release import check_flower
from fedloom.deploy.operate.play_run import (
    Observer,
    is_serving,
    last_round,
    play,
    start,
    submission_lock,
    wait_for_server,
)
from fedloom.deploy.operate.run_queue import RunQueue, RunWatch
from fedloom.deploy.operate.supervise import LinePrinter, pid_file
from fedloom.deploy.participant_folder import (
    OUTCOME,
    RUN,
    TICKETS,
    role_of,
)
from fedloom.deploy.server.tickets import refuse_lost_states
from fedloom.deploy.settings import OPENED, READY, load_server, refuse_other_participant
from fedloom.registry.validation import read_toml

PAUSE = 0.2
"""Seconds between two looks at the line."""
SITE_STATES = {OPENED: "its data are read; it is not connected yet", READY: "connected; no request yet"}
"""The meaning of the last line of a site's log."""


def run(
    folder: Path,
    say: LinePrinter,
    observe: Observer,
    new: bool = False,
    from_round: int | None = None,
    report: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Start a deployment's run, or continue it, and wait for its end; also of those that are in line before it.

    Args:
        folder: The server's folder.
        say: Gets lines for the user.
        observe: Gets the record of each round.
        new: Begin a new run, with all sites that the deployment has now; the folder of the last one is kept. While a
            run is going on it waits in line.
        from_round: Continue after this round, of which there must be a checkpoint; what came later is forgotten.
        report: Gets the run's folder at its end, before the next one in line takes its place.

    Returns:
        The run's folder.
    """
    refuse_other_participant(folder)
    check_flower()
    load_server(folder)
    run_folder, queue = folder / RUN, RunQueue(folder)
    if new and from_round is not None:
        raise FedloomError("a new run has no earlier round: give --new or --from-round, not both.")
    if new or not (run_folder / "config.toml").exists():
        _refuse_unapproved(folder)
    if from_round is not None:
        _go_back(folder, from_round)
    ahead = len(queue.waiting()) + is_serving(run_folder)
    mine = queue.join(at_once=not is_serving(run_folder)).ticket if new else ""
    if mine and ahead:
        say(f"A run is going on: this one is in line, behind {ahead}. Ctrl-C leaves the line.")
    watch = RunWatch(folder)
    try:
        if not new:
            watch.watch()
            play(folder, say, observe)
        _play_line(folder, queue, mine, watch, say, observe)
        report(run_folder)
        return run_folder
    except KeyboardInterrupt:
        if queue.has(mine):
            queue.leave(mine)
            say("The new run has left the line.")
        raise
    finally:
        watch.close()


def _play_line(folder: Path, queue: RunQueue, mine: str, watch: RunWatch, say: LinePrinter, observe: Observer) -> None:
    """Play the runs in line that no other command plays, up to this command's own; the last one stays watched.

    Args:
        folder: The server's folder.
        mine: The ticket of its own; empty if it has none.
        watch: Holds the folder of the run that is played.
    """
    run_folder = folder / RUN
    while mine or queue.next_for(mine):
        if not watch.take():
            time.sleep(PAUSE)
            continue
        begun = _begin_next(folder, queue, mine, say)
        watch.watch()
        if not begun and not is_serving(run_folder) and _is_over(run_folder):  # the next one is another command's
            watch.release()
            time.sleep(PAUSE)
            continue
        try:
            play(folder, say, observe)
        except FedloomError as why:
            if begun == mine or not _is_over(run_folder):
                raise
            say(f"The run before stopped: {why}")
        if mine and begun == mine:
            return
        if mine or queue.next_for(mine):
            watch.release()


def _begin_next(folder: Path, queue: RunQueue, mine: str, say: LinePrinter) -> str:
    """Begin the next run in line, if it is this command's or nobody's and the one before is at its end.

    Returns:
        Its ticket; empty if none was begun.
    """
    run_folder = folder / RUN
    wait_for_server(folder)
    with submission_lock(folder):
        head = queue.next_for(mine)
        if head is None or is_serving(run_folder) or not (head.at_once or _is_over(run_folder)):
            return ""
        queue.leave(head.ticket)
        _refuse_unapproved(folder)
        if run_folder.exists():
            say(f"The last run is kept in {_put_aside(run_folder)}.")
        start(folder)
        return head.ticket


def _is_over(run_folder: Path) -> bool:
    """Whether there is no run to continue: it has ended, or none has begun."""
    return (run_folder / OUTCOME).exists() or not (run_folder / "config.toml").exists()


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
    if last_round(run_folder) >= rounds:
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
