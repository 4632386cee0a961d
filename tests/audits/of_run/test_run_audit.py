"""An audit of a small run: its numbers do not depend on time, its time does not depend on luck, nothing is dropped."""

from __future__ import annotations

import json

import pytest

import fedloom as fl
from fedloom.audits.of_run.play import schedule
from fedloom.audits.of_run.run_audit import DATA, PAGE, run_audit
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import ATTACKS
from support.audits import TINY, Clock, clock_of_rounds, few_probes, numbers, small_audit
from support.small_tables import write_patients

DEFENCES = ("aggregation=median", "channel=securesum")


def test_an_audit_that_was_stopped_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    few_probes(monkeypatch, names=("linearleak", "labelflipping"), seeds=2)
    whole = small_audit(defences=DEFENCES, out=tmp_path / "whole")
    played = []

    def stop(move):
        played.append(move.cell)
        if len(played) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_audit(defences=DEFENCES, out=tmp_path / "stopped", watch=stop)
    again = []
    resumed = small_audit(defences=DEFENCES, out=tmp_path / "stopped", watch=lambda move: again.append(move.cell))
    assert numbers(resumed) == numbers(whole)
    assert not set(played[:4]) & set(again), "what was done is not played again"
    assert {one.seeds for one in whole.findings if one.measured} == {2}
    more = numbers(small_audit(defences=DEFENCES[:1], out=tmp_path / "stopped", minutes=20))
    known = {(one["probe"], one["setting"]): one["numbers"] for one in numbers(whole)["findings"]}
    assert all(known[one["probe"], one["setting"]] == one["numbers"] for one in more["findings"])


@pytest.mark.parametrize("minutes", [0.3, 0.6, 2.0])
def test_an_audit_ends_within_its_minutes_and_only_leaves_out_what_had_no_time(monkeypatch, minutes):
    few_probes(monkeypatch, seeds=2)
    clock = clock_of_rounds(monkeypatch)
    found = small_audit(defences=DEFENCES, minutes=minutes, clock=clock)
    assert clock.now <= 60 * minutes
    assert all(one.measured or one.reason == "there was no time for it" for one in found.findings)
    assert any(one.measured for one in found.findings)
    seeds = {(one.probe, one.seeds) for one in found.findings if one.measured}
    assert len(dict(seeds)) == len(seeds), "a probe has as many seeds with every setting"
    assert max(dict(seeds).values()) == (1 if minutes < 0.5 else 2)
    assert any(one.status == "no time" for one in found.findings) == (minutes < 0.5)


def test_numbers_do_not_depend_on_the_budget(monkeypatch):
    few_probes(monkeypatch, names=("linearleak", "labelflipping"))
    clocks = clock_of_rounds(monkeypatch), None
    little, much = (small_audit(defences=DEFENCES, minutes=m, clock=c) for m, c in zip((0.25, 20), clocks, strict=True))
    assert little.rounds_played == much.rounds_played == 2
    measured = [one for one in little.findings if one.measured]
    assert 0 < len(measured) < len(much.findings)
    for one in measured:
        assert one.numbers == much.find(one.probe, one.setting).numbers


def test_a_run_without_time_for_one_attack_is_refused(monkeypatch):
    few_probes(monkeypatch)
    with pytest.raises(FedloomError, match="give more minutes"):
        small_audit(minutes=0.05, clock=clock_of_rounds(monkeypatch))


@pytest.mark.slow
def test_every_registered_attack_is_played_or_listed_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "SEEDS", 1)
    table = {"name": "own", "path": str(write_patients(tmp_path / "t.csv")), "target": "outcome"}
    found = small_audit({**TINY, "task": {**table, "client_column": "hospital", "model": "mlp"}})
    played = {one.probe: one for one in found.of()}
    assert set(ATTACKS) <= played.keys()
    assert all(one.measured or one.reason for one in found.findings)
    assert not [one.reason for one in found.findings if one.status == "broke"]
    assert "images" in played["backdoor"].reason
    assert "images" in played["gradientinversion"].reason
    assert played["linearleak"].measured
    assert played["labelflipping"].measured
    assert "no epsilon" in played["canary"].reason


