"""A table as a federation: its targets, its clients, and features that are fitted on training samples only.

Which rows are training samples does not depend on the inputs. So rows are divided first, then the plan of the columns
is fitted on the training rows, and then all rows are encoded with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.data.federate import Samples
from fedloom.data.federation import Federation
from fedloom.data.from_arrays import divide_samples, number_clients
from fedloom.data.leak_groups import join_groups, number_groups
from fedloom.data.tables.client_columns import suggest_client_column
from fedloom.data.tables.fit_columns import fit_columns, fit_words
from fedloom.data.tables.table_columns import EmptyLabels
from fedloom.data.tables.table_targets import rows_with_targets, table_targets, tagged_column, target_columns
from fedloom.data.tables.tables import Table
from fedloom.data.tables.text_column import Text, fit_text
from fedloom.data.targets import Targets

USUAL_CLIENT = "client"
"""The client column that may be missing."""


def federation_of_table(
    table: Table,
    *,
    target: str | Sequence[str] = "label",
    client: str = USUAL_CLIENT,
    group: str | None = None,
    kind: str | None = None,
    classes: int | None = None,
    own_test: np.ndarray | None = None,
    text: Text | None = None,
    dates: Mapping[str, str] | None = None,
    empty_labels: EmptyLabels = "missing",
    **options: Any,
) -> Federation:
    """The federation of a table's rows.

    Args:
        target: The column of the target, or several columns of 0 and 1.
        client: The column that names the client of a row; the usual one may be missing.
        group: The column that says which rows belong together.
        kind: The kind of target; None to choose it from the values.
        classes: The number of classes, where the labels do not show it.
        own_test: Whether each row belongs to the test part of its client.
        text: The column of sentences that is the only input, where there is one.
        dates: How the dates of columns are written, where it is not found by itself: ``{"admitted": "%d/%m/%Y"}``.
        empty_labels: What an empty cell of the target says.
        **options: Options of ``from_arrays``: partition, clients, seed, the shares and the title.
    """
    names = target_columns(table, target)
    table.require([*([] if client == USUAL_CLIENT else [client]), *([] if group is None else [group])])
    for role, column in (("client", client), ("group", group)):
        if column in names:
            raise FedloomError(
                f"{table.where}: the column '{column}' is the target and also names the {role}, so that each {role} "
                f"would have one target: name another {role} column."
            )
    if text is not None:
        table.require([text.column])
        if text.column in {*names, client, group}:
            raise FedloomError(
                f"{table.where}: the text '{text.column}' is also the target, client or group: name one."
            )
    there, left_out = rows_with_targets(table, names, empty_labels)
    table, own_test = table.rows(there), None if own_test is None else own_test[there]
    inputs = [name for name in table.columns if name not in {*names, client, group}]
    if not inputs:
        raise FedloomError(f"{table.where} has no feature column besides '{names[0]}': add the inputs.")
    if len(table) < 2:
        raise FedloomError(f"{table.where} has 1 sample: give at least two, one to train on and one to test on.")
    targets = table_targets(table, names, kind, classes, empty_labels)
    if left_out and targets.kind == "labels":
        left_out += "; --empty-labels none keeps them as samples with none of the labels"
    suggestion = suggest_client_column(table, [*names, group])
    federation = divide_rows(table, targets, client, group, own_test, suggestion=suggestion, **options)
    train = federation.train.order.numpy()
    if targets.kind == "tokens":
        plan = fit_words(table, tagged_column(table, inputs, names[0]), train)
    elif text is not None:
        plan = fit_text(table, inputs, text, train)
    else:
        plan = fit_columns(table, inputs, train, dates)
    fitted = f"medians and levels are those of the {len(train):,} training samples, which also standardise numbers"
    if text is not None:
        fitted = f"its words are those of {text.vocabulary or f'the {len(train):,} training samples'}"
    notes = [targets.note, *([left_out] if left_out else []), *plan.lines, *([fitted] if plan.is_fitted else [])]
    notes += federation.notes
    columns = {**federation.columns, "x": torch.from_numpy(np.ascontiguousarray(plan.encode(table)))}
    return replace(federation, columns=columns, plan=plan, notes=tuple(notes))


def divide_rows(
    table: Table,
    targets: Targets,
    client: str,
    group: str | None,
    own_test: np.ndarray | None,
    copies: np.ndarray | None = None,
    **options: Any,
) -> Federation:
    """The federation of a table's rows, whose inputs are zeros as yet: the division does not depend on them.

    Args:
        targets: The targets of the rows.
        client: The column that names the client of a row, if it is there.
        group: The column that says which rows belong together.
        own_test: Whether each row belongs to the test part of its client.
        copies: A number per row that copies of the same sample share.
        **options: Options of ``from_arrays``.
    """
    holders: tuple[list[str], np.ndarray | None] = ([], None)
    if client in table.columns:
        holders = number_clients(table.texts(client, "client"))
    together = None if group is None else number_groups(table.texts(group, "group"), len(table), table.where)
    if copies is not None:
        together = copies if together is None else join_groups(together, copies)
    samples = Samples(
        {"x": torch.zeros(len(table), 1), "y": torch.from_numpy(targets.y)},
        targets.classes,
        targets.names,
        natural=holders[1],
        names=holders[0],
        own_test=own_test,
        group=together,
    )
    return divide_samples(samples, **options)
