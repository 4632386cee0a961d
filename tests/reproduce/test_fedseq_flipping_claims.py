"""The claims about label flipping: findings follow the numbers, and what cannot be shown is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedloom.reproduce.fedseq_flipping_claims import flipping_findings
from fedloom.reproduce.fedseq_flipping_runs import (
    BASELINE,
    FEDSEQ,
    SWAPS,
    FlippingCell,
    SwapScores,
    cells,
    swapped_classes,
)


def made_up(data, everything=0.5, swapped=0.3):
    classes = dict.fromkeys(swapped_classes(data), 0.45)
    found = {cell: [SwapScores(everything, classes, swapped)] * 3 for cell, _ in cells(data)}
    return found | {BASELINE: [SwapScores(0.125, dict.fromkeys(classes, 0.0))] * 3}


def changed(results, change, **choice):
    """Results in which some cells have other numbers: those whose fields are as chosen, an attack's by its name."""
    where = {cell for cell in results if all(getattr(cell, name) == value for name, value in choice.items())}
    return {cell: [change(one) for one in some] if cell in where else some for cell, some in results.items()}


def marks(results, data):
    return {one.says: one.holds for one in flipping_findings(results, data)}


@pytest.mark.parametrize(("by", "holds"), [(0.05, True), (-0.05, False)])
def test_fedseq_above_fedavg_follows_the_numbers_for_every_l(by, holds):
    better = changed(
        made_up("cifar10"),
        lambda one: replace(one, everything=one.everything + by, swapped=one.swapped + by),
        method=FEDSEQ,
    )
    found = marks(better, "cifar10")
    assert found["L = 0: FedSeq is above FedAvg (global accuracy)."] is holds
    assert all(found[f"L = 0.5: FedSeq is above FedAvg ({of} accuracy)."] is holds for of in ("global", "swapped"))


def test_swapped_below_global_is_told_apart_from_classes_that_are_hard_anyway():
    """Here the swapped classes are below all others, and were so without an attack."""
    results = made_up("cifar10", swapped=0.45)
    found = marks(results, "cifar10")
    assert found["FedAvg, 5-3, fixed: swapped accuracy is below global."] is True
    assert found["Control, FedAvg, 5-3, fixed: swapped classes lose more than all classes."] is False


@pytest.mark.parametrize(("by", "holds"), [(0.1, True), (-0.1, False)])
def test_fixed_against_random_and_more_classes_follow_the_numbers(by, holds):
    fixed = SWAPS["cifar10"][2]
    results = changed(
        made_up("cifar10"),
        lambda one: replace(one, everything=one.everything - by, swapped=one.swapped - by),
        swap=fixed,
    )
    found = marks(results, "cifar10")
    start = "FedAvg, 0-2 and 5-3: fixed is more effective than random"
    assert found[f"{start} (swapped accuracy: random is above)."] is holds
    says = "FedAvg: the more classes are swapped, the lower is the global accuracy"
    assert found[f"{says} (0-2 alone is above 0-2 and 5-3, fixed)."] is holds


def test_the_gap_thins_if_attackers_cost_fedseq_more():
    results = made_up("cifar10")
    for share, ahead in ((0.0, 0.08), (0.1, 0.08), (0.3, 0.06), (0.5, 0.02)):
        results = changed(results, lambda one, by=ahead: replace(one, everything=0.5 + by), method=FEDSEQ, share=share)
    found = marks(results, "cifar10")
    says = "The gap of FedSeq thins with L (global accuracy): it is wider at"
    assert found[f"{says} 0.1 than at 0.3."] is found[f"{says} 0 than at 0.5."] is True
    assert found[f"{says} 0 than at 0.1."] is False


def test_what_a_corpus_cannot_show_is_said():
    ours = {one.says: one.ours for one in flipping_findings(made_up("cifar10"), "cifar10")}
    assert ours["extra_SC is more effective than intra_SC."] == "not testable here: cifar10 has no superclasses."
    ours = {one.says: one.ours for one in flipping_findings(made_up("cifar100"), "cifar100")}
    says = "The more classes are swapped, the lower is the global accuracy."
    assert ours[says] == "not testable here: all lists have twenty classes."


def test_nothing_is_claimed_of_models_that_stay_at_chance():
    results = made_up("cifar100", everything=0.125, swapped=0.0)
    for one in flipping_findings(results, "cifar100"):
        if one.says.startswith(("L =", "FedAvg, extra_SC:", "FedSeq, intra_SC:")):
            assert one.ours.startswith("not testable here"), one.says


def test_a_rule_is_compared_with_the_mean_where_it_can_be_had():
    says = set(marks(made_up("cifar10"), "cifar10"))
    start = "Control, FedSeq, 0-2 and 5-3, fixed, L ="
    assert f"{start} 0.3: krum is above the mean (swapped)." in says
    assert f"{start} 0.5: krum is above the mean (swapped)." not in says
    assert FlippingCell(FEDSEQ, 0.5, SWAPS["cifar10"][2]) in made_up("cifar10")
