"""A status in the text format of Prometheus, version 0.0.4: one gauge or counter per fact.

Most of this file chooses the facts. ``_family`` and ``_escape`` write them, twelve lines, where prometheus_client would
be one more thing to install (650 kB), 90 ms of imports and four times the CPU time (4.4 ms for a thousand samples). Its
parser reads what is written here in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from fedloom.watch.plan_status import PlanStatus
from fedloom.watch.status import Phase, Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_PAIRS = 1000
"""Pairs of client and reason that are counted one by one, at most: those with the most answers left out."""

Sample = tuple[Mapping[str, str], float]
"""Labels and a value."""


def prometheus_text(status: Status, now: float) -> str:
    """The exposition of a status at a time (seconds since 1970)."""
    return "".join(line + "\n" for line in _lines(status, now))


def _lines(status: Status, now: float) -> Iterator[str]:
    versions = {"fedloom": "", "torch": ""} | dict(status.versions)
    about = {"kind": status.kind, "title": status.title, **versions}
    yield from _family("fedloom_info", "gauge", "What is watched.", [(about, 1)])
    healthy = float(not status.trouble(now))
    yield from _family(
        "fedloom_healthy", "gauge", "1 while it advances, waits or is finished, else 0.", [({}, healthy)]
    )
    phases: list[Sample] = [({"phase": phase}, float(phase == status.phase)) for phase in get_args(Phase)]
    yield from _family("fedloom_phase", "gauge", "1 for the phase that it is in.", phases)
    yield from _number("fedloom_round", "The last round that has ended.", status.round)
    yield from _number("fedloom_rounds_total", "How many rounds the run has.", status.rounds)
    yield from _number("fedloom_round_seconds", "Median length of its last rounds.", status.round_seconds)
    last = None if status.last_record is None else max(0.0, now - status.last_record)
    yield from _number("fedloom_seconds_since_last_record", "Seconds since the last round ended.", last)
    yield from _scores(status)
    if status.kind != "site":
        traffic: list[Sample] = [({"direction": "up"}, status.bytes_up), ({"direction": "down"}, status.bytes_down)]
        yield from _family("fedloom_bytes_total", "counter", "Bytes from clients (up) and to clients (down).", traffic)
    yield from _sites(status, now)
    worst = sorted(status.left_out_counts.items(), key=lambda pair: -pair[1])[:MOST_PAIRS]
    counts: list[Sample] = [({"site": name, "reason": reason}, count) for (name, reason), count in worst]
    yield from _family("fedloom_left_out_total", "counter", "Answers that were left out, by site and reason.", counts)
    clipped: list[Sample] = [({"site": one.name}, one.clipped) for one in status.participants if one.clipped]
    yield from _family("fedloom_clipped_total", "counter", "Changes that counted with the usual size.", clipped)
    days: list[Sample] = [({"name": name}, left) for name, left in status.certificates.items()]
    yield from _family("fedloom_certificate_days", "gauge", "Days for which a certificate is still valid.", days)


def plan_text(status: PlanStatus, now: float) -> str:
    """The exposition of a plan at a time (seconds since 1970)."""
    return "".join(line + "\n" for line in _plan_lines(status, now))


def _plan_lines(status: PlanStatus, now: float) -> Iterator[str]:
    about = {"kind": status.kind, "title": status.title}
    yield from _family("fedloom_info", "gauge", "What is watched.", [(about, 1)])
    yield from _number("fedloom_healthy", "1 while it advances or is finished, else 0.", not status.trouble(now))
    phases: list[Sample] = [({"phase": phase}, float(phase == status.phase(now))) for phase in get_args(Phase)]
    yield from _family("fedloom_phase", "gauge", "1 for the phase that it is in.", phases)
    runs: list[Sample] = [({"phase": phase}, status.counts[phase]) for phase in get_args(Phase)]
    yield from _family("fedloom_runs", "gauge", "How many runs of the plan are in a phase.", runs)
    yield from _number("fedloom_seconds_left", "About how long it will take.", status.seconds_left(now))


def _scores(status: Status) -> Iterator[str]:
    """The drawn metrics: ``client_model/own_test/accuracy/mean`` has the role ``client_model/own_test``."""
    scores: list[Sample] = []
    losses: list[Sample] = []
    for curve in status.curves:
        if curve.name in status.metrics:
            model, data, metric, *over = curve.name.split("/")
            labels = {"role": f"{model}/{data}", "over": over[0] if over else ""}
            value = status.metrics[curve.name]
            if metric == "loss":
                losses.append((labels, value))
            else:
                scores.append(({**labels, "metric": metric}, value))
    yield from _family("fedloom_score", "gauge", "The latest score, by the role of model and data.", scores)
    yield from _family("fedloom_loss", "gauge", "The latest loss, by the role of model and data.", losses)


def _sites(status: Status, now: float) -> Iterator[str]:
    if status.kind != "server":
        return
    sites = status.participants
    yield from _number("fedloom_runs_in_line", "New runs that wait for the one before them.", len(status.in_line))
    yield from _number("fedloom_sites", "How many sites the deployment has.", len(sites))
    yield from _number("fedloom_sites_connected", "How many are connected.", sum(bool(one.connected) for one in sites))
    there: list[Sample] = [({"site": one.name}, float(bool(one.connected))) for one in sites]
    yield from _family("fedloom_site_connected", "gauge", "Whether a site is connected.", there)
    seen: list[Sample] = [({"site": one.name}, max(0.0, now - one.seen)) for one in sites if one.seen is not None]
    late: list[Sample] = [({"site": one.name}, one.late) for one in sites]
    yield from _family("fedloom_site_late_rounds", "gauge", "Rounds in a row that a site answered too late.", late)
    yield from _family("fedloom_site_seconds_since_seen", "gauge", "Seconds since a site was last heard of.", seen)


def _number(name: str, about: str, value: float | None) -> Iterator[str]:
    return _family(name, "gauge", about, [] if value is None else [({}, value)])


def _family(name: str, kind: str, about: str, samples: list[Sample]) -> Iterator[str]:
    """A metric with its help, its type and its samples; nothing if it has none."""
    if not samples:
        return
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {float(value)!r}" if inside else f"{name} {float(value)!r}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
