"""How tasks whose samples are entries of columns are deployed on sites that hold their own data.

The server has a task with every site's sizes and no data; a site has a task with its own data and nobody else's. Both
are built from the schema of the simulated task. (``tasks/graphs/deployment.py`` does the same for graphs, and
``tasks/flows/learning/flow_deployment.py`` for flows.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import PREFIX, Transform, input_names, transform_of
from fedloom.core.seeds import key
from fedloom.core.task import FederationView, Task
from fedloom.data.changes.communal_set import Communal
from fedloom.data.changes.label_share import with_label_share
from fedloom.data.changes.server_set import ServerSet
from fedloom.data.federate import Samples, federate
from fedloom.data.federation import Federation, Ragged
from fedloom.data.partition.iid import Iid
from fedloom.data.public_samples import copies, have_targets
from fedloom.data.remote_federation import join_columns, lists_of_site, remote_federation
from fedloom.data.tables.schema import ClientSizes, DataSchema, InputColumn, SampleColumns, dtype_name
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.under_schema import read_under_schema
from fedloom.data.targets import target_units
from fedloom.models import build
from fedloom.tasks.architectures import build_architectures
from fedloom.tasks.builder import SiteSource, TaskSettings
from fedloom.tasks.input_columns import fit_inputs, with_vocabulary
from fedloom.tasks.transforms import CropFlip, Normalise, tokens


def column_schema(task: Task, sites: tuple[str, ...]) -> DataSchema:
    """The schema of a task whose samples are entries of columns."""
    federation, y = task.federation, task.federation.columns["y"]
    inputs = tuple(_input_column(task, name) for name in input_names(federation.columns))
    units = target_units(federation)
    one = inputs[0].model_dump(exclude={"name"}) if "x" in federation.columns else {"inputs": inputs}
    return DataSchema(
        kind="columns",
        sites=sites,
        classes=federation.classes,
        class_names=tuple(federation.class_names),
        target_shape=tuple(y.shape[1:]),
        target_dtype=dtype_name(y),
        target_mean=None if units is None else units[0],
        target_std=None if units is None else units[1],
        **one,
    )


def _input_column(task: Task, full_name: str) -> InputColumn:
    x, name = task.federation.columns[full_name], full_name.removeprefix(PREFIX)
    prepare = transform_of(task.prepare, name)
    normalise = prepare if isinstance(prepare, Normalise) else Normalise((), ())
    return InputColumn(
        name=name,
        shape=tuple(x.shape[1:]),
        dtype=dtype_name(x),
        mean=normalise.mean,
        std=normalise.std,
        symbols=prepare is tokens,
    )


def input_transform(schema: DataSchema) -> Transform | dict[str, Transform] | None:
    """What turns raw inputs into the model's inputs: of one input column, or of each of several by name."""
    found: dict[str, Transform] = {}
    for column in schema.input_columns:
        if column.mean or column.symbols:
            found[column.name] = Normalise(column.mean, column.std) if column.mean else tokens
    return found if schema.inputs else found.get("x")


def global_test_samples(federation: FederationView) -> SampleColumns | None:
    """Inputs and targets of the global test set; None if there is none."""
    return samples_at(federation, federation.global_test)


def samples_at(federation: FederationView, positions: Tensor) -> SampleColumns | None:
    """Inputs and targets at some positions; None if there are no positions."""
    names = [*input_names(federation.columns), "y"]
    return {name: federation.columns[name][positions] for name in names} if len(positions) else None


