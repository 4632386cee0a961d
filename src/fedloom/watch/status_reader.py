"""The one reading of a folder that all views share: :meth:`StatusReader.read` makes a :class:`Status` of it.

It works for the folder of a run, for a deployment's server and for a site. A reader remembers how far it has read, so
that a long run costs no more to watch than a short one; several threads may use it at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.config.method_spec import run_label
from fedloom.config.task_title import task_title
from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import RUN, SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.settings import ServerSettings, load_server, load_site
from fedloom.registry.validation import read_toml
from fedloom.reports.explore_data import score_titles
from fedloom.rounds.score import ACCURACY, scores_of
from fedloom.runs.folder.folder_lock import lock_holder
from fedloom.runs.folder.manifest import manifest_paths, newest_manifest, refuse_strange_files
from fedloom.runs.folder.metrics_file import FINISHED, METRICS
from fedloom.runs.folder.run_files import read_partition
from fedloom.watch.log_tail import log_tails
from fedloom.watch.run_records import RunRecords
from fedloom.watch.status import Curve, Kind, Participant, Phase, Status

if TYPE_CHECKING:
    from fedloom.deploy.audit_log import AuditTrail
    from fedloom.watch.deployment import DeploymentFolder, ServerFacts

INTERVAL = 0.5
"""Seconds for which a reading is believed."""
MOST_CLIENTS = 200
"""Participants of a status, at most: those that were left out most often, then by number."""


class StatusReader:
    """Reads a folder again and again.

    Args:
        folder: The folder of a run, or of a participant of a deployment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kind = folder, _kind(folder)
        self.run = folder / RUN if self.kind == "server" else folder
        self.deployment = None if self.kind == "run" else _deployment(folder)
        self.lock = threading.RLock()
        self._config: dict[str, Any] = {}
        self._config_stamp: tuple[Path, int] | None = None
        self._names: list[str] = []
        self._sizes: list[int] = []
        self._oddities: list[str] = []
        self._read_at, self._status = float("-inf"), Status(self.kind, str(folder), folder.name, "waiting")
        self._configs = 0
        self.records = RunRecords(self.run, ())

    @property
    def generation(self) -> str:
        """Changes when what was read of the records before does not count any more."""
        return f"{self._configs}.{self.records.tail.rewritten}"

    def read(self) -> Status:
        """The state of the folder now, or at most half a second ago."""
        with self.lock:
            if time.monotonic() - self._read_at > INTERVAL:
                first, self._read_at = self._read_at < 0, time.monotonic()
                try:
                    site = self.deployment if self.kind == "site" else None
                    self._status = self._site_status(site) if site else self._run_status()
                except (FedloomError, OSError) as why:  # for instance settings that are being edited
                    if first:
                        raise
                    self._status = replace(self._status, notes=[printable_line(str(why), 300)])
            return self._status

    def logs(self) -> dict[str, list[str]]:
        """The ends of the logs of a participant; a simulated run has none."""
        return {} if self.kind == "run" else log_tails(self.folder)

    # -- a run, simulated or deployed

    def _run_status(self) -> Status:
        self._read_config()
        records, config = self.records, self._config
        records.read()
        settings = load_server(self.folder) if self.kind == "server" else None
        deployment = self.deployment if settings else None
        facts = deployment.server(settings) if deployment and settings else None
        rounds = config.get("rounds")
        rounds = rounds if isinstance(rounds, int) else None
        last = records.rounds[-1] if records.rounds else None
        phase, reason, process = self._server_phase(facts, last) if facts else self._simulated_phase(last, rounds)
        sites = self._sites(deployment, settings, facts) if deployment and settings and facts else None
        participants = self._clients() if sites is None else sites
        return Status(
            kind=self.kind,
            folder=str(self.folder),
            title=_title(config, self.folder),
            phase=phase,
            reason=reason,
            process=process,
            round=last,
            rounds=rounds,
            records=len(records.rounds),
            metrics=dict(records.latest),
            curves=_curves(config),
            bytes_up=sum(records.up),
            bytes_down=sum(records.down),
            began=_change_time(self.run / "config.toml"),
            last_record=_change_time(self.run / METRICS) if records.rounds else None,
            round_seconds=records.round_seconds,
            patience=settings.deadline + settings.join_timeout if settings else Status.patience,
            participants=_worst_first(participants),
            clients=len(participants),
            left_out=list(records.left_out),
            left_out_counts=dict(records.left_out_counts),
            remarks=list(records.remarks),
            versions=_versions(config),
            **_certificate_facts(deployment),
            revoked=deployment.revoked(settings) if deployment and settings else {},
            serving=facts.serving if facts else False,
            audit=_audit_words(deployment.audit()) if deployment else "",
            notes=[*self._oddities, *_damaged_lines(records.tail.damaged)],
            outcome=facts.outcome if facts else {},
            in_line=deployment.in_line() if deployment else [],
        )

    def _read_config(self) -> None:
        """Read the settings and the partition of the run, if they are new."""
        path = self.run / "config.toml"
        if self.kind == "server" and not path.is_file():
            path = self.folder / "config.toml"
        try:
            stamp = path, path.stat().st_mtime_ns
        except OSError:
            return
        if stamp == self._config_stamp:
            return
        refuse_strange_files(self.run)
        self._config, self._config_stamp, self._configs = read_toml(path), stamp, self._configs + 1
        self.records = RunRecords(self.run, [curve.name for curve in _curves(self._config)])
        self._names, self._sizes, self._oddities = _partition(self.run)

    def _simulated_phase(self, last: int | None, rounds: int | None) -> tuple[Phase, str, int | None]:
        holder = lock_holder(self.folder)
        process = None if holder is None else int(holder["process"])
        if self.records.stopped and holder is None:
            return "stopped", self.records.stopped, None
        ended = (self.run / FINISHED[0]).is_file()
        if ended and (holder is None or (last is not None and rounds is not None and last >= rounds)):
            return "finished", "", process
        if holder is not None:
            return ("running" if last is not None else "waiting"), "", process
        return "interrupted", f"no process runs it: fedloom resume {self.folder} continues it.", None

    def _server_phase(self, facts: ServerFacts, last: int | None) -> tuple[Phase, str, int | None]:
        error = facts.outcome.get("error")
        if error:
            return "failed", printable_line(str(error), 600), facts.process
        if facts.outcome:
            stopped = facts.outcome.get("stopped")
            return (
                ("stopped", printable_line(str(stopped), 600), facts.process)
                if stopped
                else ("finished", "", facts.process)
            )
        if facts.process is None:
            return "interrupted", f"the server is not running: fedloom deploy server {self.folder} starts it.", None
        if facts.serving:
            return ("waiting" if last is None or facts.waiting else "running"), facts.waiting, facts.process
        if last is None:
            return "waiting", f"the run has not begun: fedloom deploy run {self.folder} starts it.", facts.process
        return "interrupted", f"the run is not running: fedloom deploy run {self.folder} continues it.", facts.process

    def _clients(self) -> list[Participant]:
        records = self.records
        left_out: dict[str, int] = {}
        for (name, _), count in records.left_out_counts.items():
            left_out[name] = left_out.get(name, 0) + count
        names = self._names or [str(client) for client in sorted(records.rounds_of)]
        return [
            Participant(
                name=name,
                last_round=records.last_round_of.get(client),
                rounds=records.rounds_of.get(client, 0),
                left_out=left_out.get(name, left_out.get(str(client), 0)),
                clipped=records.clipped[name],
                train=self._sizes[client] if client < len(self._sizes) else None,
            )
            for client, name in (
                enumerate(names) if self._names else zip(sorted(records.rounds_of), names, strict=True)
            )
        ]

    def _sites(self, deployment: DeploymentFolder, settings: ServerSettings, facts: ServerFacts) -> list[Participant]:
        records, days, words = self.records, deployment.certificates().days, deployment.sites_in_audit()
        troubles, found = deployment.troubles(settings), []
        for client, name in enumerate(settings.everyone):
            entry = words.get(name, {})
            found.append(
                Participant(
                    name=name,
                    connected=name in facts.online,
                    seen=facts.seen.get(name),
                    trouble=printable_line(troubles.get(name, ""), 300),
                    last_round=records.last_round_of.get(client),
                    rounds=records.rounds_of.get(client, 0),
                    left_out=sum(n for (whose, _), n in records.left_out_counts.items() if whose == name),
                    clipped=records.clipped[name],
                    late=records.late_rounds[client],
                    train=_count(entry.get("train")),
                    test=_count(entry.get("test")),
                    version=str(entry.get("version", "")),
                    differs=printable_line(str(entry.get("differs", "")), 300),
                    certificate_days=days.get(name),
                )
            )
        return found

    # -- a site

    def _site_status(self, deployment: DeploymentFolder) -> Status:
        self._read_config()
        name, process, said = load_site(self.folder).name, deployment.process(), deployment.last_words()
        return Status(
            kind="site",
            folder=str(self.folder),
            title=f"Site {name}",
            phase="interrupted" if process is None else "running" if said else "waiting",
            reason=said or ("" if process else f"it is not running: fedloom deploy client {self.folder} starts it."),
            process=process,
            last_record=_change_time(self.folder / "logs" / "site.log"),
            versions=_versions(self._config),
            **_certificate_facts(deployment),
            audit=_audit_words(deployment.audit()),
            last_words=said,
            has_model=(self.folder / "model").exists(),
        )


