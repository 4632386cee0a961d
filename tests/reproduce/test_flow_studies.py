"""The flow studies: which runs they are, how groups are scored, and the orderings that the document is about."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.reproduce.flow_studies import _between_finding, _falling_finding, _rounds_finding, _worst_finding
from fedloom.reproduce.flow_study_runs import (
    BATCH,
    LARGEST,
    SETTINGS,
    above_finding,
    by_group,
    corpus_setting,
    group_table,
    member,
    round_changes,
    share_of_rounds_above,
    withheld_action,
)
from fedloom.reproduce.studies import STUDIES
from fedloom.reproduce.study import StudyRequest, run_study
from fedloom.tasks.flows.synthetic.client_sizes import group, thresholds


def history(small: list[float], big: list[float]) -> fl.History:
    names = {"small": small, "intermediate": small, "big": big}
    records = [
        {"round": i, "metrics": {f"client_model/own_test/accuracy/{name}": values[i] for name, values in names.items()}}
        for i in range(len(small))
    ]
    return fl.History({}, records)


def test_a_value_is_the_mean_of_a_group_over_the_last_five_rounds():
    curve = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    values = by_group({"m": [history(curve, curve[::-1])]})
    assert values["m"]["small"] == [pytest.approx(0.4)]
    assert values["m"]["big"] == [pytest.approx(0.2)]
    assert group_table("t", values, {}).rows == (("m", "40.0", "40.0", "20.0"),)


def test_claims_about_rounds_are_tested_round_by_round():
    """What falls from round 2 to 3 and rises on average does not "fall in every round"."""
    mostly_rising, falling = history([0.0, 0.1, 0.3, 0.2], [0.0] * 4), history([0.0, 0.4, 0.3, 0.1], [0.0] * 4)
    assert round_changes(mostly_rising, "small") == [pytest.approx(0.2), pytest.approx(-0.1)]
    assert not _falling_finding({"m": [falling, mostly_rising]}, "small", "m").holds
    assert "75 % of the rounds" in _falling_finding({"m": [falling, mostly_rising]}, "small", "m").ours
    assert _falling_finding({"m": [falling]}, "small", "m").holds
    assert share_of_rounds_above(falling, mostly_rising, "small") == pytest.approx(1 / 3)
    runs = {"a": [falling], "b": [mostly_rising]}
    assert _rounds_finding(runs, "small", "a", "b", "some", 0.0).holds
    assert not _rounds_finding(runs, "small", "a", "b", "many", 0.5).holds


def test_a_printed_range_is_tested_at_both_ends_and_the_worst_against_all():
    values = {name: {"big": [value] * 3} for name, value in (("a", 0.504), ("b", 0.5), ("c", 0.48))}
    assert _between_finding(values, "big", "a", "b", 0.001, 0.006).holds
    assert not _between_finding(values, "big", "a", "c", 0.001, 0.006).holds
    assert not _between_finding(values, "big", "b", "a", 0.001, 0.006).holds
    assert _worst_finding(values, "big", "c").holds
    assert not _worst_finding(values, "big", "b").holds


def test_subkinds_of_n8n_are_refused_and_not_the_study_of_kinds(tmp_path):
    with pytest.raises(FedloomError, match="Study flows-subkind has no data 'n8n': use synthetic"):
        run_study(STUDIES["flows-subkind"], StudyRequest(1, tmp_path, data="n8n"))


def test_a_margin_is_said_in_the_sentence():
    values = {name: {"small": [value] * 3, "big": [value] * 3} for name, value in (("a", 0.5), ("b", 0.4))}
    assert above_finding(values, "small", "a", "b", 0.05).holds
    assert "by 5 points" in above_finding(values, "small", "a", "b", 0.05).says
    assert not above_finding(values, "small", "a", "b", 0.2).holds
    assert above_finding(values, "big", "b", "a", -0.2).holds


@pytest.mark.parametrize("data", list(SETTINGS))
@pytest.mark.parametrize("name", [n for n in STUDIES if n.startswith("flows") and n != "flows-new-action"])
def test_the_runs_of_a_study_have_folders_of_their_own(name, data, tmp_path):
    members = STUDIES[name].members(StudyRequest(1, tmp_path, data=data))
    assert len({m.folder_name for m in members}) == len({m.label for m in members}) == len(members)


@pytest.mark.slow
def test_groups_by_training_points_are_the_groups_by_all_points():
    """A run's groups look at training points, the document's at all of them: on this corpus they are the same."""
    task = fl.task(**corpus_setting("synthetic").task)
    low, high = corpus_setting("synthetic").bounds
    for client, points in enumerate(task.federation.points.tolist()):
        train = int(task.federation.train.sizes[client])
        mine = "small" if train <= low else "big" if train >= high else "intermediate"
        assert mine == group(points, LARGEST)
    assert corpus_setting("synthetic").threshold == thresholds(LARGEST)[0]


@pytest.mark.slow
def test_the_withheld_action_is_named_by_its_class():
    chosen = withheld_action("synthetic")
    task = fl.task(**corpus_setting("synthetic").task, withhold=chosen)
    assert task.federation.class_names[chosen["label"]] == "DataSet"
    for client in chosen["clients"]:
        trained = task.targets(task.federation.train[client])
        assert not (trained == chosen["label"]).any()
        assert (task.targets(task.federation.test[client]) == chosen["label"]).any()


def test_hybrids_get_the_corpus_threshold():
    assert member("synthetic", "Dual").values["method"]["threshold"] == corpus_setting("synthetic").threshold
    assert member("synthetic", "Dual").values["local"]["batch_size"] == BATCH


@pytest.mark.slow
def test_small_clients_need_the_others_and_big_ones_are_better_alone():
    """The document's premise, on five organisations and one seed, by 5 and 2 points; all of it: docs/reproduce.md."""
    small_to, intermediate_to = thresholds(2_000)
    shares = {"test_share": 0.15, "valid_share": 0.15}
    shape = {"width": 32, "blocks": 2}
    task = fl.task("flows", clients=5, options={"largest": 2_000}, model_options=shape, **shares)
    how = {"rounds": 10, "eval_every": 10, "size_groups": [round(0.7 * small_to), round(0.7 * intermediate_to)]}
    work = {"optimizer": "adam", "lr": 0.003, "batch_size": 32}
    local, fedavg = (fl.run(task, method, local=work, **how) for method in ("local", "fedavg"))
    small, big = (f"client_model/own_test/accuracy/{name}" for name in ("small", "big"))
    assert fedavg.last(small) > local.last(small) + 0.05
    assert local.last(big) > fedavg.last(big) + 0.02
