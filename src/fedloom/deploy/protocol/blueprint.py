"""The part of a deployed run that server and sites share: its config, the schema of its data, the initial model.

From these the server builds a task with every site's sizes and no data, and a site the task with its own data. Nobody
needs the data of another. The initial model is part of the blueprint, its frozen parameters included, so that a site
whose torch draws other random numbers starts from the same model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from safetensors.torch import save
from torch import Tensor

import fedloom
from fedloom.config.resolve import method_from_config, resolve, task_from_config, task_settings
from fedloom.config.schema import RunConfig, as_plain, to_toml
from fedloom.config.trusted_code import NO_CODE, TrustedCode
from fedloom.core.cohort import RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.data.tables.schema import ClientSizes, DataSchema, SampleColumns
from fedloom.deploy.participant_folder import SITE_FILE
from fedloom.deploy.protocol.deployability import check_deployable, own_data_error
from fedloom.deploy.protocol.initial_model import InitialModel, initial_models
from fedloom.deploy.protocol.user_files import (
    copy_user_files,
    inner_name,
    user_files,
    with_absolute_files,
    with_relative_files,
)
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.settings import SiteSettings
from fedloom.files.atomic_write import write_atomic
from fedloom.files.formats import SETTINGS
from fedloom.files.json_text import parse_json
from fedloom.files.limits import most_json, read_limited
from fedloom.losses.make_objective import fit_to_labels, make_objective
from fedloom.metrics.make_metrics import with_metrics
from fedloom.registry.validation import read_toml, validate
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.runs.folder.checkpoint import load_tensors
from fedloom.runs.folder.fingerprint import hash_tensor
from fedloom.runs.folder.old_folders import with_new_keys
from fedloom.runs.folder.plan_constants import INITIAL
from fedloom.runs.poisoned_task import poisoned_task
from fedloom.runs.prepare import (
    Prepared,
    channel_steps,
    executions_of,
    hostile_clients,
    planned_run,
    prepare,
    with_planned_noise,
)
from fedloom.runs.results.history import History
from fedloom.runs.start_model import with_start
from fedloom.tasks.architectures import numbered_models
from fedloom.tasks.builder import SiteSource, TaskDeployment, task_builder
from fedloom.tasks.deployment import samples_at
from fedloom.tasks.trained_parts import with_trained_parts
from fedloom.training.local_trainer import LocalTrainer

CONFIG, SCHEMA = "config.toml", "schema.json"
COMMUNAL, GLOBAL, SERVER = "communal.safetensors", "global.safetensors", "server.safetensors"
ARCHITECTURE = "architecture/"
"""Before the number of an architecture and the names of its initial model's tensors in ``initial.safetensors``."""
NOT_SHARED = ("workers", "engine", "ray_address", "made_by", "checkpoint_every")
"""Settings in which server and site may differ: they do not change what is computed."""


