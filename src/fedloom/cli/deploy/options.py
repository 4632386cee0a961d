"""Arguments and options that several commands of ``fedloom deploy`` have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedloom.cli.terminal.say import say

Folder = Annotated[Path, typer.Argument(help="The participant's folder, made by fedloom deploy init.")]
Days = Annotated[int, typer.Option("--days", help="How long the certificates are valid.")]


def say_upgrade_step(folder: Path) -> None:
    """Say on standard error which step a participant's folder of an earlier version needs."""
    from fedloom.deploy.earlier_folder import upgrade_step

    step = upgrade_step(folder)
    if step:
        say(step, err=True)
