"""The settings of a deployment: ``deploy.toml`` at the server, ``site.toml`` at each site.

The run itself is in ``config.toml``, the file that was simulated. These files add what real machines need: addresses,
deadlines, limits on messages, and the place of a site's own data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, model_validator

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.files.formats import PARTICIPANT
from fedloom.registry.validation import read_toml, validate
from fedloom.rounds.largest_ratio import AGAINST, CLIPPED, FACTOR
from fedloom.runs.folder.old_folders import is_of_this_version
from fedloom.runs.folder.writer_version import writer_version

OPENED, READY = "site: open", "site: ready"
"""Output of a site's process: when its data are read and checked, and when it has reached its SuperNode."""


class Settings(BaseModel):
    """Base class of settings; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(Settings):
    """Settings of the server. ``sites`` are the names of the training sites, in the order of their client numbers."""

    sites: list[str]
    evaluator: str | None = None
    """A site that only evaluates the shared model on its own data. It never trains."""
    host: str = "127.0.0.1"
    """The name or address by which sites reach this server; its certificate is for this name."""
    port: int = Field(default=8443, ge=1, le=65535)
    """The port that sites reach: the proxy's, or without a proxy the SuperLink's own."""
    control_port: int = Field(default=8000, ge=1, le=65535)
    """The SuperLink's own port, on loopback, behind the proxy."""
    proxy: bool = True
    """Whether sites connect through a reverse proxy that requires their certificates and passes on only their calls."""
    deadline: float = Field(default=600.0, gt=0)
    """Seconds in which sites must answer, per exchange."""
    join_timeout: float = Field(default=120.0, gt=0)
    """Seconds to wait for the sites to connect before the run begins, and before each round for ``min_clients``."""
    reconnect_timeout: float = Field(default=15.0, ge=0)
    """Seconds that a round waits for sites that have lost their connection, once all others have answered; while others
    work they have until the deadline."""
    min_clients: int = Field(default=1, ge=1)
    """The fewest sites that make a valid round."""
    retries: int = Field(default=2, ge=0)
    """How often a round with too few answers is repeated before the run stops."""
    max_megabytes: float = Field(default=512.0, gt=0)
    """The largest accepted message of a site."""
    max_waiting: int = Field(default=4, ge=2)
    """How many of its largest messages (``max_megabytes``) a site may have in the memory of the server at once, waiting
    to be used; parts of others are refused. An honest site has one, or two if it is late."""
    max_calls: int = Field(default=100, ge=1)
    """The most calls per second of a site, on average over five seconds; others are refused by the proxy."""
    max_norm: float | None = Field(default=None, gt=0)
    """The largest Euclidean distance between a site's model and the one it was sent; others are dropped."""
    max_ratio: float = Field(default=FACTOR, gt=1)
    """How many times as large as usual a tensor of a site's reply may be; larger ones are dropped. Usual is the median
    of the other sites of the round or, if that is larger, of the rounds before."""
    clip_ratio: float = Field(default=CLIPPED, gt=1)
    """How many times as large as usual a change of weights counts; what is larger is scaled down."""
    clip_against: float = Field(default=AGAINST, gt=1)
    """How many times the usual size a change of weights counts that points against the other sites."""
    max_share: float = Field(default=1.0, gt=0, le=1)
    """The largest share of all training samples that one of three or more sites may count with; 1 for any."""
    sizes: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """The most training samples that some sites count with, by name: what the operator knows of them. Such a site's
    claim is believed up to there, however large."""
    max_samples: int = Field(default=1_000_000_000, ge=1)
    """The most training samples that a site may announce."""
    cross_site: bool = False
    """Whether every site's model is evaluated on every site's data at the end; models then leave their sites."""

    @model_validator(mode="after")
    def _check_sizes(self) -> ServerSettings:
        strange = [name for name in self.sizes if name not in self.sites]
        if strange:
            raise ValueError(f"sizes names {strange[0]}, which is not a training site of this deployment")
        return self

    @property
    def loopback(self) -> str:
        """The loopback address that the server's programs listen on, also if they listen on all addresses."""
        return "::1" if ":" in self.host else "127.0.0.1"

    @property
    def is_local(self) -> bool:
        """Whether sites can only be on the server's own machine."""
        return self.host in (self.loopback, "localhost")

    @property
    def link_port(self) -> int:
        """The SuperLink's own port."""
        return self.control_port if self.proxy else self.port

    @property
    def link_host(self) -> str:
        """The loopback address of the SuperLink's own port."""
        return "127.0.0.1" if self.proxy else self.loopback

    @property
    def everyone(self) -> list[str]:
        """All sites by client number; the evaluator is the last."""
        return [*self.sites, *([self.evaluator] if self.evaluator else [])]


