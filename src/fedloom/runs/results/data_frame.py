"""Rows of plain values as a data frame, where pandas is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedloom.core.errors import FedloomError

if TYPE_CHECKING:
    import pandas as pd


def data_frame(rows: Sequence[Mapping[str, Any]], call: str) -> pd.DataFrame:
    """The rows as a data frame, a column per key.

    Args:
        rows: A mapping per line, from column to value.
        call: What an error calls the call.
    """
    try:
        import pandas as pd
    except ImportError as missing:
        raise FedloomError(f"{call} needs pandas: pip install 'fedloom[frame]'.") from missing
    return pd.DataFrame(list(rows))