@dataclass(frozen=True)
class ColumnDeployment:
    """Deploys a task whose samples are entries of columns: tables, arrays, images, sequences."""

    def schema(self, task: Task, settings: TaskSettings, algorithm: Algorithm, sites: tuple[str, ...]) -> DataSchema:
        """The schema of the columns, and of a table what is done to its columns."""
        schema, plan = column_schema(task, sites), cast(Federation, task.federation).plan
        if plan is None:
            return schema
        used = tuple(plan.columns_needed)
        return schema.model_copy(update={"features": used, "plan": None if plan.is_plain else plan})

    def global_test(self, federation: FederationView) -> SampleColumns | None:
        """The samples of the global test set."""
        return global_test_samples(federation)

    def server_task(
        self,
        settings: TaskSettings,
        schema: DataSchema,
        sizes: Mapping[int, ClientSizes],
        communal: SampleColumns | None,
        global_test: SampleColumns | None,
        server_set: SampleColumns | None = None,
    ) -> Task:
        """The model over a federation whose clients have sizes and a single sample of zeros."""
        federation = remote_federation(schema, sizes, communal, global_test, server_set)
        return self._task(settings, schema, federation)

    def site_task(
        self, settings: TaskSettings, schema: DataSchema, site: SiteSource, communal: SampleColumns | None
    ) -> Task:
        """The model over the site's own samples, and the communal ones."""
        with site.errors():
            columns = TableColumns(
                site.target,
                settings.client_column,
                site.ignore,
                settings.group_column,
                empty_labels=settings.empty_labels,
            )
            samples = read_under_schema(site.path, schema, columns, settings.skip_unreadable)
            if settings.communal is not None and communal is not None:
                samples = _without_copies(samples, communal)
            federation = _split(samples, settings, schema, site)
            if settings.label_share is not None:
                federation = _with_label_share(federation, settings, site.client)
        joined, (seen,) = join_columns(federation.columns, [communal])
        return self._task(settings, schema, replace(federation, columns=joined, communal=seen, title=site.path.name))

    def hide_from_sites(self, task: Task, algorithm: Algorithm) -> None:
        """Nothing: clients know only their own samples."""

    def prediction_error(self, name: str) -> str | None:
        """None: samples are predicted one by one."""
        return None

    def _task(self, settings: TaskSettings, schema: DataSchema, federation: Federation) -> Task:
        options = with_vocabulary(str(settings.model), settings.model_options, schema.plan)
        model = build(str(settings.model), schema.shapes, schema.classes, settings.seed, **options)
        known, own = cast(Communal | None, settings.communal), cast(ServerSet | None, settings.server_set)
        federation = replace(
            federation,
            communal_labelled=known is None or (known.labelled and have_targets(federation, federation.communal)),
            server_labelled=own is None or (own.labelled and have_targets(federation, federation.server)),
            server_classes=0 if own is None else own.classes(schema.classes),
        )
        task = Task(
            settings.name,
            federation,
            model,
            prepare=input_transform(schema),
            augment=CropFlip() if settings.augment else None,
            architectures=build_architectures(
                settings.models, schema.sites, schema.shapes, schema.classes, settings.seed
            ),
        )
        return fit_inputs(task)


def _split(samples: Samples, settings: TaskSettings, schema: DataSchema, site: SiteSource) -> Federation:
    """A site's samples in train, validation and test parts; an evaluator's are all for testing."""
    own = federate(
        samples,
        Iid(),
        1,
        seed=key(settings.seed, "site data", site.client),
        test_share=settings.test_share,
        valid_share=settings.valid_share,
        global_share=0.0,
    )
    train, valid, test = own.train[0], own.valid[0], own.test[0]
    everything = torch.arange(len(samples.columns["y"]))
    if site.evaluates(schema):
        train, valid, test = everything[:1], everything[:0], everything
    names = site.names(schema)
    return replace(
        own,
        train=lists_of_site(train, site.client, len(names)),
        valid=lists_of_site(valid, site.client, len(names)),
        test=lists_of_site(test, site.client, len(names)),
        global_test=everything if site.evaluates(schema) else everything[:0],
        names=names,
        class_names=schema.class_names,
    )


def _without_copies(samples: Samples, communal: SampleColumns) -> Samples:
    """A site's samples without those that everyone may see."""
    stays = ~copies(samples.columns, communal)
    if not bool(stays.any()):
        raise FedloomError("every sample is a communal one: give the site data of its own.")
    group = None if samples.group is None else samples.group[stays.numpy()]
    return replace(samples, columns={name: column[stays] for name, column in samples.columns.items()}, group=group)


def _with_label_share(federation: Federation, settings: TaskSettings, client: int) -> Federation:
    """A site's federation in which a share of its training samples have labels."""
    own = replace(federation, train=Ragged.of([federation.train[client]]), names=())
    made = with_label_share(own, settings.label_share or 1.0, key(settings.seed, "site labels", client))
    return replace(federation, columns=made.columns, notes=made.notes)
