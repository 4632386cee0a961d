"""Keep a participant's programs running: one that dies is started again, and one that always does ends them all."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from fedloom.core.errors import FedloomError
from fedloom.deploy.operate.ask_server import SiteRefused
from fedloom.deploy.operate.connection_error import connection_error
from fedloom.deploy.operate.programs import PidFile, Program
from fedloom.deploy.participant_folder import FLOWER

LinePrinter = Callable[[str], None]
"""Shows the user one line."""
PAUSE = 1.0
"""Seconds before a program that died is restarted."""
TOO_SOON, TOO_OFTEN = 30.0, 8
"""After this many deaths, in this many seconds each on average, a program is not restarted any more."""


def pid_file(folder: Path) -> PidFile:
    """The file that records which process uses a participant's folder."""
    return PidFile(folder / FLOWER / "process")


def keep_running(
    programs: list[Program],
    restart: list[Callable[[], Program]],
    say: LinePrinter,
    checks: Sequence[Callable[[], None]] = (),
    together: bool = False,
) -> NoReturn:
    """Restart programs that die; with ``together`` all of them, since a SuperNode forgets its site's current work.

    ``checks`` are called a few times per second; an error of theirs ends it.
    """
    deaths: list[float] = []
    while True:
        time.sleep(0.2)
        for check in checks:
            check()
        dead = [place for place, program in enumerate(programs) if program.has_ended]
        if not dead:
            continue
        first, now = programs[dead[0]], time.monotonic()
        deaths = [*[moment for moment in deaths if now - moment < TOO_SOON * TOO_OFTEN], now]
        if len(deaths) >= TOO_OFTEN:
            raise FedloomError(
                f"{first.name} ended {TOO_OFTEN} times: {connection_error(first.output())} ({first.log})"
            )
        say(f"{first.name} ended (code {first.process.returncode}): it is restarted.")
        time.sleep(PAUSE * len(deaths))
        places = list(range(len(programs))) if together else dead
        for place in places:
            programs[place].kill()
        try:
            for place in places:
                programs[place] = restart[place]()
        except SiteRefused:
            raise
        except FedloomError as why:  # a server that has just restarted may not have registered its sites yet
            say(f"{why} It will be tried again.")


def stop_reason() -> str:
    """Why a participant's programs end: the sentence of the error that ends them, or that somebody asked for it."""
    error = sys.exception()
    return str(error) if isinstance(error, FedloomError) else "asked to stop"


def stop_on_sigterm() -> None:
    """Let a request to end act as Ctrl-C does."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
