"""Arguments and options that several commands of ``fedloom deploy`` have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="The participant's folder, made by fedloom deploy init.")]
Days = Annotated[int, typer.Option("--days", help="How long the certificates are valid.")]
