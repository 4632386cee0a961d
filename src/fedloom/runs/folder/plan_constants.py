"""What a deployment's initial model has besides its row, in the folders of its participants and of models they save."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from fedloom.registry.nested_keys import select_prefix
from fedloom.runs.folder.checkpoint import load_tensors

INITIAL = "initial.safetensors"
CONSTANT = "constant/"
"""Before the names of the constants in that file."""


def plan_constants(folder: Path) -> dict[str, Tensor]:
    """Frozen parameters, masks and tables of the initial model by name; none in a folder of something else.

    Args:
        folder: A participant's folder, or that of a saved model.
    """
    file = folder / INITIAL
    return dict(select_prefix(load_tensors(file), CONSTANT)) if file.is_file() else {}
