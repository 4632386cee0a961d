"""``fl.from_arrays``: a user's arrays as a federation.

The arrays are checked; an error names the column and the row. If each sample names its client, these are the natural
clients; otherwise a partitioner divides the samples among made-up clients, if the user asks for that. Rows are counted
from 1.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import PREFIX
from fedloom.data.federate import Samples, federate
from fedloom.data.federation import Federation
from fedloom.data.leak_groups import number_groups
from fedloom.data.missing_keys import check_keys
from fedloom.data.partition.base import Partitioner
from fedloom.data.partition.iid import Iid
from fedloom.data.partition.natural import Natural
from fedloom.data.partition.partitioner import partition_config, partitioner
from fedloom.data.partition.quantity_skew import Quantities
from fedloom.data.sequences.sequence_plan import X, fit_sequences
from fedloom.data.sequences.sequence_settings import Sequences
from fedloom.data.stack_samples import are_sequences, column_of, dense_array, stack_samples, unequal_shapes
from fedloom.data.tables.labels import are_label_lists, label_cells
from fedloom.data.tables.table_columns import EmptyLabels
from fedloom.data.tables.tables import Table
from fedloom.data.targets import read_targets

RESERVED = ("x", "y", "client")
"""Names that no input column of several may have."""


def from_arrays(
    x: Any,
    y: Any,
    client: Any = None,
    *,
    group: Any = None,
    kind: str | None = None,
    classes: int | None = None,
    features: Sequence[str] = (),
    own_test: Any = None,
    partition: Partitioner | str | Mapping[str, Any] | None = None,
    clients: int | None = None,
    empty_labels: EmptyLabels = "missing",
    seed: int = 0,
    test_share: float = 0.2,
    valid_share: float = 0.0,
    global_share: float = 0.15,
    communal_share: float = 0.0,
    title: str = "own data",
) -> Federation:
    """A federation of arrays.

    Args:
        x: Inputs, one sample per entry of the first axis; for several input columns, a mapping of arrays by name. A
            list of arrays (steps, channels) of unequal length is padded, and a last channel says which steps are real.
        y: The targets: whole numbers or names are classes, other numbers are numbers; a row of 0 and 1 per sample is
            labels, and so are lists of names; a row of class numbers is a class per token (-100 marks padding).
        client: The client of each sample, as numbers or names. Without it, ``clients`` or ``partition`` says how to
            make clients up.
        group: What each sample belongs to, as numbers or names: a patient with several rows, the video of a frame. The
            samples of a group stay together: they are never in two of the train, validation and test parts.
        kind: What ``y`` is, where its values do not show it: classes, number, labels or tokens.
        classes: The number of classes, where the labels do not show it.
        features: The names of the columns of ``x``, for error messages.
        own_test: Whether each sample belongs to the test part of its client.
        partition: How samples are divided; by ``client`` if that is given. With ``clients`` alone, iid.
        clients: How many clients share the samples; with ``partition`` alone, 10.
        empty_labels: What an empty list of labels says: ``missing``, which is refused, or ``none``.
        seed: The seed of the division.
        test_share: The share of each client's samples for testing.
        valid_share: The share of each client's samples for validation.
        global_share: The share of all samples for the global test set.
        communal_share: The share of all samples that everyone may see.
        title: What reports and errors call the data.
    """
    sequences = sequences_of(x)
    inputs = x if sequences is None else np.zeros((len(sequences), 1), dtype=np.float32)
    samples = samples_from_arrays(
        inputs,
        y,
        client,
        group=group,
        kind=kind,
        classes=classes,
        empty_labels=empty_labels,
        features=features,
        own_test=own_test,
        where=title,
    )
    made = divide_samples(
        samples,
        partition=partition,
        clients=clients,
        seed=seed,
        test_share=test_share,
        valid_share=valid_share,
        global_share=global_share,
        communal_share=communal_share,
        title=title,
    )
    return made if sequences is None else with_sequences(made, sequences, title)


def sequences_of(x: Any) -> list[np.ndarray] | None:
    """The sequences of unequal length that inputs are, (steps, channels) each; None if they are anything else."""
    listed = isinstance(x, list | tuple) or (isinstance(x, np.ndarray) and x.dtype == object and x.ndim == 1)
    if not listed or not len(x) or not all(getattr(sample, "ndim", 0) == 2 for sample in x):
        return None
    found = [np.asarray(dense_array(sample, "x")) for sample in x]
    return found if are_sequences(found) else None


def with_sequences(
    federation: Federation, samples: Sequence[np.ndarray], where: str, settings: Sequences | None = None,
    channels: Sequence[str] = (),
) -> Federation:  # fmt: skip
    """A federation whose samples are divided, with sequences as its inputs.

    Args:
        federation: The division; its inputs are replaced.
        samples: Arrays (steps, channels), in the order of the division's samples.
        where: What an error calls the data.
        settings: What the user says of a table with a row per step.
        channels: The columns of such a table.
    """
    plan = fit_sequences(samples, federation.train.order.numpy(), where, settings, channels)
    x = plan.encode(Table({X: column_of(samples)}, where))
    notes = (*federation.notes[:1], *plan.lines, *federation.notes[1:])
    return replace(federation, columns={**federation.columns, "x": torch.from_numpy(x)}, plan=plan, notes=notes)


def divide_samples(
    samples: Samples,
    *,
    partition: Partitioner | str | Mapping[str, Any] | None = None,
    clients: int | None = None,
    title: str = "own data",
    suggestion: str = "client= with one entry per sample",
    **shares: Any,
) -> Federation:
    """The federation of some samples: their own clients, where they name them, or made-up ones.

    Clients are made up only where the user asks for it, since a result on made-up clients says nothing about real ones.

    Args:
        partition: How samples are divided, if not by their own clients; iid if only ``clients`` is given.
        clients: How many clients share the samples; with ``partition`` alone, 10.
        title: What reports and errors call the data.
        suggestion: How the user may name the clients.
        **shares: The seed and the shares of ``from_arrays``.
    """
    if clients is not None and np.ndim(clients) > 0:
        raise FedloomError("clients= is how many clients share the samples; the client of each sample is client=...")
    if samples.natural is None and clients is None and partition is None:
        raise FedloomError(
            f"{title} does not say whose samples these are: give {suggestion}, or let clients be made up with "
            "--clients 10 (clients=10) or --partition 'dirichlet(0.1)' (partition=...)."
        )
    usual: Partitioner = Natural() if samples.natural is not None else Iid()
    chosen = usual if partition is None else partitioner(partition)
    if not isinstance(chosen, Natural):
        if samples.own_test is not None:  # the marks are for the original clients
            samples = replace(samples, global_test=np.flatnonzero(samples.own_test), own_test=None)
        if clients is None and not isinstance(chosen, Quantities):
            clients = min(10, len(samples.columns["y"]))
    federation = federate(samples, chosen, clients, title=title, **shares)
    if isinstance(chosen, Natural):
        return federation
    settings, defaults = partition_config(chosen), getattr(chosen, "__dataclass_fields__", {})
    given = {key: value for key, value in settings.items() if key in defaults and value != defaults[key].default}
    options = ", ".join(f"{key}={value}" for key, value in given.items())
    how = f"{settings['name']}({options})" if options else str(settings["name"])
    instead = "" if samples.natural is None else ", in place of the data's own"
    note = f"{federation.clients} clients are made up{instead}: the samples are divided by {how}"
    return replace(federation, notes=(*federation.notes, note))


def samples_from_arrays(
    x: Any,
    y: Any,
    client: Any = None,
    *,
    group: Any = None,
    kind: str | None = None,
    classes: int | None = None,
    empty_labels: EmptyLabels = "missing",
    features: Sequence[str] = (),
    own_test: Any = None,
    where: str = "own data",
) -> Samples:
    """Check a user's arrays and turn them into samples: float32 or integer inputs, targets, numbered clients."""
    if isinstance(x, Mapping):
        columns = {PREFIX + name: _input_array(x[name], name, f"{where}, column {name}") for name in _column_names(x)}
    else:
        columns = {"x": _input_array(x, "x", where)}
    samples = _common_length(columns, where)
    values = _target_array(y, where)
    kind = "labels" if kind is None and are_label_lists(y) else kind
    if samples == 0:
        raise FedloomError(f"{where} has no samples: give at least two.")
    if values.ndim not in (1, 2) or len(values) != samples:
        raise FedloomError(f"{where}: {samples} inputs and labels of shape {values.shape}: give one label each.")
    if samples < 2:
        raise FedloomError(f"{where} has 1 sample: give at least two, one to train on and one to test on.")
    for name, inputs in columns.items():
        if name == "x":
            check_finite(inputs, features, where)
        else:
            check_finite(inputs, (), f"{where}, {name.removeprefix(PREFIX)}")
    targets = read_targets(values, kind, classes, where, empty_labels=empty_labels)
    natural, clients = None, list[str]()
    if client is not None:
        holder = np.asarray(client)
        if holder.shape != values.shape[:1]:
            raise FedloomError(f"{where}: {samples} inputs and clients of shape {holder.shape}: give one each.")
        check_keys(client, "client", "fill it in or leave the row out", where)
        clients, natural = number_clients(holder.astype(str) if holder.dtype.hasobject else holder)
    return Samples(
        {name: _input_tensor(inputs) for name, inputs in columns.items()} | {"y": torch.from_numpy(targets.y)},
        targets.classes,
        targets.names,
        natural=natural,
        names=clients,
        own_test=None if own_test is None else np.asarray(own_test, dtype=bool),
        group=None if group is None else number_groups(group, samples, where),
        notes=(targets.note,),
    )


