"""The verdict claims no more than the numbers bear."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_rel

from fedloom.metrics.regression import MAE
from fedloom.reports.summary_table import cell_text, summary
from fedloom.reports.verdict import evidence, verdict
from fedloom.rounds.score import metric_notes
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import CLIENTS
from support.histories import measured_run as run
from support.histories import two_rounds


def test_verdict_names_the_best_where_every_pair_of_seeds_says_so() -> None:
    """Seeds differ by ten points, and the method that is two points better with each of them is best."""
    base = [0.6, 0.7, 0.65, 0.72, 0.8]
    ahead = [value + gap for value, gap in zip(base, (0.02, 0.021, 0.019, 0.02, 0.02), strict=True)]
    text = verdict({"a": [run([v]) for v in ahead], "b": [run([v]) for v in base]})
    assert "a is best: 71.4 ± 7.6 %, 2.0 points above b (69.4 ± 7.5 %; between 1.9 and 2.1 points; " in text
    assert "paired over 5 seeds, 95 %" in text
    assert "--seeds" not in text


def test_the_numbers_behind_the_verdict_are_those_of_a_paired_t_test() -> None:
    scores = {"a": [0.80, 0.91, 0.85, 0.88], "b": [0.30, 0.402, 0.348, 0.41], "c": [0.81, 0.89, 0.85, 0.87]}
    rows = evidence({name: [run([v], seed=n) for n, v in enumerate(values)] for name, values in scores.items()})
    assert [(row["metric"], row["leader"], row["rival"]) for row in rows] == [(CLIENTS, "a", "c"), (CLIENTS, "a", "b")]
    for row, pairs in zip(rows, (1, 3), strict=True):  # Holm: the smaller p-value stands for all pairs
        test = ttest_rel(scores["a"], scores[row["rival"]])
        ends = test.confidence_interval(1 - 0.05 / pairs)
        assert (row["low"], row["high"]) == pytest.approx((ends.low, ends.high))
        assert row["p"] == pytest.approx(min(1, pairs * test.pvalue))
        assert row["lead"] == pytest.approx((ends.low + ends.high) / 2)
        assert (row["seeds"], row["established"]) == (4, row["rival"] == "b")


def test_one_seed_has_a_lead_without_an_interval_and_one_method_has_no_rival() -> None:
    (row,) = evidence({"a": [run([0.9])], "b": [run([0.5])]})
    assert row["lead"] == pytest.approx(0.4)
    assert (row["low"], row["high"], row["p"], row["seeds"], row["established"]) == (None, None, 1.0, 1, False)
    assert evidence({"a": [run([0.9])], "b": [run([0.5], stopped="loss is NaN")]}) == []


def test_where_lower_is_better_the_lead_is_how_much_lower() -> None:
    def errors(value: float) -> History:
        return two_rounds({"client_model/own_test/mae/mean": value}, [0], made_by=metric_notes([MAE()]))

    (row,) = evidence({"a": [errors(3.0)], "b": [errors(2.5)]})
    assert (row["leader"], row["rival"], row["lead"]) == ("b", "a", 0.5)


def test_fourteen_of_fourteen_seeds_are_established_and_more_seeds_do_not_make_it_worse() -> None:
    base = [0.5 + 0.03 * (seed % 7) for seed in range(14)]
    ahead = [value + 0.01 + 0.001 * (seed % 3) for seed, value in enumerate(base)]
    assert "a is best" in verdict({"a": [run([v]) for v in ahead], "b": [run([v]) for v in base]})


def test_verdict_says_who_cannot_be_told_apart() -> None:
    scores = {"a": [0.80, 0.91, 0.85], "b": [0.81, 0.89, 0.85], "c": [0.30, 0.402, 0.348]}
    text = verdict({name: [run([v]) for v in values] for name, values in scores.items()})
    assert "a has the highest mean (85.3 ± 5.5 %, 0.3 points above b), but it cannot be told apart from b (" in text
    assert "paired over 3 seeds, Holm over 3 pairs, 95 %" in text
    assert "--seeds 6" in text
    assert "best" not in text


def test_two_seeds_are_not_enough_for_a_small_lead() -> None:
    """The old rule called this a win: a lead of a point, and a standard deviation of half of one."""
    text = verdict({"a": [run([0.80]), run([0.81])], "b": [run([0.79]), run([0.795])]})
    assert "a is ahead in these runs" in text
    assert "two seeds do not establish a lead" in text


def test_three_seeds_are_the_least_for_a_claim() -> None:
    """Two equal leads of ten points are no claim; with a third seed they are one if they are alike enough."""
    ahead, base = [0.80, 0.8001, 0.8002], [0.70, 0.70, 0.70]
    two, three = (
        {
            name: [run([value], seed=n) for n, value in enumerate(values[:count])]
            for name, values in (("a", ahead), ("b", base))
        }
        for count in (2, 3)
    )
    assert "two seeds do not establish a lead" in verdict(two)
    assert not any(row["established"] for row in evidence(two))
    assert "a is best" in verdict(three)


def test_losers_that_are_established_are_named_where_the_best_is_not() -> None:
    runs = {
        "a": [run([0.80 + 0.001 * n], seed=n) for n in range(5)],
        "b": [run([0.80 + 0.001 * (n % 3)], seed=n) for n in range(5)],
        "c": [run([0.50 + 0.002 * n], seed=n) for n in range(5)],
    }
    text = verdict(runs)
    assert "cannot be told apart from b" in text
    assert "It is better than c." in text


def test_more_seeds_are_not_offered_for_models_that_are_equal_with_every_seed() -> None:
    equal = {name: [run([0.8], seed=n) for n in range(3)] for name in ("a", "b")}
    text = verdict(equal)
    assert "a and b are level at 80.0 ± 0.0 % with every seed." in text
    assert "More seeds" not in text


def test_a_method_that_answers_one_class_for_everything_is_named_first() -> None:
    constant, learnt = run([0.9], seed=0), run([0.8], seed=0)
    constant.confusion, learnt.confusion = [[90, 0], [10, 0]], [[80, 10], [5, 5]]
    assert verdict({"a": [constant], "b": [learnt]}).startswith("a answers one class for every test sample.")
    constant.confusion = [[90, 0], [0, 0]]  # there is one class only: nothing else could be answered
    assert "one class" not in verdict({"a": [constant], "b": [learnt]})


def test_seeds_are_paired_by_their_numbers_and_not_by_their_order() -> None:
    seeds = range(6)
    ahead = [run([0.5 + 0.05 * n + 0.01 + 0.0001 * n], seed=n) for n in seeds]
    base = [run([0.5 + 0.05 * n], seed=n) for n in reversed(seeds)]
    assert "a is best" in verdict({"a": ahead, "b": base})


def test_verdict_never_claims_a_winner_from_one_seed() -> None:
    text = verdict({"a": [run([0.99], [0.5])], "b": [run([0.10], [0.6])]})
    assert "a is ahead in this one run (99.0 %, 89.0 points above b), but one seed does not establish a lead" in text
    assert "On the global test set b is ahead in this one run" in text
    assert text.count("More seeds may decide it") == 1
    assert "best" not in text


def test_with_one_seed_clients_are_compared_and_it_is_said_what_that_is_worth() -> None:
    def one(values: list[float]) -> History:
        history = run([sum(values) / len(values)])
        history.clients = [{"client": number, "accuracy": value} for number, value in enumerate(values)]
        return history

    base = [0.1, 0.5, 0.9, 0.4, 0.6]
    clear = verdict({"a": [one([v + 0.05 + 0.01 * v for v in base])], "b": [one(base)]})
    says = "(paired over 5 clients, 95 %: over clients of one seed; another seed may differ)"
    assert f"There a is better than b {says}" in clear
    assert "one seed does not establish a lead" in clear
    unclear = verdict({"a": [one([0.9, 0.1, 0.8, 0.5, 0.6])], "b": [one(base)]})
    assert f"There a cannot be told apart from b {says}" in unclear


def test_a_second_seed_that_measured_nothing_is_no_second_seed() -> None:
    text = verdict({"a": [run([0.9]), run([float("nan")])], "b": [run([0.5]), run([0.5])]})
    assert "a is ahead in these runs" in text
    assert "one seed does not establish a lead" in text


def test_verdict_says_when_methods_are_level() -> None:
    assert "a and b are level at 80.0 %" in verdict({"a": [run([0.8])], "b": [run([0.8])]})
    three = {"a": [run([0.8])], "worse": [run([0.7])], "b": [run([0.8])], "c": [run([0.8])]}
    assert "a, b and c are level at 80.0 %" in verdict(three)


def test_verdict_leaves_out_methods_that_stopped_early() -> None:
    runs = {"a": [run([0.9], stopped="loss is NaN")], "b": [run([0.8])], "c": [run([0.7])]}
    text = verdict(runs)
    assert "b is ahead" in text
    assert "Left out because it stopped early: a." in text
    assert "nothing to compare" in verdict({name: runs[name] for name in ("a", "b")})


def test_verdict_says_when_methods_ran_for_different_rounds() -> None:
    assert "different numbers of rounds" in verdict({"a": [run([0.1, 0.9])], "b": [run([0.1])]})


def test_a_global_model_that_learns_nothing_from_clients_is_starred_and_not_praised() -> None:
    """FedFMRL's server model sees communal labels only, so its lead on the global test says nothing of federating."""
    alone = [run([0.5], [0.9], method={"name": "fedfmrl"})]
    runs = {"fedfmrl": alone, "fedavg": [run([0.6], [0.7])], "fedprox": [run([0.5], [0.6])]}
    text = verdict(runs)
    assert "On the global test set fedavg is ahead" in text
    assert "* The global model of fedfmrl learns nothing from clients, so it is not compared on the global" in text
    rows = {row["method"]: row for row in summary(runs)}
    assert cell_text(rows["fedfmrl"], "global_accuracy") == "90.0 % *"
    assert cell_text(rows["fedfmrl"], "client_accuracy") == "50.0 %"
    assert "* The global model" not in verdict({"fedavg": runs["fedavg"], "fedprox": runs["fedprox"]})
    assert {row["leader"] for row in evidence(runs)} == {"fedavg"}


