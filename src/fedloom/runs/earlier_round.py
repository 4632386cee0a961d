"""Go on from an earlier round with other settings: for a run that diverged, or whose settings turned out to be wrong.

A folder holds its last checkpoints; a run goes back to one of them and forgets what came after it. Its config then has
the new settings, and ``made_by`` says with which ones the rounds before were played:
``"until_round/5" = "local.lr=8"``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import method_from
from fedloom.config.schema import to_toml
from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.registry.nested_keys import flatten
from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.runs.folder.manifest import (
    CONFIG,
    allow_configs,
    check_files,
    digest_of,
    manifest_paths,
    read_manifest,
)
from fedloom.runs.folder.recover import recover
from fedloom.runs.folder.run_files import check_records
from fedloom.runs.more_rounds import refuse_if_rounds_matter
from fedloom.runs.prepare import Prepared
from fedloom.runs.results.history import History

NOTE = "until_round/"
"""Prefix of the notes in ``made_by`` of the settings that earlier rounds were played with."""


def go_back_to_round(prepared: Prepared, folder: Path, number: int) -> None:
    """Make an earlier checkpoint the newest one and write the new settings; a kill at any point leaves a whole run.

    Args:
        prepared: The run with its new settings.
        folder: The run's folder, which was recovered.
        number: The round after which the run continues.
    """
    rounds = prepared.config.rounds
    later = _later_manifests(folder, number)
    if number >= rounds:
        raise FedloomError(f"round {number} is the last one, and nothing is left to play after it: give more rounds.")
    if prepared.composition.privacy is not None or prepared.composition.client_privacy:
        raise FedloomError(
            "a private run cannot go back: its ledger would forget what the rounds after this one have spent, and "
            "would count those before it with the new settings; start a new run."
        )
    before, old = (folder / CONFIG).read_bytes(), History.load(folder).config
    if old["rounds"] != rounds:
        refuse_if_rounds_matter(prepared.composition)
    _refuse_other_state(old, prepared)
    config = to_toml({**prepared.plain, "made_by": _notes(old, prepared.plain, number)})
    allow_configs(folder, [digest_of(before), digest_of(config)])
    for path in later:
        path.unlink()
    write_atomic(folder / CONFIG, config)
    allow_configs(folder, [digest_of(config)])
    recover(folder)


def forget_later_rounds(folder: Path, number: int) -> None:
    """Make an earlier checkpoint the newest one; the settings stay as they are.

    Args:
        folder: The run's folder.
        number: The round after which the run continues.
    """
    with lock_folder(folder):
        if any(name.startswith("privacy/") for record in History.load(folder).records for name in record["metrics"]):
            raise FedloomError(
                "a private run cannot go back: what the rounds after this one have told has been told; start a new run."
            )
        for path in _later_manifests(folder, number):
            path.unlink()
        recover(folder)


def _later_manifests(folder: Path, number: int) -> list[Path]:
    """The manifests of the rounds after one whose checkpoint must be whole, the newest first."""
    paths = {int(path.stem.removeprefix("manifest-")): path for path in manifest_paths(folder)}
    if number not in paths:
        there = ", ".join(map(str, paths))
        raise FedloomError(f"{folder} has no checkpoint of round {number}: continue from one of the rounds {there}.")
    manifest = read_manifest(paths[number])
    check_files(folder, manifest)
    check_records(folder, manifest)
    return [paths[later] for later in sorted(paths, reverse=True) if later > number]


def _refuse_other_state(old: Mapping[str, Any], prepared: Prepared) -> None:
    """Refuse settings of the method with which its state would have another form."""
    settings = dict(old["method"])
    if settings == prepared.plain["method"]:
        return
    name, task = settings.pop("name"), prepared.composition.task
    methods = (method_from(name, settings), prepared.composition.algorithm)
    before, after = ({key: t.shape for key, t in method.start(task).items()} for method in methods)
    if before != after:
        raise FedloomError(f"{name} has a state of another form with these settings: start a new run instead.")


def _notes(old: Mapping[str, Any], new: Mapping[str, Any], number: int) -> dict[str, str]:
    """The section ``made_by`` of the new config: the old one, and what the rounds until now were played with."""
    notes: dict[str, str] = dict(old["made_by"])
    key = f"{NOTE}{number}"
    for later in [one for one in notes if one.startswith(NOTE) and int(one.removeprefix(NOTE)) > number]:
        del notes[later]
    then, now = (dict(flatten({k: v for k, v in one.items() if k != "made_by"})) for one in (old, new))
    found = [f"{name}={json.dumps(value)}" for name, value in then.items() if now.get(name) != value]
    found += [f"{name} not set" for name in now if name not in then]
    if key in notes:  # the second change at this round: the first one says what was before
        known = {text.partition("=")[0] for text in notes[key].split(", ")}
        found = [notes[key], *(text for text in found if text.partition("=")[0] not in known)]
    return notes | ({key: ", ".join(found)} if found else {})
