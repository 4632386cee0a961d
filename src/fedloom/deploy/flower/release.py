"""The release of Flower that this room was written for, and how its parts are started and replaced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError

VERSION = "1.41.0"
LEAN_MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1 << 17)}
"""For programs that carry large messages in dozens of threads: glibc gives their memory back. With its defaults every
thread keeps some, and a SuperLink grows for hundreds of rounds."""


def check_flower() -> None:
    """Raise an error if Flower is missing or has a version that this folder was not written for."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise FedloomError("deployment needs Flower, which is not installed: pip install 'fedloom[deploy]'.") from None
    if found != VERSION:
        raise FedloomError(f"deployment needs Flower {VERSION}, but {found} is installed: pip install flwr=={VERSION}.")


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's programs: files below ``home``, and no call home."""
    return os.environ | {
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def replace_attribute(module: Any, name: str, by: Any) -> None:
    """Replace an attribute of one of Flower's modules."""
    if not hasattr(module, name):
        raise FedloomError(f"Flower's {module.__name__} has no {name}: pip install flwr=={VERSION}.")
    setattr(module, name, by)
