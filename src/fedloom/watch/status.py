"""What is known of a run or a deployment at a moment: the one set of facts that every view shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["waiting", "running", "finished", "stopped", "failed", "interrupted"]
"""``stopped`` by a rule of its own, for instance since it diverged; ``failed`` with an error; ``interrupted``: it is
not at its end, and nobody is working on it."""
Kind = Literal["run", "server", "site"]

FEWEST_SECONDS, MEDIANS = 60.0, 10.0
"""A run is stalled if no round ended for this many seconds, and for this many times the median of its rounds."""
FIRST_ROUND = 600.0
"""Seconds for the first round, whose duration is not known yet."""

ALWAYS_LATE = 3
"""Rounds in a row without an answer in time after which a site that is connected counts as always late."""
NO_ANSWER = "no answer within"
"""How the reason begins for leaving out a client that did not answer in time."""

REASON_CLASSES = {
    "late": (NO_ANSWER, "too late"),
    "away": ("connected", "connection", "restarted", "could not be sent"),
    "policy": ("policy",),
    "upload failed": ("its upload failed",),
}
"""Words of the reasons for leaving a client out, by class; all others are ``invalid`` answers."""


@dataclass(frozen=True)
class LeftOut:
    """A client that was left out of a round, of what, why, and its number."""

    round: int
    name: str
    what: str
    reason: str
    client: int | None = None

    @property
    def reason_class(self) -> str:
        """One of few words for the reason, for counting."""
        found = (name for name, signs in REASON_CLASSES.items() if any(sign in self.reason for sign in signs))
        return next(found, "invalid")


@dataclass(frozen=True)
class Remark:
    """What is to be said of a client whose answer counts: in a word (``clipped``, ``claim``), and why."""

    round: int
    name: str
    what: str
    reason: str


@dataclass(frozen=True)
class Participant:
    """A site of a deployment, or a client of a simulated run.

    Args:
        connected: Whether it is connected; None in a simulation.
        seen: When it was last heard of, in seconds since 1970; None if that is not known.
        trouble: Why it may not take part, if it may not.
        last_round: The last round that it took part in.
        rounds: In how many rounds it took part.
        left_out: How often it was left out.
        train: How many training samples it has.
        test: How many test samples it has.
        version: Its version of Fedloom.
        differs: How its versions differ from the server's, if they do; it takes part all the same.
        certificate_days: For how many more days its certificate is valid.
        clipped: How often its change was clipped.
        late: In how many rounds in a row, up to the last one that asked it, it did not answer in time.
    """

    name: str
    connected: bool | None = None
    seen: float | None = None
    trouble: str = ""
    last_round: int | None = None
    rounds: int = 0
    left_out: int = 0
    train: int | None = None
    test: int | None = None
    version: str = ""
    certificate_days: int | None = None
    clipped: int = 0
    late: int = 0
    differs: str = ""

    @property
    def is_always_late(self) -> bool:
        """Whether it is connected and yet none of its last answers came in time: each exchange lasts the deadline."""
        return bool(self.connected) and self.late >= ALWAYS_LATE

    @property
    def connection(self) -> str:
        """Whether a site is there, in words."""
        if self.is_always_late:
            return f"connected, but late in the last {self.late} rounds"
        return "connected" if self.connected else "not connected"


@dataclass(frozen=True)
class Curve:
    """A metric of the records: its name there, its title, its unit, and whether it is a share."""

    name: str
    title: str
    unit: str
    is_share: bool


@dataclass(frozen=True)
class Status:
    """A run or a participant of a deployment at a moment.

    Args:
        kind: A simulated run, a deployment's server, or a site.
        folder: Where it is.
        title: Its method and task, or the site's name.
        phase: How far it is.
        reason: What it waits for, why it ended, or what to do.
        process: The number of the process that works on it; None if there is none.
        round: The last round that has ended; None before the first.
        rounds: How many rounds it has; None at a site.
        records: How many rounds are recorded, from round 0 on.
        metrics: The latest value of every metric.
        curves: Which metrics are drawn.
        bytes_up: Bytes from clients to the server so far.
        bytes_down: Bytes from the server to clients so far.
        began: When it was set up, in seconds since 1970.
        last_record: When the last round ended; None before the first.
        round_seconds: The median length of its rounds.
        patience: For how many seconds without a round it counts as working, at least.
        participants: Its clients or sites; with very many only some.
        clients: How many there are.
        left_out: The answers that were left out.
        left_out_counts: How often each client was left out, by name and class of reasons.
        remarks: What is to be said of answers that count.
        versions: Versions of software that made it.
        certificates: For how many days certificates are valid, by name.
        warnings: What is wrong with certificates, or soon will be.
        authority: The fingerprint of the deployment's authority.
        revoked: Since when sites are revoked, by name.
        serving: Whether the server half of a deployed run is running.
        last_words: What a site's process said last.
        audit: The state of the audit log; empty if there is none.
        notes: What is odd about the folder.
        outcome: How a deployed run ended, as its server half wrote it.
        has_model: Whether a site has its final model.
        in_line: The new runs that wait for the one before them: who asked for each, and when.
    """

    kind: Kind
    folder: str
    title: str
    phase: Phase
    reason: str = ""
    process: int | None = None
    round: int | None = None
    rounds: int | None = None
    records: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Sequence[Curve] = ()
    bytes_up: int = 0
    bytes_down: int = 0
    began: float | None = None
    last_record: float | None = None
    round_seconds: float | None = None
    patience: float = FEWEST_SECONDS
    participants: Sequence[Participant] = ()
    clients: int = 0
    left_out: Sequence[LeftOut] = ()
    left_out_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    certificates: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    authority: str = ""
    revoked: Mapping[str, str] = field(default_factory=dict)
    serving: bool = False
    last_words: str = ""
    audit: str = ""
    notes: Sequence[str] = ()
    outcome: Mapping[str, Any] = field(default_factory=dict)
    has_model: bool = False
    in_line: Sequence[str] = ()

    def stall(self, now: float) -> str:
        """Why a running run seems to hang; empty if it does not."""
        if self.phase != "running":
            return ""
        since = self.last_record or self.began or now
        usual = FIRST_ROUND if self.round_seconds is None else MEDIANS * self.round_seconds
        if now - since <= max(self.patience, usual):
            return ""
        return f"no round ended for {duration(now - since)}; {self.usual_round()}"

    def usual_round(self) -> str:
        """How long a round of this run takes, in words."""
        return "none has ended yet" if self.round_seconds is None else f"they take {duration(self.round_seconds)} each"

    def trouble(self, now: float) -> str:
        """Why somebody should look at this; empty if it advances, waits for its start, or is finished."""
        if self.phase in ("stopped", "failed", "interrupted"):
            return f"{self.phase}: {self.reason}" if self.reason else self.phase
        return self.stall(now) or self._late_sites()

    def _late_sites(self) -> str:
        late = [one.name for one in self.participants if one.is_always_late]
        if self.phase != "running" or not late:
            return ""
        return (
            f"connected, but always late: {', '.join(late)}; each exchange lasts the whole deadline (see the logs of "
            f"{'this site' if len(late) == 1 else 'these sites'}, or raise deadline in deploy.toml)"
        )


def duration(seconds: float) -> str:
    """A length of time for people: ``0.4 s``, ``12 s``, ``3 min``, ``5 h``, ``2 days``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds:.2g} s"
    for size, name, until in ((1, "s", 120), (60, "min", 7200), (3600, "h", 48 * 3600)):
        if seconds < until:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds / 86400:.0f} days"
