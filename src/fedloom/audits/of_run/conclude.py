"""What the cells of an audit say together: of each attack over its seeds, and of each defence over the attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev

from fedloom.audits.of_run.play.cells import Cell, CellResult
from fedloom.audits.of_run.play.defences import CONFIGURED, RunVariant
from fedloom.audits.of_run.probes.all_probes import PLAIN
from fedloom.audits.of_run.probes.probe import AuditProbe, Measure
from fedloom.audits.of_run.result import Finding, Number, ProtectedRun

ADDED = "is added to the error"


def find_all(
    probes: Sequence[AuditProbe],
    settings: Sequence[RunVariant],
    results: Mapping[Cell, CellResult],
    higher_is_better: bool = True,
) -> tuple[Finding, ...]:
    """What each attack got with each setting, the worst first.

    Args:
        probes: The attacks.
        results: What the cells found.
        higher_is_better: Whether more of the score is better; of an error nothing can be lost.
    """
    found = [
        _finding(
            probe,
            setting,
            [r for cell, r in results.items() if (cell.probe, cell.setting) == (probe.name, setting.name)],
        )
        for probe in probes
        for setting in settings
        if setting.values is not None
    ]
    if not higher_is_better:
        found = [replace(one, words=ADDED) if one.measure == "lost" else one for one in found]
    worst = {probe.name: max(one.badness for one in found if one.probe == probe.name) for probe in probes}
    return tuple(
        sorted(
            found,
            key=lambda one: (
                not one.measured,
                *(-number for number in _first(found, one.probe)),
                -worst[one.probe],
                one.probe,
            ),
        )
    )


def _first(found: Sequence[Finding], probe: str) -> tuple[float, float]:
    """The badness of an attack in the run as configured; its number as well, since badness ends at 1."""
    as_configured = (one for one in found if one.probe == probe and one.setting == CONFIGURED and one.measured)
    return next(((one.badness, one.number.value) for one in as_configured), (0.0, 0.0))


def _finding(probe: AuditProbe, setting: RunVariant, results: Sequence[CellResult]) -> Finding:
    """What the seeds of one attack and setting say together."""
    outcomes = [one.outcome for one in results if one.outcome is not None]
    unplayed = results[0] if results else CellResult("refused", "there was no time for it")
    found = Finding(
        probe=probe.name,
        kind=probe.kind,
        who=probe.who,
        what=probe.what,
        setting=setting.name,
        status=unplayed.status if results else "no time",
        reason=unplayed.reason,
        measure=probe.measure,
        words=probe.words,
        unit=probe.unit,
    )
    if not outcomes:
        return found
    first = outcomes[0]
    numbers = {
        name: _number([one.measures[name] for one in outcomes if name in one.measures]) for name in first.measures
    }
    return replace(
        found,
        status="measured",
        reason="",
        numbers=numbers,
        seeds=len(outcomes),
        badness=probe.badness({name: Measure(one.value) for name, one in numbers.items()}),
        note=first.note,
        samples=first.samples,
        samples_range=first.samples_range,
    )


def _number(some: Sequence[Measure]) -> Number:
    if len(some) == 1:
        return Number(some[0].value, None, some[0].least, some[0].most)
    values = [one.value for one in some]
    return Number(mean(values), stdev(values))


def protections(
    settings: Sequence[RunVariant],
    findings: Sequence[Finding],
    results: Mapping[Cell, CellResult],
    higher_is_better: bool,
) -> tuple[ProtectedRun, ...]:
    """What each setting costs and lets through, and which no other one beats.

    Args:
        findings: What attacks got.
        results: What the cells found.
        higher_is_better: Whether more of the score is better.
    """
    made = [
        _protection(one, [r for c, r in results.items() if (c.probe, c.setting) == (PLAIN.name, one.name)])
        for one in settings
    ]
    played = [one.name for one in made if one.score is not None]
    known = [{one.probe: one for one in findings if one.setting == name and one.measured} for name in played]
    common = set[str]().intersection(*known) if not known else set(known[0]).intersection(*known[1:])
    worst = {name: _worst(one, common) for name, one in zip(played, known, strict=True)}
    made = [
        replace(one, compared=len(common), worst_leak=worst[one.name]["leak"], worst_break=worst[one.name]["break"])
        if one.name in worst
        else one
        for one in made
    ]
    sign = 1.0 if higher_is_better else -1.0
    points = {
        one.name: (sign * one.score.value, -one.megabytes, -one.worst_leak, -one.worst_break)
        for one in made
        if one.score is not None
    }
    return tuple(replace(one, on_frontier=one.name in points and not _beaten(one.name, points)) for one in made)


def _protection(setting: RunVariant, results: Sequence[CellResult]) -> ProtectedRun:
    outcomes = [one.outcome for one in results if one.outcome is not None]
    if not outcomes:
        reason = setting.refused or (results[0].reason if results else "there was no time for it")
        return ProtectedRun(setting.name, setting.protects, reason)
    sent = [sum(one.measures[way].value for way in ("bytes_up", "bytes_down", "bytes_between")) for one in outcomes]
    guesses = [one.measures["guess"] for one in outcomes if "guess" in one.measures]
    epsilons = [one.measures["epsilon"].value for one in outcomes if "epsilon" in one.measures]
    return ProtectedRun(
        setting.name,
        setting.protects,
        score=_number([one.measures["score"] for one in outcomes]),
        guess=_number(guesses) if len(guesses) == len(outcomes) else None,
        megabytes=mean(sent) / 1e6,
        seconds=min(one.seconds for one in results),
        epsilon=max(epsilons) if epsilons else None,
    )


def _worst(found: Mapping[str, Finding], common: set[str]) -> dict[str, float]:
    """The worst leak and the worst ruin among the attacks that all settings were compared with."""
    return {
        kind: max((found[name].badness for name in common if found[name].kind == kind), default=0.0)
        for kind in ("leak", "break")
    }


def _beaten(name: str, points: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether another setting is at least as good in all, and better in one."""
    mine = points[name]
    return any(
        other != name and all(a >= b for a, b in zip(theirs, mine, strict=True)) and theirs != mine
        for other, theirs in points.items()
    )
