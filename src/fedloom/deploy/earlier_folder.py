"""Participants' folders of earlier versions: which step brings them to this one."""

from __future__ import annotations

from pathlib import Path

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import SERVER_FILE, SIGNATURE_FILE, SITE_FILE, role_of
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.old_folders import is_of_previous_version, is_of_this_version, writer_version


def upgrade_step(folder: Path) -> str:
    """The step that brings a participant's folder of an earlier version to this one; empty if it needs none.

    Args:
        folder: The participant's folder.
    """
    config = folder / "config.toml"
    is_participant = any((folder / name).is_file() for name in (SERVER_FILE, SITE_FILE))
    if (folder / SIGNATURE_FILE).is_file() or not is_participant or not config.is_file():
        return ""
    try:
        values = read_toml(config)
    except FedloomError:  # whoever needs the config says what is wrong with it
        return ""
    version = writer_version(values)
    if is_of_previous_version(values) and role_of(folder) == "server":
        return (
            f"{folder} was made by fedloom {version}, which signed no folders: run fedloom deploy renew once where "
            "the folders of the authority and of all sites are, and give each site its three files."
        )
    if is_of_previous_version(values):
        return (
            f"{folder} was made by fedloom {version}, which signed no folders: ask the operator for this site's "
            "three files of fedloom deploy renew."
        )
    return "" if is_of_this_version(values) else _too_old(folder, version)


def _too_old(folder: Path, version: str) -> str:
    return (
        f"{folder} was made by fedloom {version}, whose deployments fedloom {fedloom.__version__} does not take over: "
        "make new folders with fedloom deploy init, or go on with that version."
    )


def refuse_earlier_folder(folder: Path) -> None:
    """Refuse a participant's folder of an earlier version with the step that it needs."""
    step = upgrade_step(folder)
    if step:
        raise FedloomError(step)


def refuse_too_old_folder(folder: Path) -> None:
    """Refuse a participant's folder that no step brings to this version."""
    values = read_toml(folder / "config.toml")
    if upgrade_step(folder) == _too_old(folder, writer_version(values)):
        raise FedloomError(upgrade_step(folder))
