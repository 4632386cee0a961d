"""``fedloom audit`` as a person meets it."""

from __future__ import annotations

import json

import pytest

from support.audits import few_probes

RUN = 'rounds = 2\n[task]\nname = "digits"\nclients = 4\n'


@pytest.fixture
def audit(fedloom, tmp_path, monkeypatch):
    few_probes(monkeypatch)
    (tmp_path / "run.toml").write_text(RUN)
    return lambda *words: fedloom("audit", *words)


def test_a_page_and_its_data_are_left_and_the_assessment_is_printed(audit, tmp_path, fedloom):
    words = ("run.toml", "--minutes", "5", "--defence", "aggregation=median", "--out", "a")
    result = audit(*words)
    assert result.returncode == 0, result.stderr
    assert "Who could learn what about whom" in result.stdout
    assert result.stderr == "", "a pipe has no progress"
    assert (tmp_path / "a" / "audit.html").exists()
    written = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert {one["setting"] for one in written["findings"]} == {"as configured", "aggregation=median"}
    again = json.loads(audit(*words, "--json").stdout)
    assert {key: again[key] for key in written} == written
    resumed = fedloom("resume", "a", "--json")
    assert json.loads(resumed.stdout)["findings"] == written["findings"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["server"], "is a folder of a deployment, whose data are elsewhere: judge its plan with fedloom deploy audit"),
        (["."], "is a folder: name a run file"),
        (["run.toml", "--minutes", "0"], "minutes=0: it must be a number above 0"),
        (["run.toml", "--defence", "median"], "defence median: write it as --set takes it"),
        (["run.toml", "--set", "adversary=alie"], "adversary of its own"),
        (["run.toml", "--out", "."], "contains something else: name a new folder"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(audit, tmp_path, words, says):
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "deploy.toml").touch()
    result = audit(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1
