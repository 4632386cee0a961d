"""The networks that the tasks use: any ``torch.nn.Module`` will do, and these are the ones the studies name."""

from __future__ import annotations

from fedloom.models.registry import KINDS, MODELS, ModelKind, build, default_for

__all__ = ["KINDS", "MODELS", "ModelKind", "build", "default_for"]
