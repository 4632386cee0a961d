"""The built-in networks of the tasks. Any other ``torch.nn.Module`` can be used in their place."""

from __future__ import annotations

from fedloom.models.registry import KINDS, MODELS, ModelKind, build, default_for
from fedloom.models.user_model import Maker

__all__ = ["KINDS", "MODELS", "Maker", "ModelKind", "build", "default_for"]
