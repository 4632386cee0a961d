"""Cells together: means over seeds, what is worst, and what no other setting beats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedloom.audits.of_run.conclude import find_all, protections
from fedloom.audits.of_run.play.cells import Cell, CellResult
from fedloom.audits.of_run.play.defences import CONFIGURED, RunVariant
from fedloom.audits.of_run.probes.poisoning import loss
from fedloom.audits.of_run.probes.probe import AuditProbe, Measure, ProbeOutcome

SETTINGS = [RunVariant(name, {}) for name in (CONFIGURED, "good", "bad", "dear")]
LEAK, RUIN = (
    AuditProbe(name, kind, "", "", "share", "", lambda _: ProbeOutcome({}), lambda found: found["share"].value)
    for name, kind in (("leak", "leak"), ("ruin", "break"))
)


def results(seeds=1):
    """For each setting a score, its megabytes, a leak and a ruin."""
    table = {
        CONFIGURED: (0.9, 1, 0.8, 0.5),
        "good": (0.9, 1, 0.2, 0.5),
        "bad": (0.8, 1, 0.3, 0.6),
        "dear": (0.9, 9, 0.1, 0.5),
    }
    found = {}
    for name, (score, size, leak, ruin) in table.items():
        for seed in range(seeds):
            sent = {"bytes_up": Measure(size * 1e6), "bytes_down": Measure(0), "bytes_between": Measure(0)}
            plain = ProbeOutcome({"score": Measure(score), **sent})
            found[Cell("no attack", name, seed, 2)] = CellResult("measured", outcome=plain, seconds=1 + seed)
            for probe, value in (("leak", leak + 0.1 * seed), ("ruin", ruin)):
                outcome = ProbeOutcome({"share": Measure(value, value - 0.1, value + 0.1)})
                found[Cell(probe, name, seed, 2)] = CellResult("measured", outcome=outcome)
    return found


def test_the_frontier_is_what_nothing_else_beats():
    cells = results()
    found = protections(SETTINGS, find_all([LEAK, RUIN], SETTINGS, cells), cells, higher_is_better=True)
    assert {one.name for one in found if one.on_frontier} == {"good", "dear"}
    first = found[0]
    assert (first.megabytes, first.worst_leak, first.worst_break, first.compared) == (1, 0.8, 0.5, 2)


def test_defences_are_compared_by_attacks_that_all_of_them_had():
    cells = {cell: one for cell, one in results().items() if (cell.probe, cell.setting) != ("leak", "dear")}
    found = protections(SETTINGS, find_all([LEAK, RUIN], SETTINGS, cells), cells, higher_is_better=True)
    assert {one.compared for one in found} == {1}
    assert {one.worst_leak for one in found} == {0.0}


def test_one_seed_has_an_interval_and_several_have_a_spread():
    (first, *_) = find_all([LEAK], SETTINGS, results())
    assert (first.setting, first.number.least, first.number.std) == (CONFIGURED, pytest.approx(0.7), None)
    (first, *_) = find_all([LEAK], SETTINGS, results(seeds=2))
    assert (first.number.value, first.number.least) == (pytest.approx(0.85), None)
    assert first.number.std == pytest.approx(0.1 / 2**0.5)


def test_the_worst_comes_first_and_what_has_no_number_last():
    cells = {**results(), Cell("leak", "bad", 0, 2): CellResult("refused", "it needs images.")}
    found = find_all([RUIN, LEAK], SETTINGS, cells)
    assert [one.probe for one in found] == ["leak"] * 3 + ["ruin"] * 4 + ["leak"]
    assert (found[-1].status, found[-1].reason) == ("refused", "it needs images.")


def test_of_two_attacks_that_are_as_bad_as_can_be_the_one_with_the_larger_number_comes_first():
    settings = SETTINGS[:1]
    probes = [replace(RUIN, name=name, measure="lost", badness=loss) for name in ("a", "b")]
    lost = {"a": 1.66, "b": 3.31}
    cells = {
        Cell(name, CONFIGURED, 0, 2): CellResult("measured", outcome=ProbeOutcome({"lost": Measure(value)}))
        for name, value in lost.items()
    }
    assert [one.probe for one in find_all(probes, settings, cells)] == ["b", "a"]
    assert {one.words for one in find_all(probes, settings, cells, higher_is_better=False)} == {"is added to the error"}
