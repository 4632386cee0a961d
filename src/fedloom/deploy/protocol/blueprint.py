"""What server and sites have in common of a deployed run: its config, the form of its task, the initial model.

From these the server makes a *hollow* task, which has every site's sizes and no data, and a site the real one from its
own data. Nobody needs the data of another. The initial row travels with the blueprint, so that a site whose torch
draws other numbers begins from the same model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from safetensors.torch import save
from torch import Tensor, nn

import fedloom
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import FederationView, Task
from fedloom.core.validation import read_toml, validate
from fedloom.data.federation import Federation, Ragged
from fedloom.deploy.protocol.schema import Schema, Sizes, schema_of
from fedloom.deploy.provision.user_files import in_place, take_along, without_places
from fedloom.deploy.server.remote_federation import Columns, hollow
from fedloom.deploy.settings import SiteSettings
from fedloom.deploy.site import graphs
from fedloom.deploy.site.data import site_federation
from fedloom.models import build
from fedloom.rounds.jobs import ClientRuntime
from fedloom.runs.api import completed, make_task, method_of
from fedloom.runs.checkpoint import load_tensors, write_whole
from fedloom.runs.config import RunConfig, as_plain, parse, to_toml
from fedloom.runs.history import History
from fedloom.runs.runner import prepare
from fedloom.tasks.graphs.federation import GraphFederation
from fedloom.tasks.transforms import CropFlip
from fedloom.training.execution import decide
from fedloom.training.local_trainer import LocalTrainer

CONFIG, SCHEMA, INITIAL = "config.toml", "schema.json", "initial.safetensors"
COMMUNAL, GLOBAL = "communal.safetensors", "global.safetensors"
NOT_SHARED = ("workers", "engine", "ray_address", "made_by", "checkpoint_every")
"""What server and site may set differently: it decides nothing of what is computed."""

__all__ = ["Blueprint", "Schema", "Sizes"]


@dataclass(frozen=True, eq=False)
class Blueprint:
    """A deployed run without its data."""

    config: RunConfig
    schema: Schema
    initial: Tensor
    communal: Columns | None = None
    global_test: Columns | None = None
    """The samples of the global test set, or the whole graph with its test nodes; only the server has them."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the training sites, by client number."""
        return self.schema.sites

    @staticmethod
    def of(config: RunConfig, sites: Sequence[str]) -> Blueprint:
        """The blueprint of a run: its task is made as for a simulation, and what would be refused there is here."""
        config, names = completed(config), tuple(sites)
        task, algorithm = make_task(config), method_of(config)
        _deployable(config, task, algorithm, names)
        federation = task.federation
        prepared = prepare(task, algorithm, config)
        plain = prepared.plain | {"made_by": {"fedloom": fedloom.__version__}}
        schema = schema_of(task, algorithm, config, names)
        tested = None if schema.kind == "rehearsal" else _samples(federation, federation.global_test)
        if isinstance(federation, GraphFederation) and schema.kind == "graph":
            tested = graphs.whole_graph(federation)
        communal = _samples(federation, federation.communal)
        return Blueprint(parse(plain), schema, task.initial_row(), communal, tested)

    def save(self, folder: Path, server: bool, paths: bool = True) -> None:
        """Write the files of a participant; the global test set is for the server alone.

        Without ``paths`` the config does not say where the simulated data lie, which is nobody's business at a site.
        """
        folder.mkdir(parents=True, exist_ok=True)
        plain = take_along(self._plain(), folder)
        if not paths:
            plain["task"].pop("path", None)
        write_whole(folder / CONFIG, to_toml(plain))
        write_whole(folder / SCHEMA, self.schema.model_dump_json(indent=1).encode())
        write_whole(folder / INITIAL, save({"row": self.initial.contiguous()}))
        for name, columns in ((COMMUNAL, self.communal), (GLOBAL, self.global_test if server else None)):
            if columns is not None:
                write_whole(folder / name, save({key: column.contiguous().clone() for key, column in columns.items()}))

    @staticmethod
    def load(folder: Path) -> Blueprint:
        """The blueprint of a participant's folder."""
        for name in (CONFIG, SCHEMA, INITIAL):
            if not (folder / name).is_file():
                raise FedloomError(f"{folder} has no {name}: it is no participant's folder, or not all of it.")
        try:
            values = json.loads((folder / SCHEMA).read_bytes())
        except ValueError as error:
            raise FedloomError(f"{folder / SCHEMA} is not valid JSON ({error}): make the folder again.") from None
        plain = read_toml(folder / CONFIG)
        for part in ("task", "method", "selection"):
            if part not in plain:
                raise FedloomError(f"{folder / CONFIG} has no [{part}]: it is not the whole file; copy it again.")
        tensors = {name: load_tensors(folder / name) for name in (COMMUNAL, GLOBAL) if (folder / name).is_file()}
        return Blueprint(
            config=parse(in_place(plain, folder), str(folder / CONFIG)),
            schema=validate(Schema, values, str(folder / SCHEMA)),
            initial=load_tensors(folder / INITIAL)["row"],
            communal=tensors.get(COMMUNAL),
            global_test=tensors.get(GLOBAL),
        )

    @property
    def digest(self) -> str:
        """A short text that is the same where config, schema, initial model and communal samples are.

        Where data of the run file lie, how many workers there are and what wrote the files does not count.
        """
        plain = without_places(self._plain())
        shared = {key: value for key, value in plain.items() if key not in NOT_SHARED}
        shared["task"] = {key: value for key, value in plain["task"].items() if key != "path"}
        text = json.dumps([shared, self.schema.model_dump(mode="json")], sort_keys=True)
        found = hashlib.blake2b(text.encode(), digest_size=16)
        for tensor in (self.initial, *(column for _, column in sorted((self.communal or {}).items()))):
            found.update(tensor.contiguous().numpy().tobytes())
        return found.hexdigest()

    def server_task(self, sizes: Mapping[int, Sizes]) -> Task:
        """The hollow task: sites' sizes and names, one sample of zeros, the global test set and the communal samples.

        A client that is not in ``sizes`` counts as having a single training sample.
        """
        schema = self.schema
        if schema.kind == "rehearsal":
            return self._rehearsed()
        if schema.kind == "graph":
            return self._filled(graphs.server_task(self.config, schema, sizes, self.global_test))
        return self._of_columns(hollow(schema, sizes, self.communal, self.global_test))

    def site_task(self, settings: SiteSettings, folder: Path) -> Task:
        """A site's real task, from its own data; paths are relative to its folder.

        Of the other client numbers it holds a sample that is never used. An evaluator's number is behind those of the
        training sites; all of its samples are for testing, and are the global test set of its task.
        """
        config, schema, client = self.config, self.schema, settings.client
        if client > len(self.sites):
            raise FedloomError(f"site {settings.name} has the number {client}, and there are {len(self.sites)} sites.")
        if settings.data.rehearsal:
            return self._rehearsed(settings)
        if schema.kind == "rehearsal":
            raise FedloomError(
                f"site {settings.name}: task {config.task.name} with method {config.method['name']} takes no data of a "
                "site's own: set rehearsal = true in its site.toml."
            )
        if config.clients_on_global:
            raise FedloomError(
                f"site {settings.name}: clients_on_global = true scores sites' models on the server's test samples, "
                "which do not leave it: set it to false in the run file and make the deployment again."
            )
        if config.task.withhold is not None:
            raise FedloomError(
                f"site {settings.name}: task.withhold takes samples away from clients in a simulation: leave it out of "
                "the run file and make the deployment again."
            )
        if schema.kind == "graph":
            return self._filled(graphs.site_task(config, schema, settings, folder))
        return self._of_columns(site_federation(config, schema, settings, folder, self.communal))

    def runtime(self, task: Task) -> ClientRuntime:
        """What a site's process needs to do jobs: the method over its task.

        Whether the run makes sense at all was checked when the blueprint was made, and is again by the server, who
        knows all sizes; a single site cannot tell.
        """
        config, work = self.config, self.config.local or LocalWork()
        trainer = LocalTrainer(task, decide(task, config.execution, work.batch_size).name)
        setting = RunSetting(work, config.seed, config.rounds)
        return ClientRuntime(
            method_of(config), trainer, trainer, setting, tuple(config.personal), config.clients_on_global
        )

    @property
    def label(self) -> str:
        """What the run's method is called, with its stages."""
        return History(self._plain()).label

    def _plain(self) -> dict[str, Any]:
        return as_plain(self.config, method_of(self.config))

    def _rehearsed(self, settings: SiteSettings | None = None) -> Task:
        """The simulated task, with the sites' names; for an evaluator its global test set as one more client."""
        task = make_task(self.config)
        federation = replace(cast(Federation, task.federation), names=self.sites)
        if settings is not None and settings.client == len(self.sites):
            federation = _with_evaluator(federation, settings.name)
        return self._filled(replace(task, federation=federation))

    def _of_columns(self, federation: Federation) -> Task:
        chosen, schema = self.config.task, self.schema
        model: nn.Module = build(
            str(chosen.model), schema.shape, schema.classes, self.config.seed, **chosen.model_options
        )
        augment = CropFlip() if chosen.augment else None
        return self._filled(Task(chosen.name, federation, model, prepare=schema.prepare, augment=augment))

    def _filled(self, task: Task) -> Task:
        """The task with the blueprint's initial model."""
        if task.layout.width != len(self.initial):
            raise FedloomError(
                f"the model of task {task.name} has {task.layout.width:,} numbers and the blueprint's "
                f"{len(self.initial):,}: make the deployment again with this version of fedloom."
            )
        task.layout.fill(task.model, self.initial)
        return task


