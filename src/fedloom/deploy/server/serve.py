"""The server's half of a deployed run: the simulator's round loop, over sites instead of cohorts.

It runs inside Flower's ServerApp, in the server's folder, and writes the same run folder as a simulation, below
``run``. Started again, it goes on from the last checkpoint. ``outcome.json`` says how it ended; while it is at work
``serving.json`` names its process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower import Post, key_of
from fedloom.deploy.operate.commands import CROSS, OUTCOME, RUN, SERVING, STATUS
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.server.deployed_engine import DeployedEngine
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.server.tickets import Tickets
from fedloom.deploy.settings import ServerSettings, load_server
from fedloom.rounds.composition import Composition
from fedloom.runs.api import method_of
from fedloom.runs.checkpoint import load_checkpoint, write_whole
from fedloom.runs.history import History
from fedloom.runs.runner import Prepared, execute, prepare, resume

log = logging.getLogger("fedloom")


def serve(post: Post, folder: Path) -> None:
    """Play a run to its end, or as far as it goes, and leave word of it."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    run = folder / RUN
    run.mkdir(exist_ok=True)
    (run / OUTCOME).unlink(missing_ok=True)
    _write(run / SERVING, {"process": os.getpid()})
    try:
        history, left_out = _served(post, folder)
        _write(run / OUTCOME, {"stopped": history.stopped} | ({"excluded": left_out} if left_out else {}))
    except FedloomError as why:
        log.error("%s", why)
        _write(run / OUTCOME, {"error": str(why)})
    except Exception as why:  # a method that some site's numbers have led astray, a full disk
        log.exception("the server half failed")
        told = f"the server half failed ({type(why).__name__}: {str(why)[:200]}): see logs/superlink.log"
        _write(run / OUTCOME, {"error": f"{told}; fedloom deploy run goes on from the last round."})


def _served(post: Post, folder: Path) -> tuple[History, list[dict[str, Any]]]:
    settings, blueprint, run = load_server(folder), Blueprint.load(folder), folder / RUN
    state = load_checkpoint(run, len(blueprint.sites)) if (run / "config.toml").exists() else None
    keys = {key_of(folder / "keys" / f"{name}.pub"): number for number, name in enumerate(settings.everyone)}
    roster = Roster(post, settings, keys, blueprint.digest, blueprint.digest)
    roster.gather(lambda text: _write(run / STATUS, {"waiting": text}))
    missing = [
        f"{name} ({roster.refused.get(client, 'never connected')})"
        for client, name in enumerate(settings.sites)
        if client not in roster.sizes
    ]
    there = len(settings.sites) - len(missing)
    if there < settings.min_clients:
        raise FedloomError(
            f"only {there} of {len(settings.sites)} sites connected within {settings.join_timeout:g} s, and "
            f"min_clients = {settings.min_clients}; missing: {', '.join(missing)}; start them, then fedloom deploy run "
            "again."
        )
    prepared = deployed(blueprint, roster, settings)
    tickets = Tickets(run / "tickets.json", None if state is None else state.round)
    fleet = DeployedEngine(post, roster, tickets, settings, prepared.composition.runtime())
    _write(run / STATUS, {})
    play = resume if (run / "config.toml").exists() else execute
    history = play(prepared, run, [], fleet)
    _finish(prepared.composition, fleet, roster, settings, run)
    return history, fleet.left_out()


def deployed(blueprint: Blueprint, roster: Roster, settings: ServerSettings) -> Prepared:
    """The run over the hollow task of the sites that are there; sites that join later change its sizes."""
    config = blueprint.config.model_copy(update={"checkpoint_every": 1})
    task = blueprint.server_task(roster.sizes)

    def joined() -> None:
        told = blueprint.server_task(roster.sizes).federation
        for part in ("train", "valid", "test", "counted", "global_test"):
            object.__setattr__(task.federation, part, getattr(told, part))
        if settings.evaluator is not None:  # the shared model is scored on all that the evaluator has
            object.__setattr__(task.federation, "global_test", _evaluators(roster))

    roster.joined = joined
    joined()
    prepared = prepare(task, method_of(config), config, made_of=blueprint.digest)
    composition = replace(
        prepared.composition,
        execution=replace(prepared.composition.execution, cohort=1),
        scored_together=1,
        quorum=settings.min_clients,
        retries=settings.retries,
        present=roster.present,
    )
    return replace(prepared, composition=composition)


def _evaluators(roster: Roster) -> Tensor:
    """As many positions as the evaluator has samples, which only it knows; one while it has not said."""
    count = 1 if roster.evaluator is None else roster.sizes[roster.evaluator].test
    return torch.zeros(1, dtype=torch.int64).expand(count)


def _finish(run: Composition, fleet: DeployedEngine, roster: Roster, settings: ServerSettings, folder: Path) -> None:
    """Every site saves the model it will predict with; where it was asked for, models are scored on all sites' data."""
    state = load_checkpoint(folder, run.task.federation.clients)
    if state is None:
        return
    fleet.round = state.round
    clients = roster.present()
    messages = {
        client: run.algorithm.broadcast(state.server, [client]).for_clients(torch.tensor([0])) for client in clients
    }
    tensors = {
        client: {f"shared/{k}": v for k, v in m.shared.items()} | {f"each/{k}": v for k, v in m.each.items()}
        for client, m in messages.items()
    }
    fleet.send(clients, "finish", tensors)
    if settings.cross_site:
        sent = fleet.send(clients, "model", tensors)
        width = (run.task.layout.width,)
        rows = {client: one["row"] for client, one in sent.items() if _shape(one, "row") == width}
        _write(folder / CROSS, _judged(rows, fleet, roster, run))
    log.info("on the wire: %s", fleet.wire)
    _write(folder / "wire.json", fleet.wire)


def _judged(rows: Mapping[int, Tensor], fleet: DeployedEngine, roster: Roster, run: Composition) -> dict[str, Any]:
    """Every site's model on every site's data: a row per model, a column per site."""
    models = {"rows": torch.stack(list(rows.values()))} if rows else {}
    judges = fleet.send(list(rows), "judge", dict.fromkeys(rows, models))
    judges = {client: said for client, said in judges.items() if _shape(said, "score") == (len(rows),)}
    return {
        "what": f"{run.task.objective.score} of the model of each site (row) on the test part of each site (column)",
        "models": [roster.names[client] for client in rows],
        "sites": [roster.names[client] for client in judges],
        "scores": [[_number(said["score"][place]) for said in judges.values()] for place in range(len(rows))],
    }


def _shape(sent: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(sent[name].shape) if name in sent else None


def _number(value: Tensor) -> float | None:
    """A score; None of a site without test samples."""
    return None if bool(value.isnan()) else float(value)


def _write(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value).encode())
