"""A run of the previous minor version goes on: with that version's rules where they may round otherwise.

What its settings say is in ``folder/old_folders.py``; here is what only its task, its composition and its checkpoint
can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.registry.validation import read_toml
from fedloom.rounds.run_state import RunState, initial_state
from fedloom.runs.folder.old_folders import is_of_previous_version, other_version, step_needed, writer_version
from fedloom.runs.prepare import Prepared


def as_started(prepared: Prepared, folder: Path) -> Prepared:
    """The run with the cohorts of the version that started it: 0.5 did not halve a round of few clients."""
    if not is_of_previous_version(read_toml(folder / "config.toml")):
        return prepared
    composition = prepared.composition
    execution = replace(composition.execution, halved_from=0)
    return replace(prepared, composition=replace(composition, execution=execution))


def refuse_changed_task(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse a run of the previous version whose data, partition or model this version makes otherwise."""
    if is_of_previous_version(config):
        version = writer_version(config)
        raise FedloomError(
            f"{other_version(folder, version)}, since its data, their splits or the form of its model are others now, "
            f"or its data have changed. {step_needed(version)}"
        )


def refuse_changed_state(state: RunState, prepared: Prepared, config: Mapping[str, Any], folder: Path) -> None:
    """Refuse a run of the previous version whose method keeps other tensors at the server now."""
    if not is_of_previous_version(config):
        return
    missing = sorted(initial_state(prepared.composition).server.keys() - state.server.keys())
    if missing:
        version, method = writer_version(config), config.get("method", {}).get("name")
        raise FedloomError(
            f"{other_version(folder, version)}, since {method} keeps '{missing[0]}' at the server now, which its "
            f"checkpoint does not have. {step_needed(version)}"
        )