def _column_names(x: Mapping[str, Any]) -> list[str]:
    """The names of several input columns, in their order."""
    if not x:
        raise FedloomError("x has no input columns: give an array, or at least one array by name.")
    for name in x:
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name) or name in RESERVED:
            raise FedloomError(
                f"{name!r} cannot be the name of an input column: use letters, digits, _ and -, and none of "
                f"{', '.join(RESERVED)}."
            )
    return list(x)


def _input_array(x: Any, name: str, where: str) -> np.ndarray:
    """One input column as an array of numbers whose first axis is the sample."""
    x = dense_array(x, where)
    try:
        inputs = np.asarray(x)
    except ValueError:
        inputs = np.empty(0, dtype=object)
    if inputs.dtype.hasobject:
        inputs = stack_samples(list(x), where)
    if inputs.dtype.hasobject:
        raise FedloomError(f"{where}: {unequal_shapes([sample.shape for sample in inputs])}.")
    if inputs.dtype.kind in "US":
        shown = str(next(iter(inputs.flat), ""))[:40]
        raise FedloomError(
            f"{where}: the inputs are texts ('{shown}'), not numbers: give a number array, or a table with a column of "
            "texts."
        )
    if inputs.dtype.kind not in "fiub":
        raise FedloomError(f"{where}: the inputs are {inputs.dtype}, not numbers: give a number array.")
    if inputs.ndim < 2:
        remedy = f"; one number per sample is {name}[:, None]" if inputs.ndim == 1 else ""
        raise FedloomError(f"{where}: {name} has shape {inputs.shape}: give (samples, features…){remedy}.")
    return inputs


