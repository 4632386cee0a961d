"""Tables with a header: CSV, TSV and parquet as number features, labels and an optional client column."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError

CHUNK = 20_000
LONGEST = 200  # characters of a label or a client
TABLES = (".csv", ".tsv", ".parquet")
LISTED = 12  # names in a sentence, at most


@dataclass(frozen=True)
class Table:
    """Number features by column, one label per row, and a client per row where the table has one."""

    x: np.ndarray
    y: np.ndarray
    client: np.ndarray | None
    features: list[str]


def _columns(
    path: Path,
    header: Sequence[str],
    target: str,
    client: str,
    ignore: Sequence[str],
    wanted: Sequence[str] = (),
) -> list[str]:
    """The feature columns, after checking that every column that was named is there.

    Features that are ``wanted`` must be these and no others, and come in the order wanted.
    """
    twice = [name for name in header if list(header).count(name) > 1]
    if twice:
        raise FedloomError(f"{path.name} has the column '{twice[0]}' twice: give each column its own name.")
    named = [target, *ignore, *([] if client == "client" or wanted else [client])]
    for name in named:
        if name not in header:
            raise FedloomError(f"{path.name} has no column '{name}': its columns are {name_list(header)}.")
    features = [name for name in header if name not in {target, client, *ignore}]
    if not features:
        raise FedloomError(f"{path.name} has no feature column beside '{target}': add the inputs.")
    return order_features(features, wanted, path.name)


def order_features(features: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """The feature columns as they come; or, where some are wanted, these in their order, and no others."""
    missing = [name for name in wanted if name not in features]
    if missing:
        raise FedloomError(
            f"{where} has no feature column '{missing[0]}': it has {name_list(features)}, "
            f"and must have {name_list(wanted)}."
        )
    extra = [name for name in features if name not in wanted] if wanted else []
    if extra:
        raise FedloomError(
            f"{where} has the column '{extra[0]}', which is none of the features {name_list(wanted)}: take it out, or "
            "ignore it."
        )
    return list(wanted or features)


def name_list(names: Sequence[str]) -> str:
    """Names in a sentence, not too many of them."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(names[:LISTED])}{more}"


def read_tabular(path: Path, target: str, client: str, ignore: Sequence[str], wanted: Sequence[str] = ()) -> Table:
    """Read a table of one of these kinds, by its ending."""
    reader = read_parquet if path.suffix.lower() == ".parquet" else read_csv
    return reader(path, target, client, ignore, wanted)


def read_csv(path: Path, target: str, client: str, ignore: Sequence[str], wanted: Sequence[str] = ()) -> Table:
    """Read a CSV (or TSV) with a header, in bounded pieces."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            header = [name.strip() for name in next(reader, [])]
            if not header:
                raise FedloomError(f"{path.name} is empty: the first row names the columns.")
            features = _columns(path, header, target, client, ignore, wanted)
            places = [header.index(name) for name in features]
            inputs, labels, clients, seen = [], [], [], 0
            while rows := list(itertools.islice(reader, CHUNK)):
                for number, row in enumerate(rows, start=seen + 1):
                    if len(row) != len(header):
                        raise FedloomError(
                            f"{path.name}, row {number}: {len(row)} cells where the header has {len(header)}."
                        )
                inputs.append(numbers(rows, places, features, seen, path.name))
                labels.append(_words(rows, header, target, seen, path.name))
                if client in header:
                    clients.append(_words(rows, header, client, seen, path.name))
                seen += len(rows)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedloomError(f"{path.name} is not a readable CSV file in UTF-8 ({error}).") from error
    if not inputs:
        raise FedloomError(f"{path.name} has a header and no rows: add samples.")
    return Table(np.concatenate(inputs), np.concatenate(labels), np.concatenate(clients) if clients else None, features)


def numbers(
    rows: Sequence[Sequence[str]], places: Sequence[int], features: Sequence[str], seen: int, where: str
) -> np.ndarray:
    """Cells at these places as numbers, or the sentence that says which is none; ``seen`` rows came before these."""
    try:
        return np.array([[float(row[place]) for place in places] for row in rows], dtype=np.float32)
    except ValueError:
        for number, row in enumerate(rows, start=seen + 1):
            for name, place in zip(features, places, strict=True):
                try:
                    float(row[place])
                except ValueError:
                    told = f"'{row[place][:40]}' is not a number" if row[place].strip() else "the cell is empty"
                    raise FedloomError(
                        f"{where}: column '{name}', row {number}: {told}: features are numbers; "
                        "fill it in, or ignore the column."
                    ) from None
        raise


def _words(rows: Sequence[Sequence[str]], header: Sequence[str], name: str, seen: int, where: str) -> np.ndarray:
    place = header.index(name)
    words = [row[place].strip() for row in rows]
    for number, word in enumerate(words, start=seen + 1):
        if not word or len(word) > LONGEST:
            told = "the cell is empty" if not word else f"{len(word)} characters are too long for a name"
            raise FedloomError(f"{where}: column '{name}', row {number}: {told}: fill it in or leave the row out.")
    return np.array(words)


def read_parquet(path: Path, target: str, client: str, ignore: Sequence[str], wanted: Sequence[str] = ()) -> Table:
    """Read a parquet file; needs pyarrow."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise FedloomError("reading parquet needs pyarrow: pip install 'fedloom[parquet]'.") from None
    try:
        table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise FedloomError(f"{path.name} is not a readable parquet file.") from error
    features = _columns(path, table.column_names, target, client, ignore, wanted)
    if table.num_rows == 0:
        raise FedloomError(f"{path.name} has no rows: add samples.")
    inputs = np.empty((table.num_rows, len(features)), dtype=np.float32)
    for place, name in enumerate(features):
        kind = table.schema.field(name).type
        if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)):
            raise FedloomError(f"{path.name}: column '{name}' is {kind}: features are numbers; ignore the column.")
        if table[name].null_count:
            row = int(np.flatnonzero(table[name].is_null().to_numpy())[0])
            raise FedloomError(f"{path.name}: column '{name}', row {row + 1}: the cell is empty: fill it in.")
        inputs[:, place] = table[name].to_numpy()
    for name in {target, client} & set(table.column_names):
        if table[name].null_count:
            row = int(np.flatnonzero(table[name].is_null().to_numpy())[0])
            raise FedloomError(f"{path.name}: column '{name}', row {row + 1}: the cell is empty: fill it in.")
    clients = table[client].to_numpy() if client in table.column_names else None
    return Table(inputs, table[target].to_numpy(), None if clients is None else clients.astype(str), features)
