"""Defences are settings of the run: those that it allows, of each kind the first."""

from __future__ import annotations

import pytest

from fedloom.audits.of_run.play.defences import CONFIGURED, make_settings
from fedloom.audits.of_run.play.subject import Subject
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import AGGREGATORS
from support.audits import TINY


def names(values, named=None):
    return {one.name: one for one in make_settings(Subject(values), named)}


@pytest.mark.slow
def test_without_any_named_there_are_a_rule_a_sum_and_noise():
    found = names({**TINY, "task": {"name": "digits", "clients": 6}})
    assert list(found) == [
        CONFIGURED,
        "aggregation=trimmedmean:share=0.2",
        "channel=securesum",
        "sample_privacy.noise=1.0",
    ]
    assert [len(one.protects) for one in found.values()] == [0, 1, 1, 1]
    assert found["sample_privacy.noise=1.0"].values["sample_privacy"].seeded


def test_what_the_run_has_is_not_added_again():
    found = names({**TINY, "channel": ["securesum"]})
    assert found[CONFIGURED].protects == ("sums that hide what single clients send",)
    assert found["sums that hide what single clients send"].refused == "the run has it already."
    rule = found["a rule that withstands some hostile clients"]
    assert rule.values is None
    assert "securesum" in rule.refused


def test_a_defence_may_have_several_settings():
    found = names(TINY, ["aggregation=median local.lr=0.01"])
    assert found["aggregation=median local.lr=0.01"].values["local"] == {"lr": 0.01}
    assert "local" not in TINY, "the run itself stays as it is"


@pytest.mark.parametrize("text", ["", "median", "aggregation=median fast", "'", "task.clients=3", "adversary=alie"])
def test_what_is_no_setting_is_refused(text):
    with pytest.raises(FedloomError, match="defence "):
        names(TINY, [text])


@pytest.mark.parametrize("named", ["aggregation=median", [3], 3])
def test_defences_are_a_list_of_text(named):
    with pytest.raises(FedloomError, match="defences="):
        names(TINY, named)


def test_a_rule_is_said_to_be_what_it_is():
    words = {name: AGGREGATORS[name].protects for name in AGGREGATORS.builtin}
    promise = "a rule that withstands some hostile clients"
    own = {name for name, said in words.items() if said != promise}
    assert own == {"mean", "foolsgold", "nnm", "normbounding", "pca", "privatemean", "servertraining"}
    assert words["mean"] == "", "it protects from nobody"
    assert len({words[name] for name in own}) == len(own)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("servertraining", ("training by the server on clean samples of its own",)),
        ("pca", ("leaving out the smaller group where updates fall into two",)),
        (["foolsgold", "multikrum"], ("less weight for clients whose updates are alike", "a rule that withstands")),
    ],
)
def test_the_run_is_protected_by_the_words_of_its_rules(rule, said):
    communal = {"communal_per_class": 2} if rule == "servertraining" else {}
    found = names({**TINY, "task": {"name": "digits", "clients": 6, **communal}, "aggregation": rule}, [])
    assert all(one.startswith(word) for one, word in zip(found[CONFIGURED].protects, said, strict=True))
