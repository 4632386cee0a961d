"""The command that continues a run: of a simulation, or of a deployment, whose run lies in the server's folder."""

from __future__ import annotations

from pathlib import Path

SERVER_SETTINGS = "deploy.toml"
"""What the folder of a deployment's server has."""


def resume_command(folder: Path) -> str:
    """The command that continues the run in a folder."""
    server = folder.parent
    return f"fedloom deploy run {server}" if (server / SERVER_SETTINGS).is_file() else f"fedloom resume {folder}"