@dataclass(frozen=True, eq=False)
class Blueprint:
    """A deployed run without its data."""

    config: RunConfig
    schema: DataSchema
    initial: Tensor
    communal: SampleColumns | None = None
    global_test: SampleColumns | None = None
    """The samples of the global test set, or the whole graph with its test nodes; for the server only."""
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    """What the initial model has besides its row: frozen parameters, masks and tables, by name."""
    architectures: tuple[InitialModel, ...] = ()
    """The initial models of the sites, where they differ."""
    server_set: SampleColumns | None = None
    """The server's own samples; for the server only."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the training sites, by client number."""
        return self.schema.sites

    @staticmethod
    def of(config: RunConfig, sites: Sequence[str]) -> Blueprint:
        """The blueprint of a run; its task is built and checked as for a simulation.

        Args:
            sites: The names of the training sites, by client number.
        """
        return Blueprint.with_run(config, sites)[0]

    @staticmethod
    def with_run(config: RunConfig, sites: Sequence[str]) -> tuple[Blueprint, Prepared]:
        """The blueprint of a run, and the run with the run file's data.

        Args:
            sites: The names of the training sites, by client number.
        """
        names = tuple(sites)
        task, algorithm = task_from_config(config), method_from_config(config)
        if config.start_from is not None:  # the blueprint holds the initial model
            task = with_start(task, config.start_from, config.start_without)
            config = config.model_copy(update={"start_from": None, "start_without": []})
        check_deployable(config, task, algorithm, names)
        if task.architectures is not None:  # sites that are added must not change who has which model
            models = numbered_models(config.task.models, task.architectures)
            config = config.model_copy(update={"task": replace(config.task, models=models)})
            task = task_from_config(config)
        if (goal := fit_to_labels(config.task.loss, task.federation)) is not config.task.loss:
            config = config.model_copy(update={"task": replace(config.task, loss=goal)})
            task = replace(task, made_from={**task.made_from, "loss": goal})
        # Before it is checked as a simulation, whose draws are secret: at sites they are not, and noise is another one.
        plan = planned_run(config, algorithm, task, len(names), selects=len(names) > 1, deployed=True)
        config = with_planned_noise(config, plan)
        federation, deployment = task.federation, task_builder(config.task.name).deployment
        prepared = prepare(task, algorithm, config)
        versions = {"fedloom": fedloom.__version__, "format": str(SETTINGS.version), "protocol": str(PROTOCOL)}
        plain = prepared.plain | {"made_by": versions}
        schema = deployment.schema(task, task_settings(config), algorithm, names)
        global_test = None if schema.rehearsal_only else deployment.global_test(federation)
        communal = samples_at(federation, federation.communal)
        first = InitialModel.of(task)
        others = () if task.architectures is None else tuple(map(InitialModel.of, task.by_architecture))
        server = None if schema.rehearsal_only else samples_at(federation, federation.server)
        made = Blueprint(resolve(plain), schema, first.row, communal, global_test, first.constants, others, server)
        return made, prepared

    def save(self, folder: Path, server: bool, paths: bool = True) -> None:
        """Write the files of a participant.

        Args:
            folder: The participant's folder.
            server: Whether it is the server's, which also gets the global test set.
            paths: Whether the config keeps the path of the simulated data, which is private to the operator.
        """
        folder.mkdir(parents=True, exist_ok=True)
        plain = copy_user_files(self._plain(), folder)
        if not paths:
            plain["task"] = _without_places(plain["task"])
        write_atomic(folder / CONFIG, to_toml(plain))
        write_atomic(folder / SCHEMA, self.schema.model_dump_json(indent=1).encode())
        tensors = InitialModel(self.initial, self.constants).tensors()
        for number, model in enumerate(self.architectures):
            tensors |= {f"{ARCHITECTURE}{number}/{name}": tensor for name, tensor in model.tensors().items()}
        write_atomic(folder / INITIAL, save(tensors))
        of_server = ((GLOBAL, self.global_test), (SERVER, self.server_set)) if server else ()
        for name, columns in ((COMMUNAL, self.communal), *of_server):
            if columns is None:
                (folder / name).unlink(missing_ok=True)  # of a run that was there before
            else:
                write_atomic(folder / name, save({key: column.contiguous().clone() for key, column in columns.items()}))

    @staticmethod
    def load(folder: Path, trusted: TrustedCode = NO_CODE) -> Blueprint:
        """The blueprint of a participant's folder.

        Args:
            trusted: Files of the user's own that take the places of those in the folder.
        """
        for name in (CONFIG, SCHEMA, INITIAL):
            if not (folder / name).is_file():
                raise FedloomError(f"{folder} has no {name}: it is not a participant's folder, or it is incomplete.")
        try:
            values = parse_json(read_limited(folder / SCHEMA, most_json()))
        except ValueError as error:
            raise FedloomError(f"{folder / SCHEMA} is not valid JSON ({error}): make the deployment again.") from None
        plain = with_new_keys(read_toml(folder / CONFIG), folder / CONFIG)
        for part in ("task", "method", "selection"):
            if part not in plain:
                raise FedloomError(f"{folder / CONFIG} has no [{part}]: the file is incomplete; copy it again.")
        tensors = {
            name: load_tensors(folder / name) for name in (COMMUNAL, GLOBAL, SERVER) if (folder / name).is_file()
        }
        initial = load_tensors(folder / INITIAL)
        model = InitialModel.read(initial)
        return Blueprint(
            config=resolve(trusted.put_into(with_absolute_files(plain, folder)), str(folder / CONFIG)),
            schema=validate(DataSchema, values, str(folder / SCHEMA)),
            initial=model.row,
            communal=tensors.get(COMMUNAL),
            global_test=tensors.get(GLOBAL),
            constants=model.constants,
            architectures=initial_models(initial, ARCHITECTURE),
            server_set=tensors.get(SERVER),
        )

    @property
    def digest(self) -> str:
        """A hash of config, schema, initial model and communal samples.

        It leaves out where the run file's data are, the number of workers and the version that wrote the files.
        """
        plain = with_relative_files(self._plain())
        shared = {key: value for key, value in plain.items() if key not in NOT_SHARED}
        shared["task"] = _without_places(plain["task"])
        text = json.dumps([shared, self.schema.model_dump(mode="json")], sort_keys=True)
        hashed = hashlib.blake2b(text.encode(), digest_size=16)
        for file in user_files(self._plain()):  # server and site must run the same code
            hashed.update(inner_name(file).encode() + b"\0" + file.read_bytes())
        others = [tensor for named in (self.communal or {}, self.constants) for _, tensor in sorted(named.items())]
        for model in self.architectures:
            others += [tensor for _, tensor in sorted(model.tensors().items())]
        for tensor in (self.initial, *others):
            hash_tensor(hashed, tensor)
        return hashed.hexdigest()

    @property
    def plan_digest(self) -> str:
        """A hash of the same without the list of sites: that of a site that was there before others were added."""
        return self.with_sites(()).digest

    def with_sites(self, sites: Sequence[str]) -> Blueprint:
        """The same run with other sites: more, or other names.

        Args:
            sites: The names of the training sites, by client number.
        """
        task, schema = self.config.task, self.schema.model_copy(update={"sites": tuple(sites)})
        if task.clients is not None:
            task = replace(task, clients=len(sites))
        return replace(self, config=self.config.model_copy(update={"task": task}), schema=schema)

    def server_task(self, sizes: Mapping[int, ClientSizes]) -> Task:
        """The server's task: the sites' names and sizes, the global test set and the communal samples.

        Args:
            sizes: The announced sizes by client; a client that is missing counts as having one training sample.
        """
        if self.schema.rehearsal_only:
            return self._rehearsal_task()
        settings = task_settings(self.config)
        task = self._deployment.server_task(
            settings, self.schema, sizes, self.communal, self.global_test, self.server_set
        )
        return self._with_initial_model(with_trained_parts(task, settings))

    def site_task(self, settings: SiteSettings, folder: Path) -> Task:
        """A site's task, from its own data or its share of the run file's.

        For the other client numbers it holds a sample that is never used. The number of an evaluator comes after those
        of the training sites; all of its samples are for testing, and are the global test set of its task.

        Args:
            folder: The site's folder; the path of its data is relative to it.
        """
        config, schema, client = self.config, self.schema, settings.client
        if client > len(self.sites):
            raise FedloomError(f"site {settings.name} has the number {client}, but there are {len(self.sites)} sites.")
        if settings.data.rehearsal:
            return self._rehearsal_task(settings)
        problem = own_data_error(config, schema)
        if problem is not None:
            raise FedloomError(f"site {settings.name}: {problem} (then make the deployment again).")
        data = settings.data
        site = SiteSource(settings.name, client, _data_path(settings, folder), data.target, data.ignore, data.salt)
        known = task_settings(config)
        task = self._deployment.site_task(known, schema, site, self.communal)
        return self._with_initial_model(with_trained_parts(task, known))

    def runtime(self, task: Task) -> ClientRuntime:
        """What a site's process needs to do jobs: the method over its task.

        The run as a whole was checked when the blueprint was made, and the server checks it again, since it knows all
        sizes; a single site cannot.
        """
        config, work, algorithm = self.config, self.config.local or LocalWork(), method_from_config(self.config)
        task = algorithm.adapt_task(task)
        hostile = hostile_clients(config, len(self.sites))
        if hostile is not None:
            task = poisoned_task(task, hostile, config.seed)
        execution, executions = executions_of(task, config)
        trainer = LocalTrainer(task, execution.name)
        each = [LocalTrainer(task.of_architecture(number), one.name) for number, one in enumerate(executions)]
        setting = RunSetting(work, config.seed, config.rounds, config.sample_privacy)
        sub_models, steps = channel_steps(config, task)
        return ClientRuntime(
            algorithm,
            trainer,
            trainer,
            setting,
            tuple(config.prediction),
            config.clients_on_global,
            steps,
            config.weight_by,
            hostile,
            config.downlink,
            sub_models,
            tuple((one, one) for one in each),
        )

    @property
    def label(self) -> str:
        """The name of the run's method and its prediction stages."""
        return History(self._plain()).label

    @property
    def method_name(self) -> str:
        """The name of the run's method; a user-defined one is named by its file in a participant's folder."""
        return str(with_relative_files({"method": dict(self.config.method)})["method"]["name"])

    @property
    def _deployment(self) -> TaskDeployment:
        return task_builder(self.config.task.name).deployment

    def _plain(self) -> dict[str, Any]:
        return as_plain(self.config, method_from_config(self.config))

    def _rehearsal_task(self, settings: SiteSettings | None = None) -> Task:
        """The simulated task with the sites' names; for an evaluator, with its global test set as one more client."""
        task = task_from_config(self.config)
        self._deployment.hide_from_sites(task, method_from_config(self.config))
        federation = replace(cast(Federation, task.federation), names=self.sites)
        if settings is not None and settings.client == len(self.sites):
            federation = _with_evaluator(federation, settings.name)
        return self._with_initial_model(replace(task, federation=federation))

    def _with_initial_model(self, task: Task) -> Task:
        """The task with the blueprint's initial model and the metrics of its config."""
        InitialModel(self.initial, self.constants).fill(task)
        for number, model in enumerate(self.architectures):
            model.fill(task.of_architecture(number))
        goal = make_objective(self.config.task.loss, task.federation, self.schema.units)
        return with_metrics(replace(task, objective=goal), tuple(self.config.task.metrics))


