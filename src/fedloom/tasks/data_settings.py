"""What the settings of a task make of its data, in this order: samples for everyone and for the server leave the
clients, a class is withheld, labels are left out, and then the data change: in concept drift, or task by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.changes.class_stream import ClassStream, require_stream_table, with_class_stream
from fedloom.data.changes.communal_set import Communal, communal_table, with_communal, with_communal_set
from fedloom.data.changes.concept_drift import Drift, with_concept_drift
from fedloom.data.changes.label_share import with_label_share
from fedloom.data.changes.server_set import ServerSet, server_table, with_server_set
from fedloom.data.changes.withheld_class import Withhold, with_withheld_class
from fedloom.data.federation import Federation
from fedloom.data.public_arrays import PublicArrays, as_public_arrays
from fedloom.data.tables.table_columns import TableColumns
from fedloom.registry.validation import validate
from fedloom.tasks.builder import TaskSettings


def with_data_settings(federation: Federation, settings: TaskSettings) -> Federation:
    """The federation as complete settings ask for it.

    Args:
        federation: The clients' data.
        settings: The settings of the task, with every default written out.
    """
    if settings.communal_per_class and settings.communal is not None:
        raise FedloomError("communal and communal_per_class both set samples aside for everyone: give one.")
    if settings.stream is not None and settings.drift is not None:
        raise FedloomError("stream and drift both change clients' data in some rounds: give one.")
    seed, labels = settings.seed, federation.columns["y"]
    table = TableColumns(settings.target, settings.client_column, settings.ignore)
    federation = with_communal(federation, settings.communal_per_class, seed)
    if settings.communal is not None:
        federation = with_communal_set(federation, cast(Communal | PublicArrays, settings.communal), seed, table)
    if settings.server_set is not None:
        federation = with_server_set(federation, cast(ServerSet | PublicArrays, settings.server_set), seed, table)
    federation = with_changes(federation, settings.withhold, None, seed)
    if settings.label_share is not None:
        federation = with_label_share(federation, settings.label_share, seed)
    if settings.stream is not None:
        known = _known_labels(federation, labels)
        return with_class_stream(federation, cast(ClassStream, settings.stream), seed, known)
    return with_changes(federation, None, settings.drift, seed)


def read_sets(communal: object, server_set: object, stream: object) -> dict[str, Any]:
    """The values of three settings as ``fl.task_of`` takes them: what a config may hold, and arrays.

    Args:
        communal: A share, a table of settings, inputs, or a pair of inputs and targets.
        server_set: The same.
        stream: A table of settings.
    """
    kinds = {"communal": (Communal, communal, communal_table), "server_set": (ServerSet, server_set, server_table)}
    found: dict[str, Any] = {}
    for key, (kind, value, as_table) in kinds.items():
        arrays = as_public_arrays(value, key)
        table = None if arrays is not None else as_table(value)
        found[key] = arrays if table is None else validate(kind, table, key)
    table = require_stream_table(stream)
    return found | {"stream": None if table is None else validate(ClassStream, table, "stream")}


def _known_labels(federation: Federation, labels: Tensor) -> Tensor:
    """The class of each sample as it was read; of samples that came later, as far as they have one."""
    now = federation.columns["y"].clone()
    first = now[: len(labels)]
    first[first == IGNORED] = labels[first == IGNORED]
    return now


def with_changes(
    federation: Federation,
    withhold: Withhold | Mapping[str, Any] | None,
    drift: Drift | Mapping[str, Any] | None,
    seed: int,
) -> Federation:
    """The federation with a class withheld and with concept drift, where settings are given for them."""
    if withhold is not None:
        federation = with_withheld_class(federation, seed=seed, **asdict(validate(Withhold, withhold, "withhold")))
    if drift is not None:
        federation = with_concept_drift(federation, seed=seed, **asdict(validate(Drift, drift, "drift")))
    return federation