def test_a_sum_leaks_like_a_sum_and_says_so(monkeypatch):
    few_probes(monkeypatch)
    found = small_audit(defences=["channel=securesum"])
    alone, summed = found.find("trapweights"), found.find("trapweights", "channel=securesum")
    assert alone.number.value > 2 * summed.number.value
    assert "cannot say whose" in summed.note
    assert "cannot say whose" not in alone.note


def test_python_has_the_same_audit_as_the_command_line(tmp_path, monkeypatch):
    few_probes(monkeypatch, names=("linearleak",))
    found = fl.audit(fl.task("digits", clients=4), rounds=2, minutes=10, defences=[], out=tmp_path / "a")
    assert isinstance(found, fl.Audit)
    assert numbers(found)["findings"] == numbers(small_audit())["findings"]
    written = json.loads((tmp_path / "a" / DATA).read_text())
    assert written == json.loads(json.dumps(found.as_dict()))
    assert {"format", "assessment", "limits", "protections", "findings", "config"} <= written.keys()
    assert "Audit of fedavg on digits" in (tmp_path / "a" / PAGE).read_text()
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0, "it holds samples"


def test_a_method_object_is_audited_as_its_spec_is(monkeypatch):
    few_probes(monkeypatch, names=("labelflipping",))
    task = fl.task("digits", clients=4)
    by_object, by_name = (
        fl.audit(task, one, rounds=2, minutes=10, defences=[]) for one in (fl.FedProx(mu=0.5), "fedprox:mu=0.5")
    )
    assert by_object.findings == by_name.findings


@pytest.mark.parametrize(
    ("values", "more", "says"),
    [
        ({"adversary": "alie"}, {}, "adversary of its own"),
        ({}, {"minutes": 0.0}, "minutes=0: it must be a number above 0"),
        ({}, {"minutes": float("nan")}, "it must be a number above 0"),
        ({}, {"defences": ["median"]}, "defence median: write it as --set takes it"),
        ({}, {"defences": ["aggregation=krumm"]}, "unknown aggregator 'krumm'"),
        ({}, {"defences": ["rounds=3"]}, "rounds is no defence"),
        ({}, {"defences": ["aggregation=fltrust"]}, "defence aggregation=fltrust: fltrust trains on clean samples"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_a_sentence(values, more, says):
    with pytest.raises(FedloomError, match=says):
        small_audit({**TINY, **values}, **more)


def test_another_run_in_the_same_folder_is_refused(tmp_path, monkeypatch):
    few_probes(monkeypatch, names=("linearleak",))
    small_audit(out=tmp_path / "a")
    with pytest.raises(FedloomError, match="contains another audit"):
        small_audit({**TINY, "rounds": 3}, out=tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("Dear")
    with pytest.raises(FedloomError, match="contains something else"):
        small_audit(out=tmp_path / "b")
    (tmp_path / "c").write_text("a file")
    with pytest.raises(FedloomError, match="name another folder"):
        small_audit(out=tmp_path / "c")


def test_a_method_that_sends_nothing_is_not_said_to_withstand_attacks(monkeypatch):
    few_probes(monkeypatch, names=("signflipping", "labelflipping", "backdoor"))
    found = run_audit({**TINY, "method": {"name": "local"}}, 10.0, None, None, clock=Clock())
    assert "nothing is sent" in found.find("signflipping").reason
    assert found.find("labelflipping").measured
    refused = {one.name: one.refused for one in found.protections if one.refused}
    assert "nothing is sent" in refused["sums that hide what single clients send"]


def test_a_backdoor_in_models_that_nobody_shares_is_not_measured(monkeypatch):
    few_probes(monkeypatch, names=("backdoor",))
    found = small_audit({**TINY, "method": {"name": "fedrep"}})
    assert "no shared model" in found.find("backdoor").reason
