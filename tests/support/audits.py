"""Small audits: a run of two rounds, a few probes, and a clock that moves by what is asked of it."""

from __future__ import annotations

from fedloom.audits.of_run import run_audit as module
from fedloom.audits.of_run.play import schedule, subject
from fedloom.audits.of_run.probes.all_probes import PROBES
from fedloom.audits.of_run.run_audit import run_audit
from fedloom.rounds.loop import play_round

TINY = {"rounds": 2, "task": {"name": "digits", "clients": 4}, "method": {"name": "fedavg"}}
FEW = ("linearleak", "trapweights", "labelflipping")


class Clock:
    """Time that somebody else lets pass; it stands still by itself."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def clock_of_rounds(monkeypatch, seconds=1.0):
    """A clock by which every round of every run takes so long."""
    clock = Clock()

    def play(*given, **named):
        clock.now += seconds
        return play_round(*given, **named)

    monkeypatch.setattr(subject, "play_round", play)
    return clock


def few_probes(monkeypatch, names=FEW, seeds=1):
    """Let audits play these probes only, with so many seeds."""
    monkeypatch.setattr(module, "all_probes", lambda: tuple(one for one in PROBES if one.name in names))
    monkeypatch.setattr(schedule, "SEEDS", seeds)


def small_audit(values=TINY, minutes=10.0, defences=(), out=None, clock=None, **more):
    """An audit of a small run."""
    return run_audit(values, minutes, list(defences), out, clock=clock or Clock(), **more)


def numbers(found):
    """What an audit measured, without how long it took."""
    plain = found.as_dict()
    for one in plain["protections"]:
        del one["seconds"]
    return plain