def _without_places(task: Mapping[str, Any]) -> dict[str, Any]:
    """The section of a task without where the operator's data are; of public files the name is left."""
    named = {key: dict(task[key]) for key in ("communal", "server_set") if "path" in task.get(key, ())}
    for table in named.values():
        table["path"] = Path(table["path"]).name
    return {key: value for key, value in {**task, **named}.items() if key != "path"}


def _data_path(settings: SiteSettings, folder: Path) -> Path:
    """The path of a site's own data."""
    if not settings.data.path:
        raise FedloomError(
            f"site {settings.name}: its {SITE_FILE} names no data: set path in [data] to your file or folder, or "
            "rehearsal = true to try the deployment out."
        )
    path = folder / Path(settings.data.path).expanduser()
    if not path.exists():
        raise FedloomError(
            f"site {settings.name}: {path} does not exist: set path in [data] of {SITE_FILE} to your file or folder."
        )
    return path


def _with_evaluator(federation: Federation, name: str) -> Federation:
    samples = federation.global_test
    if not len(samples):
        raise FedloomError(f"site {name} has no samples for a rehearsal: the simulated task has no global test set.")
    return replace(
        federation,
        train=_append(federation.train, samples[:1]),
        valid=_append(federation.valid, samples[:0]),
        test=_append(federation.test, samples),
        names=(*federation.names, name),
    )


def _append(part: Ragged, positions: Tensor) -> Ragged:
    return Ragged.of([*(part[client] for client in range(len(part))), positions])
