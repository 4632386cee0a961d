"""Grouping: every client once, within the limits; metrics by hand; and how near to uniform the groups come."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.partition.label_skew import Dirichlet
from fedloom.methods.fedseq.grouping import (
    METRICS,
    Draw,
    check_chains,
    cosine,
    divergence,
    fill_groups,
    gini,
    greedy_choice,
    kl,
    one_per_cluster,
    random_order,
    wasserstein,
)


def in_order(clients: int) -> Draw:
    order = iter(range(clients))
    return lambda _: next(order)


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# -- metrics


def test_metrics_of_a_case_that_can_be_done_by_hand():
    client, group = np.array([[1.0, 0.0, 0.0]]), np.array([0.0, 0.5, 0.5])  # half-way mean (1/2, 1/4, 1/4)
    assert gini(client, group) == pytest.approx(1 - (1 / 4 + 1 / 16 + 1 / 16))
    assert kl(client, group) == pytest.approx(1 - (0.5 * math.log(1.5) + 0.5 * math.log(0.75)))
    assert cosine(client, group) == pytest.approx(1.0)
    assert wasserstein(client, group) == pytest.approx((0 + 0.5 + 0.5) / 3)  # (0, 0, 1) against (0, .5, .5)


def test_wasserstein_is_that_of_scipy_on_the_vectors_as_samples():
    from scipy.stats import wasserstein_distance

    clients, group = random().dirichlet(np.ones(7), 20), random(1).dirichlet(np.ones(7))
    expected = [wasserstein_distance(group, client) for client in clients]
    assert np.allclose(wasserstein(clients, group), expected)


def test_wasserstein_does_not_see_which_class_is_which():
    client, group = random().dirichlet(np.ones(6), 1), random(1).dirichlet(np.ones(6))
    assert wasserstein(client, group) == pytest.approx(wasserstein(client[:, ::-1], group))
    assert cosine(client, group) != pytest.approx(cosine(client[:, ::-1], group))


def test_a_vector_without_a_direction_is_at_distance_one():
    assert cosine(np.zeros((2, 3)), np.ones(3)).tolist() == [1, 1]
    assert cosine(np.ones((2, 3)), np.zeros(3)).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["gini", "kl"])
def test_what_completes_a_group_to_uniform_is_best(name):
    group = np.array([0.5, 0.5, 0.0, 0.0])
    candidates = np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0, 0, 1, 0], [0.25] * 4])
    assert METRICS[name](candidates, group).argmax() == 1


def test_the_divergence_is_nought_for_uniform_and_log_n_for_one_class():
    assert divergence(np.array([[0.2] * 5, [1, 0, 0, 0, 0]])) == pytest.approx([0, math.log(5)])


# -- filling


@settings(max_examples=200, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=60),
    enough=st.none() | st.integers(1, 200),
    most=st.integers(1, 9),
    seed=st.integers(0, 5),
    rule=st.sampled_from(["random", "greedy", "kmeans"]),
)
def test_every_client_is_in_one_group_and_groups_keep_their_limits(sizes, enough, most, seed, rule):
    samples = np.array(sizes)
    vectors = random(seed).dirichlet(np.full(4, 0.3), len(samples))
    draw = {
        "random": lambda: random_order(len(samples), random(seed)),
        "greedy": lambda: greedy_choice(vectors, samples, cosine, random(seed)),
        "kmeans": lambda: one_per_cluster(vectors, 4, random(seed)),
    }[rule]()
    groups = fill_groups(draw, samples, enough, most)
    assert sorted(client for group in groups for client in group) == list(range(len(samples)))
    assert all(1 <= len(group) <= most for group in groups)
    assert [min(group) for group in groups] == sorted(min(group) for group in groups)
    short = [group for group in groups if len(group) < most and samples[group].sum() < (enough or math.inf)]
    assert len(short) <= 1  # only what was left over, and only when nobody else had room for it
    if short:
        assert all(len(group) == most for group in groups if group is not short[0])


def test_a_group_is_full_when_it_has_enough_samples_or_enough_clients():
    samples = np.array([5, 5, 20, 1, 1, 1, 1, 9])
    assert fill_groups(in_order(8), samples, 10, 3) == [[0, 1], [2], [3, 4, 5], [6, 7]]


def test_clients_left_over_go_to_the_smallest_groups_that_have_room_one_at_a_time():
    samples = np.array([30, 11, 6, 6, 2, 1])  # [0], [1], [2, 3], then 4 and 5 are left over
    assert fill_groups(in_order(6), samples, 10, 3) == [[0], [1, 5], [2, 3, 4]]
    assert fill_groups(in_order(6), samples, 10, 2) == [[0, 4], [1, 5], [2, 3]]  # no room in the third group
    again = np.array([30, 11, 1, 1, 1, 1])  # in turn: 1, 0, 1, 0
    assert fill_groups(in_order(6), again, 10, 5) == [[0, 4, 2], [1, 5, 3]]


def test_clients_for_whom_there_is_no_room_stay_a_group():
    assert fill_groups(in_order(5), np.ones(5, dtype=int), 3, 2) == [[0, 1], [2, 3], [4]]
    assert fill_groups(in_order(5), np.array([9, 9, 1, 1, 1]), 9, 1) == [[0], [1], [2], [3], [4]]


def test_a_federation_too_small_for_one_group_is_one_group():
    assert fill_groups(in_order(3), np.ones(3, dtype=int), 100, 8) == [[0, 1, 2]]


# -- rules


def test_greedy_takes_the_client_that_completes_the_group():
    vectors = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    for seed in range(5):
        groups = fill_groups(greedy_choice(vectors, np.ones(6), kl, random(seed)), np.ones(6), None, 3)
        assert [sorted(vectors[group].argmax(1)) for group in groups] == [[0, 1, 2], [0, 1, 2]]


def test_fedseq_takes_the_plain_mean_of_a_group_unless_the_authors_weights_are_asked_for(monkeypatch):
    """The thesis has a plain mean (section 4.1.2), the authors' code one by samples."""
    seen = []
    monkeypatch.setattr(
        "fedloom.methods.fedseq.fedseq.greedy_choice",
        lambda vectors, weights, *rest: (seen.append(weights.tolist()), greedy_choice(vectors, weights, *rest))[1],
    )
    task = fl.task("digits", clients=6, partition=fl.power_law(1.5))
    sizes = [float(size) for size in task.federation.train.sizes]
    assert len(set(sizes)) > 1
    for group_mean in ("plain", "weighted"):
        fl.run(task, fl.FedSeq(group_mean=group_mean, pretrain_epochs=1), rounds=1, eval_every=0)
    assert seen == [[1.0] * 6, sizes]


