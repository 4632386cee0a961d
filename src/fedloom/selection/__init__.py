"""Who takes part in a round. A selector sees a pool (``fedloom.core.pool``) and answers with a choice."""

from __future__ import annotations

from typing import Any

from fedloom.selection.random import Random

SELECTORS: dict[str, Any] = {"random": Random}
