"""The server half of a deployed run: the simulator's round loop, over sites instead of cohorts.

It runs inside Flower's ServerApp and writes the same run folder as a simulation, into ``run`` of the server's folder.
Started again, it continues from the last checkpoint. ``outcome.json`` says how it ended; while it runs,
``serving.json`` holds its process number.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedloom.config.resolve import method_from_config
from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log
from fedloom.deploy.flower.server_transport import ServerTransport
from fedloom.deploy.members import MemberKeys
from fedloom.deploy.participant_folder import (
    CROSS_SITE,
    NUMBER,
    OUTCOME,
    REFUSED,
    RUN,
    SERVING,
    SITES,
    STATUS,
    TICKETS,
    read_json,
)
from fedloom.deploy.protocol.approval_tensor import approval_tensors
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision.certificates import expiry_warnings
from fedloom.deploy.provision.run_approval import APPROVAL, approved_number
from fedloom.deploy.server.change_clip import ChangeClip
from fedloom.deploy.server.deployed_engine import DeployedEngine
from fedloom.deploy.server.relative_bounds import RelativeBounds
from fedloom.deploy.server.relays import check_bounds
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.server.tickets import Tickets
from fedloom.deploy.settings import ServerSettings, load_server
from fedloom.deploy.sum_keys import server_keys
from fedloom.files.atomic_write import write_atomic
from fedloom.files.full_disk import explain_full_disk
from fedloom.files.json_text import parse_json
from fedloom.rounds.composition import Composition
from fedloom.runs.folder.checkpoint import last_saved_round, load_checkpoint
from fedloom.runs.folder.old_folders import read_run_values, refuse_other_version
from fedloom.runs.folder.recover import recover
from fedloom.runs.folder.run_files import NOTICES
from fedloom.runs.prepare import Prepared, prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute, resume

log = logging.getLogger("fedloom")


def serve(transport: ServerTransport, folder: Path) -> None:
    """Run the rounds to the end, or to an error, and write the outcome."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    run = folder / RUN
    run.mkdir(exist_ok=True)
    (run / OUTCOME).unlink(missing_ok=True)
    _write(run / SERVING, {"process": os.getpid()})
    try:
        audit_log.append(folder, "run resumed" if (run / "config.toml").exists() else "run started")
        with explain_full_disk(run):
            history, left_out = _serve_run(transport, folder)
        _write(run / OUTCOME, {"stopped": history.stopped} | ({"excluded": left_out} if left_out else {}))
        audit_log.append(folder, "run finished", reason=history.stopped)
    except FedloomError as why:
        log.error("%s", why)
        _stop(folder, str(why))
    except Exception as why:  # for instance a method that fails on some site's numbers, or a full disk
        log.exception("the server half failed")
        text = f"the server half failed ({type(why).__name__}: {str(why)[:200]}): see logs/superlink.log"
        _stop(folder, f"{text}; fedloom deploy run continues from the last round.")


def _stop(folder: Path, error: str) -> None:
    _write(folder / RUN / OUTCOME, {"error": error})
    audit_log.append(folder, "run stopped", reason=error)


def _serve_run(transport: ServerTransport, folder: Path) -> tuple[History, list[dict[str, Any]]]:
    run, made = folder / RUN, Blueprint.load(folder)
    settings = _settings_of_run(folder, made)
    blueprint = made.with_sites(settings.sites)
    saved = None
    if (run / "config.toml").exists():
        refuse_other_version(run, read_run_values(run))
        recover(run)
        saved = last_saved_round(run)  # not the checkpoint: a partition that is damaged is mended only below
    keys = MemberKeys(folder, settings)
    roster = Roster(transport, settings, keys, _run_name(folder, blueprint), blueprint.digest)
    places = range(len(made.sites), len(settings.sites))  # a site's folder names those who were there before it
    roster.digests |= {made.with_sites(settings.sites[:place]).digest for place in places}
    roster.reason = keys.reason
    (run / REFUSED).unlink(missing_ok=True)
    roster.audit = partial(_record_site, folder)
    roster.wait_for_all(lambda text: _write(run / STATUS, {"waiting": text}))
    missing = [
        f"{name} ({roster.absence(client, 'never connected')})"
        for client, name in enumerate(settings.sites)
        if client not in roster.sizes
    ]
    there = len(settings.sites) - len(missing)
    if there < settings.min_clients:
        raise FedloomError(
            f"only {there} of {len(settings.sites)} sites connected within {settings.join_timeout:g} s, and "
            f"min_clients = {settings.min_clients}; missing: {', '.join(missing)}; start them, then repeat fedloom "
            "deploy run."
        )
    prepared = prepare_deployed_run(blueprint, roster, settings)
    tickets = Tickets(run / TICKETS, saved)
    runtime = prepared.composition.runtime()
    sum_keys = None if runtime.sum_step is None else server_keys(folder, blueprint.sites)
    engine = DeployedEngine(transport, roster, tickets, settings, runtime, sum_keys)
    engine.approval = approval_tensors(read_json(run / APPROVAL))
    _write(run / STATUS, {})
    play = resume if (run / "config.toml").exists() else execute
    _write(run / NOTICES, list(expiry_warnings(folder).values()))
    history = play(prepared, run, [], engine)
    _finish(prepared.composition, engine, roster, settings, run)
    return history, engine.take_exclusions()


