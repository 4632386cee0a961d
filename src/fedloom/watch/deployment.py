"""What only a deployment knows: its programs, which sites are connected, certificates, the audit log, the outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import AUDIT, AuditTrail, read_audit
from fedloom.deploy.flower.control import SuperLinkControl
from fedloom.deploy.flower.local_socket import connection_errors
from fedloom.deploy.members import member_keys, revoked_sites
from fedloom.deploy.operate.commands import SITE_STATES
from fedloom.deploy.operate.play_run import is_serving
from fedloom.deploy.operate.reception import visit_notes
from fedloom.deploy.operate.run_queue import RunQueue
from fedloom.deploy.operate.supervise import pid_file
from fedloom.deploy.participant_folder import OUTCOME, RUN, STATUS, read_json
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.provision.certificates import days_left, expiry_warnings
from fedloom.deploy.provision.signature import fingerprint
from fedloom.deploy.settings import ServerSettings
from fedloom.watch.log_tail import tail_lines

SITES_EVERY, CERTIFICATES_EVERY = 3.0, 60.0
"""Seconds for which the list of connected sites, and the days of certificates, are believed."""


@dataclass(frozen=True)
class ServerFacts:
    """The programs of a server and their sites at a moment.

    Args:
        process: The server's process; None if it is not running.
        serving: Whether the server half of the run is running.
        waiting: What it waits for.
        outcome: How the run ended; empty if it has not.
        seen: When each site was last heard of, by name; only sites that ever connected.
        online: The sites that are connected.
    """

    process: int | None = None
    serving: bool = False
    waiting: str = ""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, float] = field(default_factory=dict)
    online: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Certificates:
    """The days for which certificates are valid, by name; warnings; and the authority's fingerprint."""

    days: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    authority: str = ""


class DeploymentFolder:
    """Reads a participant's folder; what changes slowly or costs a call is kept for a few seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._asked, self._known = -SITES_EVERY, ServerFacts()
        self._certificates_read, self._certificates = -CERTIFICATES_EVERY, Certificates()
        self._audit_stamp: tuple[int, int] | None = None
        self._audit = AuditTrail([], "", "")

    def process(self) -> int | None:
        """The process that keeps this participant's programs running; None if there is none."""
        return pid_file(self.folder).process()

    def server(self, settings: ServerSettings) -> ServerFacts:
        """The facts of a server; the SuperLink is asked for its nodes every few seconds."""
        run = self.folder / RUN
        if time.monotonic() - self._asked > SITES_EVERY:
            self._known = self._connections(settings)
            self._asked = time.monotonic()
        known, process = self._known, self.process()
        outcome = read_json(run / OUTCOME)
        waiting = read_json(run / STATUS).get("waiting", "")
        return ServerFacts(
            process=None if known.process is None else process,
            serving=is_serving(run),
            waiting=printable_line(waiting, 300) if isinstance(waiting, str) else "",
            outcome=outcome if isinstance(outcome, dict) else {},
            seen=known.seen,
            online=known.online if process is not None else frozenset(),
        )

    def _connections(self, settings: ServerSettings) -> ServerFacts:
        process = self.process()
        if process is None:
            return ServerFacts()
        names = settings.everyone
        keys = {key: names[client] for key, client in member_keys(self.folder, settings).items()}
        try:
            nodes = [node for node in SuperLinkControl(self.folder).nodes() if node.key in keys]
        except connection_errors():
            return ServerFacts()
        return ServerFacts(
            process=process,
            seen={keys[node.key]: node.seen for node in nodes if node.seen},
            online=frozenset(keys[node.key] for node in nodes if node.online),
        )

    def certificates(self) -> Certificates:
        """How long a participant's certificates are valid, warnings, and its authority's fingerprint."""
        if time.monotonic() - self._certificates_read > CERTIFICATES_EVERY:
            self._certificates_read = time.monotonic()
            try:
                warnings = tuple(expiry_warnings(self.folder).values())
                self._certificates = Certificates(days_left(self.folder), warnings, fingerprint(self.folder))
            except FedloomError as why:  # a file is missing or damaged
                self._certificates = Certificates(warnings=(str(why),))
        return self._certificates

    def audit(self) -> AuditTrail:
        """The audit log; read again when it has changed."""
        try:
            found = (self.folder / AUDIT).lstat()
        except OSError:
            return AuditTrail([], "", "")
        stamp = found.st_size, found.st_mtime_ns
        if stamp != self._audit_stamp:
            self._audit, self._audit_stamp = read_audit(self.folder), stamp
        return self._audit

    def troubles(self, settings: ServerSettings) -> dict[str, str]:
        """Why sites may not take part, by name: revoked, or refused when they connected last; or a clock is off."""
        refused = {
            name: str(entry.get("reason", "refused"))
            for name, entry in self.sites_in_audit().items()
            if entry.get("what") == "site refused"
        }
        notes = {name: note for name, note in visit_notes(self.folder).items() if name in settings.everyone}
        return refused | notes | {name: f"revoked at {since}" for name, since in self.revoked(settings).items()}

    def in_line(self) -> list[str]:
        """The new runs that wait for the one before them: who asked for each, and when."""
        return [printable_line(f"{one.who}, since {one.time}", 100) for one in RunQueue(self.folder).waiting()]

    def revoked(self, settings: ServerSettings) -> dict[str, str]:
        """Since when sites are revoked, by name."""
        return revoked_sites(self.folder, settings)

    def last_words(self) -> str:
        """What a site's process said last."""
        last = tail_lines(self.folder / "logs" / "site.log")[-1:]
        return SITE_STATES.get(last[0], last[0]) if last else ""

    def sites_in_audit(self) -> dict[str, dict[str, Any]]:
        """The last word on each site in the audit log: connected with its sizes and version, or refused."""
        return {
            str(entry["site"]): entry
            for entry in self.audit().entries
            if "site" in entry and entry.get("what") in ("site connected", "site refused")
        }
