"""The runs of the study of GAN attacks: what a run leaves, and that a stopped study reads what is there."""

from __future__ import annotations

import numpy as np
import pytest

import fedloom as fl
from fedloom.config.resolve import method_from_config, resolve
from fedloom.reproduce.fedseq_gan_runs import accuracy_of, gan_cells, gan_results, read_pictures, read_scores
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest, run_study

SHORT = ("rounds=3", "adversary.steps=1", "adversary.width=2", "selection.fraction=1.0")


def test_the_runs_have_names_of_their_own_and_differ_in_method_and_variant_only():
    members = [member for _, member in gan_cells()]
    assert len({one.folder_name for one in members}) == len(members) == 6
    for member in members:
        assert method_from_config(resolve(dict(member.values))) is not None
    assert len({str(one.values["task"]) for one in members}) == 1


def test_accuracy_is_that_of_the_records():
    task = fl.task("digits", clients=4)
    history = fl.run(task, "fedavg", rounds=2)
    assert accuracy_of(task, history.row) == pytest.approx(history.last("global_model/global_test/accuracy"))


@pytest.mark.slow
def test_the_study_runs_reads_what_is_there_and_saves_pictures(tmp_path):
    request = StudyRequest(1, tmp_path, settings=SHORT)
    outcome = run_study(STUDIES["fedseq-gan"], request)
    assert {len(one[0].visits) for one in gan_results(request).values()} == {3}, "everybody takes part in every round"
    folder = tmp_path / "FedAvg,_added_output-seed0"
    pictures, before = read_pictures(folder), read_scores(folder)
    assert pictures["made"].shape == pictures["real"].shape == (10, 1, 8, 8)
    assert before.halves < before.own < before.noise
    assert (tmp_path / "pictures.svg").exists()
    (folder / "visits.json").unlink()
    assert run_study(STUDIES["fedseq-gan"], request).tables == outcome.tables
    np.testing.assert_array_equal(read_pictures(folder)["made"], pictures["made"])
