"""Columns that may name clients: by their name, or texts of which each occurs a few times."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedloom.data.tables.client_columns import client_columns, suggest_client_column
from fedloom.data.tables.tables import table_of_frame

ROWS = 60
FRAME = pd.DataFrame(
    {
        "age": np.arange(ROWS) % 30,
        "ward": [f"w{n % 4}" for n in range(ROWS)],
        "name": [f"n{n}" for n in range(ROWS)],
        "rare": ["once"] + ["often"] * (ROWS - 1),
        "bank_id": np.arange(ROWS) % 6,
        "same": ["x"] * ROWS,
        "stay": np.where(np.arange(ROWS) == 3, np.inf, 1.0),
        "label": ["a", "b"] * (ROWS // 2),
    }
)


def test_names_come_first_and_measured_numbers_names_of_rows_and_the_target_are_left_out() -> None:
    assert list(client_columns(table_of_frame(FRAME), ["label", None]).items()) == [("bank_id", 6), ("ward", 4)]


def test_the_phrase_names_them_or_only_the_option() -> None:
    table = table_of_frame(FRAME)
    assert suggest_client_column(table, ["label"]).endswith(
        "'bank_id' (6 values), 'ward' (4 values) may be such columns"
    )
    assert suggest_client_column(table, list(FRAME)).endswith("--client-column COLUMN (client=...)")
