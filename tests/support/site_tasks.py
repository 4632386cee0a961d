"""A site's own data under a run's schema: blueprints of small tasks, and data that are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import SiteData, SiteSettings


def blueprint_of(task: dict[str, Any], sites: Sequence[str] = ("north", "south"), **settings: Any) -> Blueprint:
    """The blueprint of a run of one round."""
    return Blueprint.of(resolve({"rounds": 1, "task": {"clients": len(sites), **task}, **settings}), sites)


def south(path: str | Path, client: int = 1, **data: Any) -> SiteSettings:
    """The settings of the site ``south`` with its data in a file."""
    return SiteSettings(name="south", client=client, data=SiteData(path=str(path), target="kind", **data))


def check_refused(blueprint: Blueprint, settings: SiteSettings, folder: Path, reason: str) -> None:
    """The site's data are refused in one sentence that names the site and the reason."""
    with pytest.raises(FedloomError) as refusal:
        blueprint.site_task(settings, folder)
    sentence = str(refusal.value)
    assert sentence.startswith("site south: ")
    assert reason in sentence
    assert "\n" not in sentence


def write_image(path: Path, pixels: np.ndarray) -> None:
    """A picture in a folder that may not exist yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
