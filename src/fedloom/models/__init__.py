"""The built-in networks of the tasks. Any other ``torch.nn.Module`` can be used in their place."""

from __future__ import annotations

from fedloom.models.build_model import KINDS, build, default_for
from fedloom.models.model_kind import ModelKind
from fedloom.models.user_model import Maker
from fedloom.registry.kinds import MODELS

__all__ = ["KINDS", "MODELS", "Maker", "ModelKind", "build", "default_for"]
