"""Which weights a client predicts with: stages that sit behind any method (``fedavg+fedpredict``)."""

from __future__ import annotations

from fedloom.core.stage import Stage

STAGES: dict[str, type[Stage]] = {}
