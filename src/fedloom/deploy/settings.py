"""What the people of a deployment set: ``deploy.toml`` at the server, ``site.toml`` at each site.

The run itself is in ``config.toml``, the same file that was simulated; here is only what a real fleet needs besides:
addresses, deadlines, limits on what may arrive, and where a site's own data lie.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field

from fedloom.core.errors import FedloomError
from fedloom.core.validation import read_toml, validate

SERVER_FILE, SITE_FILE = "deploy.toml", "site.toml"
OPENED, READY = "site: open", "site: ready"
"""What a site's process says when its data are read and checked, and when its SuperNode has work for it to ask for."""


class Settings(BaseModel):
    """Settings that refuse keys they do not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Settings):
    """The server's side. ``sites`` are the names of the training sites, in the order of their client numbers."""

    sites: list[str]
    evaluator: str | None = None
    """A site that only scores the shared model on its own data: it never trains, and its weights never count."""
    host: str = "127.0.0.1"
    """Where sites find this server: a name or an address of the machine, as its certificate says."""
    port: int = Field(default=8443, ge=1, le=65535)
    """The port that sites reach: the proxy's, or without a proxy the SuperLink's own."""
    control_port: int = Field(default=8000, ge=1, le=65535)
    """The SuperLink's own port, on loopback, behind the proxy."""
    proxy: bool = True
    """Whether sites reach only the fleet path, through a reverse proxy that asks for their certificates."""
    deadline: float = Field(default=600.0, gt=0)
    """Seconds that sites have to answer in, per exchange."""
    join_timeout: float = Field(default=120.0, gt=0)
    """Seconds to wait for the sites to connect before the run begins, and before each round for ``min_clients``."""
    min_clients: int = Field(default=1, ge=1)
    """The fewest sites with which a round counts."""
    retries: int = Field(default=2, ge=0)
    """How often a round with too few answers is tried again before the run stops."""
    max_megabytes: float = Field(default=512.0, gt=0)
    """The largest message that is taken from a site."""
    max_norm: float | None = Field(default=None, gt=0)
    """How far a site's model may lie from the one it was sent (Euclidean); farther ones are dropped."""
    max_samples: int = Field(default=1_000_000_000, ge=1)
    """The most training samples that a site may say it has."""
    cross_site: bool = False
    """Whether, at the end, every site's model is scored on every site's data; models then leave their sites."""

    @property
    def everyone(self) -> list[str]:
        """All sites by client number, the evaluator behind the others."""
        return [*self.sites, *([self.evaluator] if self.evaluator else [])]


class SiteData(Settings):
    """Where a site's own data lie and how they are read.

    ``rehearsal`` takes this site's share of the run file's own data: for trying a deployment out. Otherwise ``path``
    names a CSV, TSV, NPZ or parquet file, a folder with a sub-folder of images per class, or a graph.
    """

    rehearsal: bool = False
    path: str | None = None
    target: str = "label"
    ignore: list[str] = Field(default_factory=list)


class SiteSettings(Settings):
    """A site's side."""

    name: str
    client: int = Field(ge=0)
    """The site's number in the federation; the evaluator's is the number of training sites."""
    server: str = "127.0.0.1:8443"
    port: int = Field(default=9094, ge=1, le=65535)
    """A loopback port of this machine, between Flower's SuperNode and the site's own process."""
    data: SiteData = SiteData()


def load_server(folder: Path) -> ServerSettings:
    """The settings of a server's folder."""
    settings: ServerSettings = _load(folder, SERVER_FILE, ServerSettings, "a server's")
    return settings


def load_site(folder: Path) -> SiteSettings:
    """The settings of a site's folder."""
    settings: SiteSettings = _load(folder, SITE_FILE, SiteSettings, "a site's")
    return settings


def _load(folder: Path, name: str, kind: type[Any], whose: str) -> Any:
    if not (folder / name).is_file():
        raise FedloomError(f"{folder} is not {whose} folder: it has no {name} (fedloom deploy init makes one).")
    return validate(kind, read_toml(folder / name), str(folder / name))


def to_toml(settings: Settings) -> bytes:
    """Settings as TOML, defaults written out."""
    return tomli_w.dumps(settings.model_dump(mode="python", exclude_none=True)).encode()


Role = Literal["server", "site"]


def role_of(folder: Path) -> Role:
    """Whether a folder is the server's or a site's."""
    if (folder / SERVER_FILE).is_file():
        return "server"
    if (folder / SITE_FILE).is_file():
        return "site"
    raise FedloomError(
        f"{folder} is no participant's folder: it has neither {SERVER_FILE} nor {SITE_FILE}; name deploy/server or a "
        "site's folder, as fedloom deploy init made them."
    )
