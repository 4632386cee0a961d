"""Rows become a data frame, and a missing pandas is a sentence."""

from __future__ import annotations

import sys

import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.results.data_frame import data_frame


def test_a_column_per_key() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed (the extra 'frame')")
    frame = data_frame([{"a": 1, "b": 2.5}, {"a": 3}], "x.frame()")
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].tolist() == [1, 3]


def test_without_pandas_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FedloomError, match=r"x.frame\(\) needs pandas: pip install 'fedloom\[frame\]'"):
        data_frame([], "x.frame()")
