"""A table with a row per time step as a federation: a sample is a series of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.federation import Federation
from fedloom.data.from_arrays import with_sequences
from fedloom.data.sequences.sequence_plan import X, table_of_series
from fedloom.data.sequences.sequence_settings import Sequences
from fedloom.data.tables.client_columns import suggest_client_column
from fedloom.data.tables.read_table import USUAL_CLIENT, divide_rows
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.table_targets import rows_with_targets, table_targets, target_columns
from fedloom.data.tables.tables import Table

TEST = "(test part)"
"""A column that is added: 1 for rows of the test part."""


def federation_of_series(
    table: Table,
    settings: Sequences,
    columns: TableColumns,
    kind: str | None = None,
    classes: int | None = None,
    own_test: np.ndarray | None = None,
    **options: Any,
) -> Federation:
    """The federation of the series of a table.

    Args:
        table: A table with a row per time step.
        settings: Which columns say what a row is a step of, and when.
        columns: The columns that are not inputs: target, client and group, each the same in all rows of a series.
        kind: The kind of target; None to choose it from the values.
        classes: The number of classes, where the targets do not show it.
        own_test: Whether each row belongs to the test part of its client.
        **options: Options of ``from_arrays``: partition, clients, seed, the shares and the title.
    """
    names = target_columns(table, columns.target)
    table.require([*([] if columns.client == USUAL_CLIENT else [columns.client]), settings.series])
    if kind == "tokens":
        raise FedloomError(f"{table.where}: a series has one target, but kind tokens needs one per step: leave it out.")
    if own_test is not None:
        table = Table({**table.columns, TEST: own_test.astype(float)}, table.where, table.names, table.decimal_commas)
    others = {*names, *columns.names, settings.series, settings.order, TEST}
    channels = [name for name in table.columns if name not in others]
    if not channels:
        raise FedloomError(f"{table.where} has no channel besides '{settings.series}' and '{names[0]}': add columns.")
    marked = TableColumns(columns.target, columns.client, (), columns.group, (TEST,))
    whole = table_of_series(table, settings, channels, marked)
    there, left_out = rows_with_targets(whole, names, columns.empty_labels)
    whole = whole.rows(there)
    targets = table_targets(whole, names, kind, classes, columns.empty_labels)
    test = None if own_test is None else whole.columns[TEST] == 1
    suggestion = suggest_client_column(whole.without((X, TEST)), [*names, columns.group])
    federation = divide_rows(whole, targets, columns.client, columns.group, test, suggestion=suggestion, **options)
    notes = (targets.note, *([f"of series, {left_out}"] if left_out else []), *federation.notes)
    return with_sequences(replace(federation, notes=notes), list(whole.columns[X]), table.where, settings, channels)