def _record_site(folder: Path, what: audit_log.What, **facts: Any) -> None:
    """Record what happened with a site in the audit log; if it was refused, also where the site itself hears of it."""
    audit_log.append(folder, what, **facts)
    if what == "request refused":
        return
    refused = {name: why for name, why in read_json(folder / RUN / REFUSED).items() if name != facts["site"]}
    if what == "site refused":
        refused[facts["site"]] = facts["reason"]
    _write(folder / RUN / REFUSED, refused)


def _run_name(folder: Path, blueprint: Blueprint) -> str:
    """The name under which sites count a run: its plan, and a number of its own that a new run draws, or that its
    approver has approved."""
    run = folder / RUN
    if not (run / "config.toml").exists():
        approved = approved_number(folder)
        if approved:
            approval = read_json(folder / APPROVAL)
            _write(run / APPROVAL, approval)
            audit_log.append(folder, "run approved", number=approved, by=str(approval["by"]), at=str(approval["at"]))
        _write(run / NUMBER, {"number": approved or secrets.token_hex(8)})
    number = read_json(run / NUMBER).get("number", "")
    return f"{blueprint.plan_digest}-{number}" if number else blueprint.plan_digest


def _settings_of_run(folder: Path, made: Blueprint) -> ServerSettings:
    """The server's settings, with the sites of the run: those that the deployment had when the run began."""
    settings, path = load_server(folder), folder / RUN / SITES
    if not (folder / RUN / "config.toml").exists():
        _write(path, settings.sites)
        return settings
    names = parse_json(path.read_bytes()) if path.exists() else list(made.sites)
    return settings.model_copy(update={"sites": names})


def prepare_deployed_run(blueprint: Blueprint, roster: Roster, settings: ServerSettings) -> Prepared:
    """The run over the server's task, which has sizes and no data; sites that join later change the sizes."""
    config = blueprint.config.model_copy(update={"checkpoint_every": 1})
    task = blueprint.server_task(roster.sizes)

    def update_sizes() -> None:
        federation, new = task.federation, blueprint.server_task(roster.sizes).federation
        for part in ("train", "valid", "test", "counted", "global_test"):
            object.__setattr__(federation, part, getattr(new, part))
        if settings.evaluator is not None:  # the shared model is evaluated on all samples of the evaluator
            object.__setattr__(federation, "global_test", _evaluator_positions(roster))
        vars(federation).pop("points", None)  # computed once from the sizes

    update_sizes()
    prepared = prepare(task, method_from_config(config), config, deployed=True, made_of=blueprint.digest)
    composition = replace(
        prepared.composition,
        execution=replace(prepared.composition.execution, cohort=1),
        scored_together=1,
        quorum=settings.min_clients,
        retries=settings.retries,
        screen=RelativeBounds(settings.max_ratio, ChangeClip(settings.clip_ratio, settings.clip_against)),
        present=roster.present,
        sample_limits=lambda: {client: limit.most for client, limit in roster.limits.items()},
    )

    check_bounds(composition, settings)

    def on_join() -> None:
        update_sizes()
        composition.clear_sizes()

    roster.on_join = on_join
    return replace(prepared, composition=composition)


def _evaluator_positions(roster: Roster) -> Tensor:
    """As many positions as the evaluator has samples; one while the number is unknown."""
    count = 1 if roster.evaluator is None else roster.sizes[roster.evaluator].test
    return torch.zeros(1, dtype=torch.int64).expand(count)


def _finish(run: Composition, engine: DeployedEngine, roster: Roster, settings: ServerSettings, folder: Path) -> None:
    """Let every site save the model it predicts with; with ``cross_site``, evaluate all models on all sites' data."""
    state = load_checkpoint(folder, run.task.federation.clients)
    if state is None:
        return
    engine.round = state.round
    clients = roster.present()
    messages = {
        client: run.algorithm.broadcast(state.server, [client]).for_clients(torch.tensor([0])) for client in clients
    }
    tensors = {
        client: {f"shared/{k}": v for k, v in m.shared.items()} | {f"each/{k}": v for k, v in m.each.items()}
        for client, m in messages.items()
    }
    engine.send(clients, "finish", tensors)
    if settings.cross_site and run.task.architectures is not None:
        log.warning("cross_site is left out: a site cannot evaluate models of an architecture that is not its own")
    elif settings.cross_site:
        sent = engine.send(clients, "model", tensors)
        width = (run.task.layout.width,)
        rows = {client: one["row"] for client, one in sent.items() if _shape(one, "row") == width}
        _write(folder / CROSS_SITE, _cross_site_scores(rows, engine, roster, run))
    log.info("on the wire: %s", engine.pending.wire)
    _write(folder / "wire.json", engine.pending.wire)


def _cross_site_scores(
    rows: Mapping[int, Tensor], engine: DeployedEngine, roster: Roster, run: Composition
) -> dict[str, Any]:
    """Evaluate every site's model on every site's data: a row per model, a column per site."""
    models = {"rows": torch.stack(list(rows.values()))} if rows else {}
    answers = engine.send(list(rows), "judge", dict.fromkeys(rows, models))
    answers = {client: answer for client, answer in answers.items() if _shape(answer, "score") == (len(rows),)}
    return {
        "what": f"{run.task.score_name} of the model of each site (row) on the test part of each site (column)",
        "models": [roster.names[client] for client in rows],
        "sites": [roster.names[client] for client in answers],
        "scores": [[_number(answer["score"][place]) for answer in answers.values()] for place in range(len(rows))],
    }


def _shape(sent: Mapping[str, Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(sent[name].shape) if name in sent else None


def _number(value: Tensor) -> float | None:
    """A score; None for a site without test samples."""
    return None if bool(value.isnan()) else float(value)


def _write(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value).encode())
