"""The table of an audit: every attack once, the strongest first, and nothing that cannot be played is left out."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run import run_audit as module
from fedloom.audits.of_run.page.audit_page import write_audit_page
from fedloom.audits.of_run.play.subject import RunSize
from fedloom.audits.of_run.probes.all_probes import LISTED, PROBES, all_probes
from fedloom.registry.kinds import ATTACKS
from support.audits import TINY, small_audit


def test_every_registered_attack_has_one_place():
    names = [one.name for one in all_probes()]
    assert len(set(names)) == len(names)
    assert set(ATTACKS) <= set(names)


def test_all_updates_are_asked_before_one_update_is():
    names = [one.name for one in PROBES]
    assert names.index("membership over rounds") < 3
    assert names.index("vocabulary of an update") < names.index("membership of an update")


@pytest.mark.parametrize("probe", all_probes(), ids=lambda one: one.name)
def test_costs_are_declared_and_more_rounds_do_not_cost_less(probe):
    short, long = (probe.cost(RunSize(rounds, 10, 1000)) for rounds in (2, 20))
    assert 0 <= short <= long
    assert probe.seconds >= 0


def test_what_needs_a_choice_is_listed_with_its_reason_and_costs_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "all_probes", lambda: (PROBES[0], *LISTED))
    found = small_audit(TINY)
    page = write_audit_page(found, tmp_path / "audit.html").read_text()
    for name, why in {
        "property inference": "name the property",
        "attribute inference": "name the sensitive column",
        "reconstruction of one client": "says something only where",
    }.items():
        assert why in found.find(name).reason
        assert why in page
    assert "stays with the client" in found.find("gan").reason
    assert found.find("gan").kind == "leak", "it makes no model wrong"
    assert all(one.runs == 0 and one.cost(RunSize(9, 9, 9)) == 0 for one in LISTED)