def _target_array(y: Any, where: str) -> np.ndarray:
    """Targets as an array, and lists of names as cells of a table; rows of unequal length are named."""
    y = dense_array(y, where)
    if are_label_lists(y):
        return label_cells(y, where)
    try:
        return np.asarray(y)
    except ValueError:
        found = stack_samples(list(y), f"{where}, y")
    raise FedloomError(f"{where}, y: {unequal_shapes([sample.shape for sample in found])}.")


def _common_length(columns: Mapping[str, np.ndarray], where: str) -> int:
    lengths = {name.removeprefix(PREFIX): len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise FedloomError(f"{where}: the input columns differ in length ({shown}): give one entry per sample in each.")
    return next(iter(lengths.values()))


def _input_tensor(inputs: np.ndarray) -> Tensor:
    """Inputs as float32, uint8 or int64."""
    if inputs.dtype.kind == "f" or inputs.dtype == np.bool_:
        inputs = inputs.astype(np.float32, copy=False)
    elif inputs.dtype != np.uint8:
        inputs = inputs.astype(np.int64, copy=False)
    found = np.ascontiguousarray(inputs)
    with warnings.catch_warnings():  # columns are never written to, so that a memory map may be read-only
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        return torch.from_numpy(found)


def number_clients(holder: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The names of the clients, sorted (2 before 10), and for each sample the number of its client in that list."""
    if holder.dtype.kind in "iu" and holder.min() >= 0 and holder.max() < 4 * len(holder):  # no sort is needed
        present = np.zeros(int(holder.max()) + 1, dtype=bool)
        present[holder] = True
        return [str(key) for key in np.flatnonzero(present).tolist()], (np.cumsum(present) - 1)[holder]
    keys, inverse = np.unique(holder, return_inverse=True)
    names = [str(key) for key in keys]
    order = sorted(range(len(names)), key=lambda k: (not names[k].isdigit(), names[k].zfill(12)))
    return [names[k] for k in order], np.argsort(order)[inverse]


def check_finite(inputs: np.ndarray, features: Sequence[str], where: str) -> None:
    """Raise an error that names column and row if an input is NaN or infinite."""
    if inputs.dtype.kind != "f":
        return
    step = max(1, (1 << 22) // max(1, int(np.prod(inputs.shape[1:]))))
    for start in range(0, len(inputs), step):
        bad = ~np.isfinite(inputs[start : start + step])
        if bad.any():
            row, *column = (int(place) for place in np.argwhere(bad)[0])
            value = inputs[(start + row, *column)]
            shown = f"'{features[column[0]]}'" if features and len(column) == 1 else ", ".join(map(str, column))
            problem = "is not a number (NaN)" if np.isnan(value) else "is infinite"
            raise FedloomError(
                f"{where}: column {shown}, row {start + row + 1} {problem}: fill it in or leave the row out."
            )
