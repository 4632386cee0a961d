"""The words for a data-protection officer: what a defence leaves is the worst attack with it, not the worst before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedloom.audits.of_run.page.assessment import paragraphs
from fedloom.audits.of_run.probes.poisoning import takeover
from fedloom.audits.of_run.probes.probe import Measure
from fedloom.audits.of_run.result import Audit, Finding, Number, ProtectedRun

RULE = "aggregation=median"


def ruin(probe, setting, lost, gained=None, clients="A fifth of the clients"):
    """A finding of hostile clients."""
    values = {"lost": lost} if gained is None else {"lost": lost, "gained": gained}
    badness = max(values.values())
    shown = {name: Number(value) for name, value in values.items()}
    words = "of the score is lost" if gained is None else "of the images are answered as they want"
    measure = "lost" if gained is None else "gained"
    return Finding(
        *(probe, "break", clients, "make the model wrong", setting, "measured", "", measure, words, "share"),
        numbers=shown,
        seeds=1,
        badness=badness,
    )


def audited(findings, clients=6, words=((), ("a rule",))):
    """An audit that found these."""
    runs = [ProtectedRun(name, of, score=Number(0.9)) for name, of in zip(("as configured", RULE), words, strict=True)]
    found = Audit("digits", "fedavg", clients, 5, 5, 0, 1.0, "accuracy", True, True, tuple(runs), tuple(findings), {})
    return {one.about: one.sentences for one in paragraphs(found)}


def test_the_worst_with_a_defence_may_be_another_attack():
    found = audited(
        [
            ruin("backdoor", "as configured", 0.2, 0.92),
            ruin("signflipping", "as configured", 0.5),
            ruin("backdoor", RULE, 0.0, 0.0),
            ruin("signflipping", RULE, 0.56),
        ]
    )
    said = found["What reduces it"][1]
    assert (
        "the worst damage goes from 92 % of marked images answered as the attacker wants (backdoor) to 56 % of the "
        "score lost (signflipping)" in said
    )


def test_the_same_attack_is_said_once():
    found = audited([ruin("a", "as configured", 0.4), ruin("a", RULE, 0.2)])
    assert "the worst damage goes from 40 % to 20 % of the score lost (a)" in found["What reduces it"][1]
    stays = audited([ruin("a", "as configured", 0.4), ruin("a", RULE, 0.4)])
    assert "the worst damage stays at 40 % of the score lost (a)" in stays["What reduces it"][1]


def test_only_attacks_that_were_played_with_the_defence_are_compared():
    hidden = replace(ruin("ipm", RULE, 0.0), status="refused", numbers={})
    found = audited([ruin("ipm", "as configured", 0.9), ruin("a", "as configured", 0.4), hidden, ruin("a", RULE, 0.01)])
    assert "the worst damage goes from 40 % of the score lost (a) to little or nothing" in found["What reduces it"][1]


def test_a_protection_that_a_defence_replaces_is_named():
    found = audited([ruin("a", name, 0.4) for name in ("as configured", RULE)], words=(("noise",), ("a rule",)))
    assert f"With a rule ({RULE}), instead of noise: " in found["What reduces it"][1]


@pytest.mark.parametrize(("clients", "said"), [(3, "1 of 3"), (6, "2 of 6"), (10, "2 of 10")])
def test_a_fifth_of_the_clients_is_counted(clients, said):
    found = audited([ruin("a", "as configured", 0.4)], clients)
    assert f"A fifth of the clients, rounded up, is {said} here." in found["Who could make the model wrong"]


def test_a_backdoor_that_ruins_the_model_is_not_little_or_nothing():
    assert takeover({"gained": Measure(0.04), "lost": Measure(0.75)}) == 0.75
    found = audited([ruin("backdoor", "as configured", 0.75, 0.04, "One client")])["Who could make the model wrong"]
    assert found[0] == "The worst that was found is severe."
    assert found[1].endswith("4.0 % of the images are answered as they want, and 75 % of the score is lost.")


def test_slight_damage_is_said_in_a_sentence():
    found = audited([ruin("a", "as configured", 0.15)])["Who could make the model wrong"]
    assert found[0] == "Something was found, and nothing of it is serious."


def test_a_defence_that_nothing_was_played_with_is_not_said_to_change_nothing():
    found = audited([ruin("a", "as configured", 0.4), replace(ruin("a", RULE, 0.0), status="no time", numbers={})])
    assert "there was no time for an attack, or none applies, accuracy does not" in found["What reduces it"][1]


def test_a_run_that_no_attack_applies_to_is_not_said_to_leak_nothing():
    found = audited([ruin("a", "as configured", 0.4)])["Who could learn what about whom, and how likely"]
    assert found[0].endswith("That does not say that nothing leaks.")


def told_apart(setting, auc, seeds=3):
    """A finding of membership."""
    return Finding(
        *("membership", "leak", "The server", "tells who", setting, "measured", "", "auc", "is the AUC", "auc"),
        numbers={"auc": Number(auc, 0.01 if seeds > 1 else None)},
        seeds=seeds,
        badness=2 * auc - 1,
    )


def test_an_auc_is_said_in_words_for_somebody_who_knows_none():
    said = audited([told_apart("as configured", 0.9), told_apart(RULE, 0.57)])["What reduces it"][1]
    assert "goes from 90 of 100 to 57 of 100 pairs told apart, where guessing does 50 (membership)" in said
    assert "0.57" not in said
    assert "AUC" not in said


@pytest.mark.parametrize(("seeds", "said"), [(1, True), (3, False)])
def test_numbers_of_one_seed_are_said_to_be_of_one(seeds, said):
    found = audited([told_apart("as configured", 0.9, seeds)])["What was assessed"]
    assert any(sentence.startswith("Each attack was played once (one seed)") for sentence in found) == said


def scored(score, guess, share=True, higher=True):
    """An audit of a run that scores this, where a guess scores that."""
    runs = (ProtectedRun("as configured", score=Number(score), guess=None if guess is None else Number(guess)),)
    return Audit("digits", "fedavg", 6, 5, 5, 0, 1.0, "accuracy", share, higher, runs, (), {})


@pytest.mark.parametrize(
    ("found", "little"),
    [
        (scored(0.12, 0.10), True),
        (scored(0.08, 0.10), True),
        (scored(0.30, 0.10), False),
        (scored(0.96, 0.95), False),
        (scored(0.12, None), False),
        (scored(3.9, 4.0, share=False, higher=False), True),
        (scored(2.0, 4.0, share=False, higher=False), False),
        (scored(0.15, 0.1, share=False), False),
    ],
)
def test_a_model_that_scores_hardly_better_than_a_guess_has_learnt_little(found, little):
    told = [sentence for one in paragraphs(found) for sentence in one.sentences if "next to nothing" in sentence]
    assert found.has_learnt_little == little == bool(told)


def test_the_warning_names_both_scores():
    (told,) = (one for one in paragraphs(scored(0.12, 0.10))[0].sentences if "next to nothing" in one)
    assert told.startswith("The model's accuracy is 12 %, and that of an answer that learns nothing is 10 %")