def test_greedy_weighs_a_groups_members_by_their_samples():
    """A group of a large client of class 0 and a small one of class 1 lacks class 1 more than class 0."""
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0.9, 0.1, 0], [0.1, 0.9, 0]])
    seed = next(seed for seed in range(99) if random(seed).choice(4) == 0)  # the first member is client 0
    for samples, expected in (([100, 1, 10, 10], [0, 1, 3]), ([1, 100, 10, 10], [0, 1, 2])):
        draw = greedy_choice(vectors, np.array(samples), gini, random(seed))
        assert [draw([]), draw([0]), draw([0, 1])] == expected


def test_kmeans_takes_one_client_of_each_cluster_in_turn_and_skips_the_empty():
    vectors = np.eye(3)[[0] * 4 + [1] * 2 + [2] * 2]
    draw = one_per_cluster(vectors, 3, random())
    kinds = [int(vectors[draw([])].argmax()) for _ in range(8)]
    assert sorted(kinds[:3]) == sorted(kinds[3:6]) == [0, 1, 2]
    assert kinds[:3] == kinds[3:6]
    assert kinds[6:] == [0, 0]


@pytest.mark.parametrize("rule", ["random", "greedy", "kmeans"])
def test_the_same_seed_gives_the_same_groups_and_another_seed_others(rule):
    vectors, samples = random(9).dirichlet(np.ones(5), 40), np.full(40, 10)

    def groups(seed):
        draws = {
            "random": random_order(40, random(seed)),
            "greedy": greedy_choice(vectors, samples, kl, random(seed)),
            "kmeans": one_per_cluster(vectors, 5, random(seed)),
        }
        return fill_groups(draws[rule], samples, 80, 11)

    assert groups(1) == groups(1)
    assert groups(1) != groups(2)


# -- how good the groups are: 500 clients of 100 samples, 10 classes, groups of 8 (800 samples, at most 11 clients)

SAMPLES = np.full(500, 100)
TABLE = {  # mean KL(group || uniform) as measured for the specification
    ("random", 0): 0.67, ("random", 0.2): 0.21, ("random", 0.5): 0.10,
    ("gini", 0): 0.23, ("gini", 0.2): 0.035, ("gini", 0.5): 0.0185,
    ("kl", 0): 0.23, ("kl", 0.2): 0.035, ("kl", 0.5): 0.0185,
    ("cosine", 0): 0.23, ("cosine", 0.2): 0.035, ("cosine", 0.5): 0.0185,
    ("wasserstein", 0): 0.63, ("wasserstein", 0.2): 0.20, ("wasserstein", 0.5): 0.09,
    ("kmeans", 0.2): 0.13, ("kmeans", 0.5): 0.065,
}  # fmt: skip


