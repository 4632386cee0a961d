"""The studies of FedLID: complete tables with baselines, and runs that have names of their own."""

from __future__ import annotations

import pytest
import torch

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedlid_studies import (
    LABEL_CASES,
    SERVER_CASES,
    case_members,
    lid_table,
    pretraining_member,
    start_members,
)
from fedloom.reproduce.fedlid_study_runs import FEDCA, FEDLID, LidResult
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.plans.members import Member
from support.paths import DATA_FOLDER

NAMES = ("fedlid-server", "fedlid-labels", "fedlid-pretraining")


def measured(members: list[Member]) -> dict[str, list[LidResult]]:
    return {member.label: [LidResult(0.2, 0.3, 0.1, 0.25, 2e5, "0.1")] * 3 for member in members}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_the_runs_have_names_of_their_own_and_configs_that_are_accepted(tmp_path, name, data):
    members = STUDIES[name].members(StudyRequest(1, tmp_path, data=data))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)
    for member in members:
        config = resolve(dict(member.values))
        assert config.task.name == data
        assert method_from_config(config) is not None


def test_pre_trained_runs_start_from_one_network(tmp_path):
    request = StudyRequest(1, tmp_path)
    starts = [member.values.get("start_from") for member in start_members(request, {})]
    assert starts == [None, str(pretraining_member(request).folder(tmp_path, 0))] * 3


def test_tables_have_every_run_both_measures_the_documents_numbers_and_the_baselines(tmp_path):
    request, printed = StudyRequest(3, tmp_path), published("fedlid").tables
    server = {row[0]: row[1:] for row in lid_table(
        measured(case_members(request, SERVER_CASES, {})), printed["server"]
    ).rows}  # fmt: skip
    assert server["non-IID, FedLID"] == ("0.1", "30.0 ± 0.0", "20.0 ± 0.0", "48.88", "0.200 MB")
    assert server["IID, baseline: majority class"][1:3] == ("10.0 ± 0.0", "10.0 ± 0.0")
    assert server["IID, baseline: each client's majority class"][1:3] == ("25.0 ± 0.0", "25.0 ± 0.0")
    labels = {row[0]: row[1:] for row in lid_table(
        measured(case_members(request, LABEL_CASES, {})), printed["labels"]
    ).rows}  # fmt: skip
    assert labels[f"IID, {FEDCA}"][1:4] == ("30.0 ± 0.0", "–", "39.47")
    assert labels[f"IID, 10 % labels, {FEDLID}"][3] == "33.51"
    starts = lid_table(measured(start_members(request, {})), None)
    assert len(starts.rows) == 6 + 2


@pytest.mark.slow
@pytest.mark.skipif(not (DATA_FOLDER / "gtsrb.npz").is_file(), reason="GTSRB is not in the data folder")
@pytest.mark.exhaustive
def test_a_pretrained_study_runs_on_real_images(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    little = ("task.server_set.share=0.005", "local.steps=1", "method.server_epochs=1", "rounds=1", "eval_every=0")
    request = StudyRequest(1, tmp_path, settings=little)
    request.run([pretraining_member(request)])
    chosen = [member for member in start_members(request, {}) if member.label.startswith(FEDLID)]
    (random,), (started,) = request.run(chosen).values()
    assert random.row is not None
    assert not torch.equal(random.row, started.row)
    assert bool(started.row.isfinite().all())
