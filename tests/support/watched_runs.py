"""Run folders made up for the tests of watching: as many records as wanted, growing, stopped, cut back, or hostile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedloom.deploy.settings import ServerSettings, to_toml
from fedloom.runs.folder.metrics_file import append_record
from fedloom.watch.server import WatchServer

CLIENTS, SHARED = "client_model/own_test/accuracy/mean", "global_model/global_test/accuracy"
CONFIG = (
    'rounds = {rounds}\n[task]\nname = "digits"\n[method]\nname = "fedavg"\n'
    '[made_by]\nfedloom = "0.6"\ntorch = "2.13"\n'
)


def record(number: int, **more: Any) -> dict[str, Any]:
    """The record of a round in which clients 0 and 1 took part."""
    score = 1 - 0.9 / (1 + number)
    return {
        "round": number,
        "selected": [0, 1] if number else [],
        "bytes_up": 1000 * bool(number),
        "bytes_down": 2000 * bool(number),
        "metrics": {CLIENTS: score, SHARED: score / 2, "client_model/own_test/loss/mean": 2 / (1 + number)},
        **more,
    }


def write_run(folder: Path, rounds: int, of: int | None = None) -> Path:
    """The folder of a run with this many rounds done."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG.format(rounds=of or rounds))
    (folder / "partition.json").write_text(
        json.dumps({"counts": [[3, 4], [5, 6], [7, 8]], "class_names": ["a", "b"], "client_names": ["x", "y", "z"]})
    )
    play(folder, range(rounds + 1))
    return folder


def write_comparison(folder: Path, methods: list[str], seeds: int, rounds: int) -> Path:
    """The folder of a comparison that has not begun."""
    folder.mkdir(parents=True, exist_ok=True)
    plan = f"methods = {json.dumps(methods)}\nseeds = {seeds}\n[config]\nrounds = {rounds}\n"
    (folder / "comparison.toml").write_text(f'{plan}[config.task]\nname = "digits"\n')
    return folder


def write_audit(folder: Path) -> Path:
    """The folder of an audit with an attack that was played and one that the run refused; one file is not whole."""
    (folder / "cells").mkdir(parents=True)
    (folder / "audit.toml").write_text('minutes = 2.0\n[config]\nmethod = "fedavg"\n[config.task]\nname = "digits"\n')
    cell = {"probe": "lira", "setting": "as configured", "seed": 0, "status": "measured", "reason": ""}
    (folder / "cells" / "a.json").write_text(json.dumps(cell))
    refused = cell | {"probe": "gan", "status": "refused", "reason": "no classes"}
    (folder / "cells" / "b.json").write_text(json.dumps(refused))
    (folder / "cells" / "c.json").write_text("{}")
    return folder


def play(folder: Path, rounds: Any) -> None:
    """Append the records of some rounds, as a run does."""
    for number in rounds:
        append_record(folder, record(number), 0.5)


def finish(folder: Path) -> None:
    """Write what a run writes at its end."""
    (folder / "clients.json").write_text("[]")


def write_server(folder: Path, rounds: int, **settings: Any) -> Path:
    """The folder of a deployment's server that is down, with a run of two sites in it."""
    (folder / "keys").mkdir(parents=True)
    chosen = {"sites": ["north", "south"], "host": "127.0.0.1", **settings}
    (folder / "deploy.toml").write_bytes(to_toml(ServerSettings(**chosen)))
    (folder / "config.toml").write_text(CONFIG.format(rounds=10))
    if rounds:
        write_run(folder / "run", rounds, of=10)
    folder.chmod(0o700)
    return folder


@contextmanager
def serving(folder: Path, **more: Any) -> Iterator[WatchServer]:
    """The page of a folder, on a free port."""
    server = WatchServer(folder, **more)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.end()
        thread.join()
