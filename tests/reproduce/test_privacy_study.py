"""The study of epsilon: its runs, and that the clip norm is chosen on validation data."""

import pytest

from fedloom.config.resolve import resolve
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.sampling import PoissonChains, PoissonDraw
from fedloom.reproduce import privacy_study as study
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest
from fedloom.runs.results.history import History

pytest.importorskip("dp_accounting", reason="needs dp-accounting")


@pytest.mark.slow
def test_the_noise_of_every_run_keeps_to_its_epsilon():
    case = study.PrivateCase("FedSeq", 2.0, 0.6)
    chains = PoissonChains(study.RATE, len(study.PAIRS))
    assert epsilon_after(chains, case.aggregation["noise"], study.ROUNDS, study.DELTA) <= 2.0
    clients = PoissonDraw(study.RATE, study.WRITERS)
    noise = study.PrivateCase("FedRep", 2.0, 0.6).aggregation["noise"]
    assert epsilon_after(clients, noise, study.ROUNDS, study.DELTA) <= 2.0 < 2.1
    assert sorted(client for pair in study.PAIRS for client in pair) == list(range(study.WRITERS))


def test_its_configs_are_whole():
    config = resolve(dict(study.PrivateCase("FedAvg", 2.0, 0.6).member.values))
    assert config.aggregation.seeded
    assert config.aggregation.noise > 1.0
    assert config.aggregation.epsilon is None  # of seeded draws it would be another one, and would stop the run


def test_the_clip_norm_is_chosen_on_validation_data_and_test_data_are_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "_noise", lambda *_: 1.0)

    def pretend(self, members):
        found = {}
        for member in members:
            clip = member.values["aggregation"].get("clip", 0.0)
            metrics = {study.VALIDATION: -abs(clip - 0.6), study.CLIENTS: clip, study.GLOBAL: clip / 2}
            records = [{"round": 30, "selected": [], "metrics": metrics}]
            found[member.label] = [History(dict(member.values), records) for _ in range(self.seeds)]
        return found

    monkeypatch.setattr(StudyRequest, "run", pretend)
    outcome = STUDIES["privacy-writers"].run(StudyRequest(2, tmp_path))
    assert outcome.values["FedAvg"][0.5] == [0.6, 0.6]  # test data alone would say 1.8
    assert (tmp_path / "privacy.svg").exists()
    assert len(outcome.tables[0].rows) == 3


def test_the_runs_have_folders_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(study, "_noise", lambda *_: 1.0)
    members = STUDIES["privacy-writers"].members(StudyRequest(1, tmp_path))
    assert len({member.folder_name for member in members}) == len(members) == 48