def _deployment(folder: Path) -> DeploymentFolder:
    from fedloom.watch.deployment import DeploymentFolder  # it needs the extra packages of deployments

    return DeploymentFolder(folder)


def _kind(folder: Path) -> Kind:
    if (folder / SERVER_FILE).is_file():
        return "server"
    if (folder / SITE_FILE).is_file():
        return "site"
    if (folder / "config.toml").is_file():
        return "run"
    if not folder.is_dir():
        raise FedloomError(f"there is no folder {folder}: name the folder of a run, or deploy/server of a deployment.")
    inside = sorted(path.parent.name for path in folder.glob("*/config.toml"))
    which = (
        f"; it contains runs, name one of them: {', '.join(inside[:4])}" if inside else ": it has no config.toml yet"
    )
    raise FedloomError(
        f"{folder} is neither the folder of a run, nor of a plan (a comparison, sweep, advice or audit), nor of a "
        f"participant of a deployment{which}."
    )


def _title(config: Mapping[str, Any], folder: Path) -> str:
    try:
        name = f"{run_label(config)} on {task_title({'task': config['task']})}"
    except (KeyError, TypeError, AttributeError):
        name = folder.resolve().name
    return printable_line(name, 120)


def _curves(config: Mapping[str, Any]) -> list[Curve]:
    try:
        scores = scores_of(config) or [ACCURACY]
    except (TypeError, AttributeError):
        scores = [ACCURACY]
    return [
        Curve(name, printable_line(title, 120), unit, share)
        for name, (title, unit, share) in score_titles(scores).items()
    ]