def distributions(alpha: float, seed: int) -> np.ndarray:
    """The true label distributions of the clients, who come in no order."""
    if alpha == 0:
        return np.eye(10)[random(seed).permutation(500) % 10]
    return random(seed).dirichlet(np.full(10, alpha), 500)


def draw(rule: str, vectors: np.ndarray, samples: np.ndarray, seed: int, sign: int = 1) -> Draw:
    if rule == "random":
        return random_order(len(vectors), random(seed))
    if rule == "kmeans":
        return one_per_cluster(vectors, 10, random(seed))
    return greedy_choice(vectors, samples, lambda clients, group: sign * METRICS[rule](clients, group), random(seed))


def spread(groups: list[list[int]], vectors: np.ndarray, samples: np.ndarray) -> float:
    unions = np.stack([samples[group] @ vectors[group] / samples[group].sum() for group in groups])
    return float(divergence(unions).mean())


@cache
def quality(rule: str, alpha: float, sign: int = 1) -> float:
    """The mean divergence of groups from uniform, over five federations."""
    found = []
    for seed in range(5):
        vectors = distributions(alpha, seed)
        groups = fill_groups(draw(rule, vectors, SAMPLES, seed + 50, sign), SAMPLES, 800, 11)
        assert len(groups) == 62
        assert {len(group) for group in groups} == {8, 9}
        found.append(spread(groups, vectors, SAMPLES))
    return float(np.mean(found))


@pytest.mark.parametrize(("rule", "alpha"), TABLE)
def test_groups_are_as_near_to_uniform_as_measured_for_the_specification(rule, alpha):
    assert quality(rule, alpha) == pytest.approx(TABLE[rule, alpha], abs=0.05)


def test_one_class_clients_cannot_do_better_than_eight_classes_of_ten():
    """The floor is log(10/8); clusters that are the classes, visited in turn, reach it but for what was left over.

    (The specification's 0.58 is k-means from repeated starting points; k-means++ has no such start.)
    """
    floor = math.log(10 / 8)
    vectors = distributions(0, 1)
    groups = fill_groups(draw("kmeans", vectors, SAMPLES, 2), SAMPLES, 800, 11)
    assert all(divergence(vectors[group].mean(0)) == pytest.approx(floor) for group in groups if len(group) == 8)
    assert quality("kmeans", 0) == pytest.approx(floor, abs=0.01)
    assert min(quality(rule, 0) for rule in METRICS) > floor - 0.02  # nine members may see nine classes


@pytest.mark.parametrize("rule", ["gini", "kl", "cosine"])
def test_greedy_groups_are_several_times_better_than_random_ones(rule):
    assert quality("random", 0) / quality(rule, 0) >= 2
    assert quality("random", 0.2) / quality(rule, 0.2) >= 4


@pytest.mark.parametrize("rule", ["gini", "kl", "cosine"])
@pytest.mark.parametrize("alpha", [0, 0.2, 0.5])
def test_the_printed_direction_would_be_far_worse_than_random(rule, alpha):
    assert quality(rule, alpha, sign=-1) > 3 * quality("random", alpha)


@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_on_our_own_partition_with_its_unequal_clients_greedy_beats_kmeans_beats_random(alpha):
    labels = np.repeat(np.arange(10), 5000)
    owners = Dirichlet(alpha).owners(labels, 500, 3, None)
    counts = np.zeros((500, 10))
    np.add.at(counts, (owners, labels), 1)
    samples, vectors = counts.sum(1), counts / counts.sum(1, keepdims=True)
    found = {
        rule: spread(fill_groups(draw(rule, vectors, samples, 6), samples, 800, 11), vectors, samples)
        for rule in ("random", "kmeans", "cosine")
    }
    assert found["random"] > found["kmeans"] > found["cosine"]
    assert found["random"] > 2 * found["cosine"]


# -- chains that are given


@pytest.mark.parametrize(
    ("chains", "says"),
    [
        ([[0, 1], [2]], "clients 3 are in no chain"),
        ([[0, 1], [1, 2, 3]], "clients 1 are named twice"),
        ([[0, 1, 2, 3, 4]], "clients 4 do not exist"),
        ([[0, 1, 2, 3], []], "a chain is empty"),
    ],
)
def test_given_chains_name_every_client_once(chains, says):
    with pytest.raises(FedloomError, match=says):
        check_chains(chains, 4)


def test_given_chains_in_order_pass():
    check_chains([[3, 1], [0, 2]], 4)
