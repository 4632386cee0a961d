"""The studies of FedFMRL: their runs are accepted, tables are complete, and findings follow the numbers."""

from __future__ import annotations

from math import nan

import pytest

from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedfmrl_ablation import LABELS, MEAN, MEAN_MS, MIX, MIX_MS, SERVER, ablation_members
from fedloom.reproduce.fedfmrl_studies import (
    MIX_MS_EARLIER,
    READINGS,
    mixing_findings,
    mixing_members,
    mixing_tables,
    skew_findings,
    skew_members,
    skew_table,
)
from fedloom.reproduce.fedfmrl_study_runs import FmrlResult, run_results
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import BASELINE, StudyRequest
from support.paths import DATA_FOLDER

NAMES = ("fedfmrl-ablation", "fedfmrl-mixing", "fedfmrl-skew")
MIXING = {member.label: [FmrlResult(0.3, 0.2, 2e6)] * 3 for member in mixing_members("cifar100")}
SKEW = {member.label: [FmrlResult(0.3, 0.2, 2e6)] * 3 for member in skew_members("cifar100")}


@pytest.mark.parametrize("data", ["cifar100", "cifar10"])
@pytest.mark.parametrize("name", NAMES)
def test_the_runs_have_names_of_their_own_and_configs_that_are_accepted(tmp_path, name, data):
    members = STUDIES[name].members(StudyRequest(1, tmp_path, data=data))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)
    for member in members:
        config = resolve(dict(member.values))
        assert config.task.name == data
        assert method_from_config(config) is not None


def test_tables_of_mixing_have_every_scheme_and_alpha_and_share_the_usual_run():
    schemes, alphas, caps = mixing_tables(MIXING)
    assert [row[0] for row in schemes.rows] == ["A", "A-normalised", "B", "C", "mean", "A, a_cap 0.1", BASELINE]
    assert [row[0] for row in alphas.rows] == ["closed-form", "gaussian", "learned", *READINGS, BASELINE]
    assert caps.rows[-2] == ("0.8", "30.0 ± 0.0", "20.0 ± 0.0", "30.41", "2.00 MB")


def test_scheme_a_is_at_chance_where_it_diverges_or_guesses():
    def holds(*clients: float) -> bool | None:
        results = [FmrlResult(one, nan, 1.0, one != one) for one in clients]
        found = mixing_findings({**MIXING, "scheme A": results}, 100)
        return next(one.holds for one in found if one.says == "scheme A as printed ends at chance.")

    assert holds(0.01, 0.011, 0.012)
    assert holds(0.01, 0.01, nan)
    assert not holds(0.01, 0.01, 0.05)


@pytest.mark.parametrize(("better", "holds"), [(0.05, True), (-0.05, False)])
def test_findings_of_skew_follow_the_numbers(better, holds):
    results = {**SKEW, f"beta 1, {MIX_MS}": [FmrlResult(0.3 + better, 0.2, 1.0)] * 3}
    found = {one.says: one.holds for one in skew_findings(results)}
    assert found["beta 1: FedFMRL is above FLD."] == holds
    assert found[f"{MIX_MS} rises with beta."] == holds
    assert not found[f"{MEAN} rises with beta."]
    assert [row[0] for row in skew_table(results).rows] == [MEAN, MEAN_MS, MIX_MS, MIX_MS_EARLIER, LABELS, BASELINE]


@pytest.mark.slow
@pytest.mark.skipif(not (DATA_FOLDER / "cifar100.npz").is_file(), reason="CIFAR-100 is not in the data folder")
def test_the_server_s_model_is_the_same_without_clients_on_real_images(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    little = ("task.partition.sizes=[40,40,40,40,40]", "rounds=1", "eval_every=1", "eval_clients=1")
    pair = [member for member in ablation_members("cifar100") if member.label in (MIX, SERVER)]
    found = run_results(StudyRequest(1, tmp_path, settings=little), pair)
    (mixed,), (alone,) = found[MIX], found[SERVER]
    assert mixed.server == alone.server
    assert mixed.bytes == alone.bytes > 0