def test_who_is_behind_level_methods_is_said_as_well() -> None:
    level = {name: [run([0.8], seed=n) for n in range(4)] for name in ("a", "b")}
    worse = [run([0.5 + 0.002 * n], seed=n) for n in range(4)]
    near = [run([0.79 + 0.02 * (n % 2) - 0.01 * (n == 1)], seed=n) for n in range(4)]
    text = verdict({**level, "worse": worse})
    assert "a and b are level at 80.0 ± 0.0 % with every seed. They are better than worse (paired over 4" in text
    assert "More seeds" not in text
    text = verdict({**level, "worse": worse, "near": near})
    assert "They are better than worse" in text
    assert "That near is behind is not established. More seeds may decide it" in text


def test_clients_are_paired_within_a_seed_that_both_methods_have() -> None:
    """The runs of two folders may not begin with the same seed, and clients of two seeds are different clients."""

    def one(seed: int, values: list[float]) -> History:
        history = run([sum(values) / len(values)], seed=seed)
        history.clients = [{"client": number, "accuracy": value} for number, value in enumerate(values)]
        return history

    base = [0.1, 0.5, 0.9, 0.4, 0.6]
    ahead = [value + 0.05 for value in base[:-1]] + [0.66]
    both = verdict({"a": [one(0, base[::-1]), one(1, ahead)], "b": [one(1, base)]})
    assert "There a is better than b (paired over 5 clients" in both
    assert "There" not in verdict({"a": [one(0, ahead)], "b": [one(1, base)]})


def test_where_one_class_has_most_samples_the_verdict_says_what_accuracy_hides() -> None:
    name = "client_model/own_test/accuracy/mean"
    baselines = [{"name": "majority", "words": "always answering '0'", "metrics": {name: 0.9}, "clients": []}]
    runs = [run([0.9], seed=seed, made_by={}) for seed in range(3)]
    for one in runs:
        one.baselines, one.confusion = baselines, [[85, 5], [5, 5]]
    text = verdict({"a": runs})
    assert text.startswith("a (90.0 %) is not better than always answering '0'")
    assert "90 % of the test samples are of one class" in text
    assert "task.metrics=macro_f1" in text
    for one in runs:
        one.confusion = [[45, 5], [45, 5]]
    assert "macro_f1" not in verdict({"a": runs})