class SiteData(Settings):
    """The place of a site's own data and how they are read.

    ``rehearsal`` uses this site's share of the run file's data, to try a deployment out. Otherwise ``path`` names a
    CSV, TSV, NPZ or parquet file, a folder with a sub-folder of images per class, a graph, or a folder of flows.
    """

    rehearsal: bool = False
    path: str | None = None
    target: str = "label"
    ignore: list[str] = Field(default_factory=list)
    salt: str = ""
    """For methods whose sites share nodes of a graph: a secret that the sites agree on, and that the server need not
    know; ids of nodes are hashed with it."""


class RequiredStep(Settings):
    """A step that the run's channel must have, and bounds of its settings."""

    name: str
    least: dict[str, float] = Field(default_factory=dict)
    """The smallest accepted value of some of its settings, for instance of a noise."""
    most: dict[str, float] = Field(default_factory=dict)
    """The largest accepted value of some of its settings, for instance of a norm."""


class PolicySettings(Settings):
    """What a site takes part in and what may leave it, decided at the site (``[policy]`` in ``site.toml``).

    ``deploy/site/policy.py`` enforces it. What is not set is as careful as a run allows: everything that the method
    declares may leave for as many rounds as the run has, in the run and in ten new runs of the same plan, and nothing
    else.
    """

    runs: list[str] | None = None
    """The digests or names of the runs that it takes part in (``fedloom deploy explain`` shows both)."""
    methods: list[str] | None = None
    """The methods that it takes part in."""
    rounds: int | None = Field(default=None, ge=1)
    """The most rounds that it takes part in, counted here, over all restarts and new runs; not set, as many as each run
    has."""
    new_runs: int = Field(default=10, ge=0)
    """In how many more runs of the same plan it takes part (``fedloom deploy run --new``)."""
    repeats: int | None = Field(default=None, ge=0)
    """How often it may be asked again for a round that it has done; not set, as often as the run has rounds, or 20."""
    turns: int | None = Field(default=None, ge=1)
    """How often it may be asked to train within one round; not set, as often as the method of the run declares."""
    updates: bool = True
    """Whether what it trains may leave."""
    evaluation: bool = True
    """Whether scores on its data may leave."""
    model: bool = False
    """Whether the model that it predicts with may leave, for an evaluation on all sites (``cross_site``)."""
    tensors: dict[str, list[str]] | None = None
    """Which tensors may leave, by method; a method that is not named may send all that it declares."""
    channel: list[RequiredStep] | None = None
    """Steps that an update must go through here before it leaves."""


class SiteSettings(Settings):
    """Settings of a site."""

    name: str
    client: int = Field(ge=0)
    """The site's number in the federation; the evaluator's is the number of training sites."""
    server: str = "127.0.0.1:8443"
    policy: PolicySettings = PolicySettings()
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
    values = read_toml(folder / name)
    values = PARTICIPANT.upgrade(values, values.pop("format", 1), folder / name)
    return validate(kind, values, str(folder / name))


def refuse_other_participant(folder: Path) -> None:
    """Refuse a participant's folder that was made for another protocol: server and sites must compute the same run.

    Folders without the number of their protocol are refused if another minor version made them.
    """
    config = folder / "config.toml"
    values = read_toml(config) if config.is_file() else {}
    if not values:
        return
    notes = values.get("made_by")
    made_for = notes.get("protocol", "") if isinstance(notes, dict) else ""
    if made_for == str(PROTOCOL) if made_for else is_of_this_version(values):
        return
    protocol = f" for protocol {printable_line(str(made_for), 20)}" if made_for else ""
    raise FedloomError(
        f"{folder} was made by Fedloom {writer_version(values)}{protocol} and this is {fedloom.__version__} (protocol "
        f"{PROTOCOL}): the results of its run can be read (report, predict), but it cannot take part in a deployment: "
        "make new folders with fedloom deploy init."
    )


def to_toml(settings: Settings) -> bytes:
    """Settings as TOML, with defaults written out."""
    return tomli_w.dumps(settings.model_dump(mode="python", exclude_none=True)).encode()