def _damaged_lines(count: int) -> list[str]:
    return [f"{count} lines of {METRICS} are not records."] if count else []


def _versions(config: Mapping[str, Any]) -> dict[str, str]:
    made_by = config.get("made_by")
    known = made_by if isinstance(made_by, Mapping) else {}
    return {name: printable_line(str(known[name]), 40) for name in ("fedloom", "torch") if name in known}


def _partition(run: Path) -> tuple[list[str], list[int], list[str]]:
    """The clients' names and numbers of training samples, as far as the run has stored them, and what is odd there."""
    try:
        table = read_partition(run, newest_manifest(run) if manifest_paths(run) else None)
    except FedloomError as damage:
        return [], [], [printable_line(str(damage), 300)]
    except (OSError, ValueError):  # one of an old version that cannot be read
        return [], [], []
    try:
        names = [printable_line(str(name), 80) for name in table.get("client_names", [])]
        return names, [sum(map(int, counts)) for counts in table.get("counts", [])], []
    except (TypeError, ValueError, AttributeError):
        return [], [], []


def _worst_first(participants: list[Participant]) -> list[Participant]:
    return (
        sorted(participants, key=lambda one: -one.left_out)[:MOST_CLIENTS]
        if len(participants) > MOST_CLIENTS
        else participants
    )


def _certificate_facts(deployment: DeploymentFolder | None) -> dict[str, Any]:
    if deployment is None:
        return {}
    found = deployment.certificates()
    return {"certificates": found.days, "warnings": found.warnings, "authority": found.authority}


def _audit_words(trail: AuditTrail) -> str:
    if trail.problem:
        return f"broken: {trail.problem}"
    return f"{len(trail.entries)} entries, the chain is whole" if trail.entries else "none"


def _change_time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
