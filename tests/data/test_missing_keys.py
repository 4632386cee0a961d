"""A key that nobody filled in is refused, whatever it looks like; it never becomes a client of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.data.missing_keys import check_keys

KEYS = {
    "NaN in floats": np.array([0.0, np.nan, 1.0, np.nan]),
    "NaN in a list of texts": ["a", float("nan"), "b", None],
    "None in objects": np.array(["a", None, "b", None], dtype=object),
    "empty texts": np.array(["a", "", "b", " "]),
    "pandas' NA": pd.Series(["a", pd.NA, "b", pd.NA], dtype="string"),
    "pandas' NA in numbers": pd.Series([1, pd.NA, 2, pd.NA], dtype="Int64"),
    "NaT": pd.Series(pd.to_datetime(["2026-01-01", None, "2026-01-02", None])),
    "NaT in objects": np.array([pd.Timestamp("2026-01-01"), pd.NaT, "b", pd.NaT], dtype=object),
}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_missing_client_in_arrays_is_refused_as_in_tables(keys) -> None:
    with pytest.raises(
        FedloomError, match=r"own data: 2 rows \(2, 4\) have no client: fill it in or leave the row out\."
    ):
        fd.from_arrays(np.zeros((4, 1)), np.arange(4) % 2, keys)


@pytest.mark.parametrize("keys", [[0, 1, 2], np.array([0.5, np.inf]), ["a", "b"], np.array([True, False]), [b"a"]])
def test_other_keys_are_left_alone(keys) -> None:
    check_keys(keys, "client", "fill it in", "here")


def test_one_missing_key_is_named_by_its_row() -> None:
    with pytest.raises(FedloomError, match=r"^here: row 2 has no group: add one\.$"):
        check_keys([1, None], "group", "add one", "here")
