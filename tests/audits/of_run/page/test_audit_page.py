"""The page of an audit: what its reader is told, and that names are text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedloom.audits.of_run.page.assessment import paragraphs
from fedloom.audits.of_run.page.audit_page import write_audit_page
from fedloom.audits.of_run.probes.probe import Sample
from fedloom.audits.of_run.result import Number
from support.audits import TINY, few_probes, small_audit


@pytest.fixture(scope="module")
def audited():
    with pytest.MonkeyPatch.context() as patch:
        few_probes(patch)
        yield small_audit(defences=["aggregation=median", "channel=securesum"])


def page_of(found, tmp_path):
    return write_audit_page(found, tmp_path / "audit.html").read_text()


def test_the_page_has_the_assessment_the_table_the_samples_and_the_limits(audited, tmp_path):
    text = page_of(audited, tmp_path)
    order = [text.index(f'id="{name}"') for name in ("assessment", "attacks", "costs", "samples", "reading")]
    assert order == sorted(order)
    assert text.count("data:image/png") > 8
    assert "it never proves that there are none" in text
    assert "treat it as you treat these data" in text
    for one in audited.protections:
        assert one.name in text


def test_the_page_loads_nothing_and_runs_no_script(audited, tmp_path):
    text = page_of(audited, tmp_path)
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")


def test_without_an_attack_with_every_setting_nothing_is_said_to_leak_nothing(audited, tmp_path):
    protections = tuple(replace(one, compared=0, worst_leak=0.0, worst_break=0.0) for one in audited.protections)
    text = page_of(replace(audited, protections=protections), tmp_path)
    costs = text[text.index('id="costs"') : text.index('id="samples"')]
    assert costs.count("not compared") >= 3 * len(protections)
    assert 'data-of="worst leak">0.00' not in costs
    assert "give more minutes" in costs
    assert "not compared" not in page_of(audited, tmp_path)


def test_attacks_that_were_not_measured_for_one_reason_share_a_line(audited, tmp_path):
    gone = [
        replace(one, status="no time", reason="there was no time for it", numbers={}, samples=())
        for one in audited.findings
    ]
    text = page_of(replace(audited, findings=tuple(gone)), tmp_path)
    assert text.count("there was no time for it") == 1


def test_a_row_of_a_table_is_said_to_be_rebuilt_by_its_columns_spread(audited, tmp_path):
    assert "a tenth of their columns' spread off" in page_of(audited, tmp_path)


def test_names_are_text(audited, tmp_path):
    evil = "<script>alert(1)</script>"
    sample = Sample([[[0.0]]], [[[1.0]]], evil)
    findings = tuple(
        replace(one, probe=evil, who=evil, what=evil, note=evil, words=evil, samples=(sample,))
        for one in audited.findings
    )
    hidden = replace(audited.findings[0], status="refused", reason=evil, probe=f"{evil}2")
    names = [replace(one, name=evil, words=(evil,)) for one in audited.protections]
    found = replace(
        audited, task=evil, method=evil, findings=(*findings, hidden), protections=(audited.protections[0], *names)
    )
    text = page_of(replace(found, assessment=paragraphs(found)), tmp_path)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_what_was_not_measured_is_listed_with_its_reason(audited, tmp_path):
    hidden = replace(audited.findings[0], status="refused", reason="it needs images of people.")
    refused = replace(audited.protections[1], score=None, refused="it needs more clients.")
    found = replace(audited, findings=(hidden, *audited.findings[1:]), protections=(audited.protections[0], refused))
    text = page_of(found, tmp_path)
    assert "it needs images of people." in text
    assert "it needs more clients." in text


def test_the_assessment_says_what_protects_the_run(audited, monkeypatch):
    few_probes(monkeypatch)
    summed = small_audit({**TINY, "channel": ["securesum"]})
    words = {name: " ".join(map(str, found.assessment)) for name, found in (("plain", audited), ("summed", summed))}
    assert "Nothing hides or blurs what clients send." in words["plain"]
    assert "The worst that was found is serious." in words["plain"]
    assert "The run is protected by sums that hide what single clients send." in words["summed"]
    assert "cannot say whose they are" in words["summed"]
    assert "Nothing hides" not in words["summed"]


@pytest.mark.slow
def test_the_assessment_says_that_noise_stops_it(monkeypatch):
    few_probes(monkeypatch)
    noisy = small_audit({**TINY, "sample_privacy": {"noise": 1.0}})
    words = " ".join(map(str, noisy.assessment))
    assert "The run is protected by noise in what clients send." in words
    assert "Little or nothing was found of single people." in words


def test_the_assessment_says_what_a_defence_changes_and_costs(audited):
    (reduces,) = (one for one in audited.assessment if one.about == "What reduces it")
    assert len(reduces.sentences) == 3
    assert "aggregation=median" in reduces.sentences[1]
    assert "accuracy" in reduces.sentences[2]


def test_the_page_is_its_owners_since_it_has_training_samples(audited, tmp_path):
    assert write_audit_page(audited, tmp_path / "audit.html").stat().st_mode & 0o077 == 0


def test_a_table_of_one_seed_says_so_and_membership_is_said_in_people(audited, tmp_path):
    text = page_of(audited, tmp_path)
    assert "(one seed)" in text
    measures = {"auc": Number(0.7, 0.01), "found_at_1_percent": Number(0.02)}
    told = replace(audited.findings[0], probe="who was there", unit="auc", measure="auc", numbers=measures, samples=())
    text = page_of(replace(audited, findings=(told,)), tmp_path)
    assert "2 of 100 members are found when 1 of 100 others is taken for one" in text
    assert "at 1 % false" not in text


def test_a_model_that_has_learnt_nothing_is_told_beside_the_costs(audited, tmp_path):
    first = audited.protections[0]
    assert first.guess is not None
    assert 0.05 < first.guess.value < 0.2, "the most frequent of ten digits"
    warned = replace(audited, protections=(replace(first, score=first.guess), *audited.protections[1:]))
    costs = page_of(warned, tmp_path).split('id="costs"')[1]
    assert "it has learnt next to nothing here" in costs
    learnt = replace(audited, protections=(replace(first, score=Number(0.9)), *audited.protections[1:]))
    assert "next to nothing" not in page_of(learnt, tmp_path)
