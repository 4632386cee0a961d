"""Which columns of a table may name the client of a row, for a user who has not said so."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from fedloom.data.tables.tables import Table, as_texts

NAMES = re.compile(
    "hospital|clinic|client|site|user|org|owner|bank|branch|school|shop|store|country|company|customer|device|centre|"
    "center|institution|.*_id",
    re.IGNORECASE,
)
"""How columns begin that often name clients, or what they are."""
FEWEST_ROWS = 3
"""The fewest rows of a client."""
MOST_SHOWN = 5


def suggest_client_column(table: Table, others: Collection[str | None]) -> str:
    """How to name the clients of a table, with the columns that may do it, as a phrase.

    Args:
        table: The rows.
        others: Columns that have another role.
    """
    found = client_columns(table, others)
    shown = ", ".join(f"'{name}' ({values} values)" for name, values in list(found.items())[:MOST_SHOWN])
    looks = f"; {shown} may be {'one' if len(found) == 1 else 'such columns'}" if found else ""
    return f"the column that names the client with --client-column COLUMN (client=...){looks}"


def client_columns(table: Table, others: Collection[str | None] = ()) -> dict[str, int]:
    """The columns that may name clients, the likeliest first, and how many clients each would make.

    A column with such a name may have any values that occur a few times on average. Of the others, only texts count,
    and each of their values must occur a few times: a column of few numbers is more often a measured one.

    Args:
        table: The rows.
        others: Columns that have another role.
    """
    named, plain = dict[str, int](), dict[str, int]()
    for name, column in table.columns.items():
        if name in others or (column.dtype.kind == "f" and np.isinf(column).any()):
            continue
        words = as_texts(column)
        values, counts = np.unique(words[words != ""].astype(str), return_counts=True)
        if len(values) < 2 or len(words) < FEWEST_ROWS * len(values):
            continue
        if NAMES.match(name):
            named[name] = len(values)
        elif column.dtype.kind not in "fiub" and counts.min() >= FEWEST_ROWS:
            plain[name] = len(values)
    return named | dict(sorted(plain.items(), key=lambda one: -one[1]))
