"""The studies of FedLID: their runs are accepted, tables are complete, and findings follow the numbers."""

from __future__ import annotations

import pytest
import torch

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedlid_studies import (
    FEDAVG,
    FEDCA,
    FEDLID,
    SCORE,
    label_findings,
    label_members,
    lid_table,
    pretrained_members,
    pretraining_findings,
    pretraining_member,
    pretraining_table,
    server_findings,
    server_members,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.plans.plan import Member
from fedloom.runs.results.history import History
from support.paths import DATA_FOLDER

NAMES = ("fedlid-server", "fedlid-labels", "fedlid-pretraining")


def measured(members: list[Member], **better: float) -> dict[str, list[History]]:
    """Three seeds of each run: 30 %, and more where the label ends with a given word."""

    def history(label: str) -> History:
        value = 0.3 + sum(more for word, more in better.items() if label.endswith(word))
        record = {"round": 3, "bytes_up": 3e6, "bytes_down": 3e6, "bytes_between": 0, "metrics": {SCORE: value}}
        return History({}, [record])

    return {member.label: [history(member.label)] * 3 for member in members}


@pytest.mark.parametrize("name", NAMES)
def test_the_runs_have_names_of_their_own_and_configs_that_are_accepted(tmp_path, name):
    members = STUDIES[name].members(StudyRequest(1, tmp_path))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)
    for member in [*members, pretraining_member()]:
        config = resolve(dict(member.values))
        assert config.task.name == "cifar100"
        assert method_from_config(config) is not None


def test_runs_without_labels_are_measured_by_a_probe_and_the_server_has_other_images(tmp_path):
    request = StudyRequest(1, tmp_path)
    values = {m.label: m.values for m in (*server_members(request), *label_members(request))}
    assert values[f"IID, {FEDCA}"]["prediction"] == ["linearprobe"]
    assert values[f"IID, {FEDLID}"]["prediction"] == []
    assert values[f"IID, {FEDLID}"]["task"]["server_set"]["data"] == "cifar10"
    assert values[f"non-IID, 10 % labels, {FEDLID}"]["task"]["label_share"] == 0.1
    starts = [m.values.get("start_from") for m in pretrained_members(request)]
    assert starts == [None, str(tmp_path / "pre-training-seed0")] * 3


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_follow_the_numbers(tmp_path, better, holds):
    request = StudyRequest(3, tmp_path)
    found = server_findings(measured(server_members(request), FedLID=better))
    assert len(found) == 10
    assert [one.holds for one in found[:8]] == [holds] * 8
    assert not any(one.holds for one in found[8:])  # equal gains, and equal accuracies
    labels = label_findings(measured(label_members(request), FedLID=better))
    assert {one.says: one.holds for one in labels}["non-IID, 10 % labels: FedLID is above FedCA."] == holds
    starts = pretraining_findings(measured(pretrained_members(request), **{"FedLID, pre-trained": better}))
    assert [one.holds for one in starts] == [False, False, holds, holds, holds]


def test_tables_have_every_method_the_documents_numbers_and_bytes(tmp_path):
    request, printed = StudyRequest(3, tmp_path), published("fedlid").tables
    server = lid_table(measured(server_members(request)), printed["server"])
    assert [row[0] for row in server.rows] == [FEDAVG, "supervised 20 %", "supervised 60 %", "supervised 100 %", FEDLID]
    assert server.rows[-1] == (FEDLID, "30.0 ± 0.0", "30.0 ± 0.0", "47.52", "48.88", "0.200 MB")
    labels = lid_table(measured(label_members(request)), printed["labels"])
    assert {row[0] for row in labels.rows} == {*printed["labels"].rows, f"10 % labels, {FEDAVG}"}
    assert len(pretraining_table(measured(pretrained_members(request))).rows) == 3


@pytest.mark.slow
@pytest.mark.skipif(not (DATA_FOLDER / "gtsrb.npz").is_file(), reason="GTSRB is not in the data folder")
@pytest.mark.exhaustive
def test_a_pretrained_study_runs_on_real_images(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    little = ("task.server_set.share=0.005", "local.steps=1", "method.server_epochs=1", "rounds=1", "eval_every=0")
    request = StudyRequest(1, tmp_path, settings=little)
    request.run([pretraining_member()])
    chosen = [member for member in pretrained_members(request) if member.label.startswith(f"non-IID, {FEDLID}")]
    (random,), (started,) = request.run(chosen).values()
    assert random.row is not None
    assert not torch.equal(random.row, started.row)
    assert bool(started.row.isfinite().all())
