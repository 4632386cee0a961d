"""Label flipping: whose labels change, to what, and what it costs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.registry.kinds import METHODS
from fedloom.runs.prepare import prepare

PAIR = {"name": "labelflipping", "classes": [[0, 2]], "clients": [1, 4]}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=100.0)


def labels(task, attack, **config):
    """The training labels of every client, without an attack and with it."""
    run = prepare(
        task, METHODS.make("fedavg"), resolve({"adversary": attack, "method": "fedavg", **config})
    ).composition
    return [[one.targets(one.federation.train[client]) for client in range(6)] for one in (task, run.task)]


def test_hostile_clients_swap_a_pair_both_ways_and_nothing_else_changes(task):
    clean, flipped = labels(task, PAIR)
    for client in range(6):
        by_hand = clean[client].clone()
        if client in (1, 4):
            by_hand[clean[client] == 0], by_hand[clean[client] == 2] = 2, 0
            assert not torch.equal(by_hand, clean[client])
        assert torch.equal(flipped[client], by_hand)


def test_one_way_only_the_source_changes(task):
    clean, flipped = labels(task, {**PAIR, "one_way": True})
    by_hand = clean[1].clone()
    by_hand[by_hand == 0] = 2
    assert torch.equal(flipped[1], by_hand)


def test_the_default_turns_class_c_into_the_last_but_c(task):
    clean, flipped = labels(task, {"name": "labelflipping", "clients": [1]})
    assert torch.equal(flipped[1], 9 - clean[1])


def test_random_pairings_are_of_the_same_classes_differ_between_attackers_and_are_drawn_once(task):
    attack = fl.LabelFlipping(classes=[[0, 2, 3, 5]], pairing="random")
    y = torch.arange(10)
    becomes = [attack.poison_samples({"y": y}, client, task, 7)["y"].tolist() for client in range(40)]
    four = {tuple(one) for one in becomes}
    assert len(four) == 3  # the pairings of four classes
    for one in four:
        assert sorted(one) == y.tolist()
        assert {label for label in range(10) if one[label] != label} == {0, 2, 3, 5}
        assert all(one[one[label]] == label for label in range(10))
    assert becomes == [attack.poison_samples({"y": y}, client, task, 7)["y"].tolist() for client in range(40)]


def test_random_pairs_stay_within_their_list(task):
    attack = fl.LabelFlipping(classes=[[0, 1, 2, 3], [6, 7, 8, 9]], pairing="random")
    for client in range(20):
        becomes = attack.poison_samples({"y": torch.arange(10)}, client, task, 0)["y"]
        assert sorted(becomes[:4].tolist()) == [0, 1, 2, 3]
        assert becomes[4:6].tolist() == [4, 5]


def test_labels_of_tokens_swap_b_with_b_and_i_with_i_and_padding_stays(task):
    names = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "5", "6", "7", "8", "9")
    tagged = replace(task, federation=replace(task.federation, class_names=names))
    y = torch.tensor([[0, 1, 2, IGNORED], [3, 4, 0, 1]])
    found = fl.LabelFlipping(classes=[["PER", "LOC"]]).poison_samples({"y": y}, 0, tagged, 0)["y"]
    assert found.tolist() == [[0, 3, 4, IGNORED], [1, 2, 0, 3]]


TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG", "B-MISC", "I-MISC")


@pytest.fixture(scope="module")
def tagged():
    """Sentences of five words by six clients, of nine words that each have a tag of their own."""
    words = np.random.default_rng(0).integers(0, 9, (240, 5))
    words[0] = [0, 1, 2, 0, 3]  # O B-PER I-PER O B-LOC
    federation = fl.from_arrays(words + 1, words, np.arange(240) // 40, kind="tokens", classes=9, test_share=0.2)
    small = {"vocabulary": 10, "embedding": 8, "hidden": 16}
    return fl.task_of(replace(federation, class_names=TAGS), model_options=small)


def test_of_five_tagged_words_by_hand_persons_become_places_with_their_beginnings_and_insides(tagged):
    attack = fl.LabelFlipping(classes=[["PER", "LOC"]])
    y = torch.tensor([[0, 1, 2, 0, 3], [2, 4, 5, 6, IGNORED]])
    assert attack.poison_samples({"y": y}, 0, tagged, 0)["y"].tolist() == [[0, 3, 4, 0, 1], [4, 2, 5, 6, IGNORED]]
    one_way = replace(attack, one_way=True).poison_samples({"y": y}, 0, tagged, 0)["y"]
    assert one_way.tolist() == [[0, 3, 4, 0, 3], [4, 4, 5, 6, IGNORED]]


def test_random_pairings_of_kinds_of_names_keep_beginnings_and_insides_together(tagged):
    attack = fl.LabelFlipping(classes=[["PER", "LOC", "ORG", "MISC"]], pairing="random")
    drawn = {tuple(attack.poison_samples({"y": torch.arange(9)}, one, tagged, 0)["y"].tolist()) for one in range(40)}
    assert len(drawn) == 3
    for becomes in drawn:
        assert becomes[0] == 0
        for beginning in (1, 3, 5, 7):
            assert becomes[beginning] in {1, 3, 5, 7} - {beginning}
            assert becomes[beginning + 1] == becomes[beginning] + 1


def test_a_tagger_learns_the_swap_from_a_hostile_majority_and_nothing_else(tagged):
    attack = {"name": "labelflipping", "classes": [["PER", "LOC"]], "clients": [0, 1, 2, 3, 4]}
    work = {"epochs": 5, "lr": 0.5, "batch_size": 8}
    plain, attacked = (fl.run(tagged, "fedavg", rounds=5, adversary=one, local=work) for one in (None, attack))
    assert plain.last("global_model/global_test/accuracy") > 0.95
    assert attacked.last("adversary/success") > 0.9
    assert attacked.last("adversary/attacked_accuracy") < 0.1
    assert attacked.last("global_model/global_test/accuracy") == pytest.approx(5 / 9, abs=0.1), "five tags of nine"


def test_test_data_stay_clean_and_sample_sizes_too(task):
    run = prepare(task, METHODS.make("fedavg"), resolve({"adversary": PAIR, "method": "fedavg"})).composition
    old, new = task.federation, run.task.federation
    assert torch.equal(old.train.sizes, new.train.sizes)
    assert torch.equal(old.points, new.points)
    for client in range(6):
        assert torch.equal(task.targets(old.test[client]), run.task.targets(new.test[client]))
    assert torch.equal(task.targets(old.global_test), run.task.targets(new.global_test))


def test_it_is_measured_on_clean_test_data_and_costs_the_attacked_classes_most(task):
    attack = {"name": "labelflipping", "classes": [[0, 2, 3, 5]], "fraction": 0.5}
    work = {"epochs": 2, "lr": 0.1}
    plain, attacked = (
        fl.run(task, "fedavg", rounds=6, adversary=one, local=work, eval_every=6) for one in (None, attack)
    )
    accuracy = "global_model/global_test/accuracy"
    assert attacked.last("adversary/attacked_accuracy") < attacked.last(accuracy) < plain.last(accuracy)
    assert attacked.last("adversary/success") > 0.2
    harmless = fl.run(task, "fedavg", rounds=1, adversary={**attack, "fraction": 0.1, "start": 1, "stop": 1})
    assert 0 <= harmless.last("adversary/success") <= 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"classes": [[0, 0]]}, "an even number of different classes"),
        ({"classes": [[0, 1, 2]]}, "an even number of different classes"),
        ({"classes": [[0, 1], [1, 2]]}, "names a class twice"),
        ({"classes": [[0, 11]]}, "class 11 does not exist"),
        ({"classes": [["zero", 1]]}, "class 'zero' does not exist"),
        ({"pairing": "often"}, "pairing"),
        ({"start": 3, "stop": 2}, "stop=2"),
        ({"start": 9}, "the attack starts in round 9, and the run has 1"),
        ({"groups": [[0, 1]], "clients": [1]}, "clients and groups both say who is hostile"),
        ({"groups": [[0, 99]]}, "no client 99 takes part in training"),
    ],
)
def test_what_is_wrong_is_said(task, settings, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, "fedavg", rounds=1, adversary={"name": "labelflipping", **settings})


def test_groups_turn_hostile_as_a_whole():
    groups = [[0, 1], [2, 3], [4, 5]]
    drawn = {fl.LabelFlipping(groups=groups, fraction=0.3).members(range(6), seed) for seed in range(60)}
    assert drawn == {frozenset(group) for group in groups}
    assert len(fl.LabelFlipping(groups=groups, fraction=0.5).members(range(6), 0)) == 4