def _deployable(config: RunConfig, task: Task, algorithm: Algorithm, sites: Sequence[str]) -> None:
    """Refuse what makes sense in a simulation only, and sites that are not the task's clients."""
    federation = task.federation
    if federation.later:
        raise FedloomError("task.drift lets clients' data change hands, and real sites keep theirs: leave it out.")
    if algorithm.trains_on(federation, ()) is not federation:
        raise FedloomError(
            f"{config.method['name']} trains on everybody's data in one place, which a deployment is there to avoid: "
            "choose another method."
        )
    twice = [name for name in sites if list(sites).count(name) > 1]
    if twice:
        raise FedloomError(f"two sites are called {twice[0]}: give each a name of its own.")
    if federation.clients != len(sites):
        raise FedloomError(
            f"{len(sites)} sites are named and the task has {federation.clients} clients: set task.clients to "
            f"{len(sites)}, or name {federation.clients} sites."
        )


def _samples(federation: FederationView, positions: Tensor) -> Columns | None:
    return {name: federation.columns[name][positions] for name in ("x", "y")} if len(positions) else None


def _with_evaluator(federation: Federation, name: str) -> Federation:
    held = federation.global_test
    if not len(held):
        raise FedloomError(f"site {name} has nothing to rehearse with: the simulated task has no global test set.")
    return replace(
        federation,
        train=_behind(federation.train, held[:1]),
        valid=_behind(federation.valid, held[:0]),
        test=_behind(federation.test, held),
        names=(*federation.names, name),
    )


def _behind(part: Ragged, positions: Tensor) -> Ragged:
    return Ragged.of([*(part[client] for client in range(len(part))), positions])
