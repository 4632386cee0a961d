"""A deployment in this process whose sites hold pieces of one graph: each its own nodes, known by their ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import SiteData, SiteSettings
from fedloom.deploy.site.process import SiteProcess
from fedloom.deploy.site.state import SiteState
from fedloom.runs.prepare import prepare
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.graphs.read import save_graph
from support.local_transport import NAMES, Local, Plan
from support.small_graphs import clubs

SALT = "correct horse battery staple"


def graph_run(path: Path, method: str = "fedgala", rounds: int = 4) -> dict[str, Any]:
    """A run of a method on a graph of three clients."""
    task = {
        "name": "own-graph", "path": str(path), "clients": 3, "seed": 1, "model_options": {"hidden": 4},
        "options": {"normalise": False},
    }  # fmt: skip
    local = {"optimizer": "adam", "lr": 0.05, "batch_size": 0, "epochs": 2}
    method_ = {"name": method, "tolerance": 0.0, "first_tolerance": 0.0}
    return {"rounds": rounds, "seed": 5, "execution": "loop", "task": task, "local": local, "method": method_}


def write_pieces(run: dict[str, Any], folder: Path) -> None:
    """What each client of the simulated run holds, as a file of its own; nodes are called by their global numbers."""
    federation = task_from_config(resolve(run)).federation
    assert isinstance(federation, GraphFederation)
    for client, name in enumerate(NAMES):
        graph, copies = federation.graphs.original(client), federation.graphs.positions(client)
        parts = {part: torch.isin(copies, getattr(federation, part)[client]) for part in ("train", "valid", "test")}
        piece = replace(
            clubs(), graph=graph, labels=federation.columns["y"][copies], parts=parts, class_names=(),
            ids=tuple(f"paper {number}" for number in graph.nodes.tolist()),
        )  # fmt: skip
        save_graph(piece, folder / f"{name}.npz")


class GraphSites(Local):
    """Sites with pieces of a graph; ``plan.prepared`` is the run in the simulator."""

    def __init__(self, run: dict[str, Any], folder: Path, salts: tuple[str, ...] = (SALT,) * 3) -> None:
        self.salts = salts
        config = resolve(run)
        blueprint, task = Blueprint.of(config, NAMES), task_from_config(config)
        prepared = prepare(task, method_from_config(config), config)
        write_pieces(run, folder)
        super().__init__(Plan(blueprint, blueprint.runtime(task), prepared), folder, deadline=30.0)

    def site(self, client: int) -> SiteProcess:
        """A site's process over its own piece."""
        folder, made = self.folder / NAMES[client], self.plan.blueprint
        data = SiteData(path=str(self.folder / f"{NAMES[client]}.npz"), salt=self.salts[client])
        settings = SiteSettings(name=NAMES[client], client=client, data=data)
        runtime = made.runtime(made.site_task(settings, self.folder))
        return SiteProcess(folder, settings, made, runtime, SiteState(folder / "kept"))
