"""Power-of-choice: who is drawn as a candidate, who of them takes part, and what it costs."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from fedloom.selection.power_of_choice import PowerOfChoice
from support.pools import Clients, pool, same
from support.silent_clients import play_run, prepare_run
from support.synthetic import federation, mlp

LOSSES = [0.3, 2.0, 0.1, 1.5, 0.9]


def test_the_largest_losses_take_part_when_all_are_candidates():
    clients = Clients(LOSSES)
    assert sorted(PowerOfChoice(number=2)(pool(5, clients)).places) == [1, 3]
    assert sorted(clients.asked[0]) == [0, 1, 2, 3, 4]


@given(st.integers(0, 50), st.lists(st.floats(0, 10, width=32), min_size=6, max_size=6, unique=True))
def test_no_candidate_left_out_has_a_larger_loss_than_one_that_takes_part(seed, losses):
    clients = Clients(losses)
    chosen = PowerOfChoice(number=2, candidates=4)(pool([1, 2, 3, 4, 5, 6], clients, seed=seed)).places
    (asked,) = clients.asked
    assert len(asked) == len(set(asked)) == 4
    assert sorted(chosen) == sorted(sorted(asked, key=lambda place: losses[place])[-2:])


def test_by_size_ranks_by_loss_times_share_of_the_data():
    samples = [10, 10, 10, 100, 10]  # 1.5 * 100 / 140 is now before 2.0 * 10 / 140
    assert PowerOfChoice(number=1)(pool(samples, Clients(LOSSES))).places == [1]
    assert PowerOfChoice(number=1, by_size=True)(pool(samples, Clients(LOSSES))).places == [3]


def probability_of_pairs(weights):
    """The chance of each pair when two are drawn one after the other by weight."""
    whole = sum(weights)
    chance = Counter()
    for first, second in itertools.permutations(range(len(weights)), 2):
        chance[frozenset((first, second))] += weights[first] / whole * weights[second] / (whole - weights[first])
    return chance


def test_candidates_are_drawn_one_after_the_other_by_size():
    samples, draws = [10, 20, 30, 60], 4000
    selector = PowerOfChoice(number=2, candidates=2)
    seen = Counter(frozenset(selector(pool(samples, number=t)).places) for t in range(1, draws + 1))
    expected = probability_of_pairs(samples)
    chi_squared = sum((seen[pair] - draws * p) ** 2 / (draws * p) for pair, p in expected.items())
    assert chi_squared < 20.5  # 5 degrees of freedom: exceeded once in a thousand


def test_as_many_candidates_as_clients_per_round_needs_no_answer():
    clients = Clients(LOSSES)
    for estimate in ("full", "last"):
        assert len(PowerOfChoice(number=3, candidates=3, estimate=estimate)(pool(5, clients)).places) == 3
    assert clients.asked == []


def test_the_last_reported_loss_is_reused_and_only_the_chosen_report():
    selector, state, clients = PowerOfChoice(number=2, estimate="last"), {}, Clients(LOSSES)
    for number in (1, 2, 3):  # who never reported goes first
        choice = selector(pool(5, clients, number=number, state=state))
        assert clients.asked[-1] == choice.places
        state = choice.state
    assert set(itertools.chain(*clients.asked[:3])) == {0, 1, 2, 3, 4}
    assert torch.equal(state["loss"], torch.tensor(LOSSES))
    last = selector(pool(5, Clients([9.0] * 5), number=4, state=state))
    assert sorted(last.places) == [1, 3]  # by what was reported, not by what would be
    assert last.state["loss"].tolist() == pytest.approx([0.3, 9.0, 0.1, 9.0, 0.9])


@pytest.mark.parametrize("estimate", ["full", "last"])
def test_the_same_round_gives_the_same_choice(estimate):
    selector = PowerOfChoice(number=2, candidates=4, estimate=estimate)
    one, other = (selector(pool(5, Clients(LOSSES), seed=3, number=7)) for _ in range(2))
    assert one.places == other.places
    assert same(one.state, other.state)
    assert len({tuple(selector(pool(5, Clients(LOSSES), number=t)).places) for t in range(30)}) > 1


def test_too_few_and_too_many_candidates_are_refused():
    with pytest.raises(FedloomError, match="candidates=2 are fewer than the 3 clients of a round"):
        PowerOfChoice(number=3, candidates=2)(pool(5))
    with pytest.raises(FedloomError, match="candidates=6, but there are only 5 clients"):
        PowerOfChoice(number=3, candidates=6)(pool(5))
    task = fl.task_of(federation([20, 9, 14]), mlp())
    with pytest.raises(FedloomError, match="candidates=4, but there are only 3 clients"):
        fl.run(task, rounds=1, selection={"name": "poc", "number": 1, "candidates": 4})


def test_in_a_run_each_candidate_is_sent_a_model_and_answers_with_two_numbers():
    task = fl.task_of(federation([20, 9, 14, 11]), mlp())
    selection = {"name": "power-of-choice", "number": 1, "candidates": 3}
    record = fl.run(task, rounds=1, selection=selection, eval_every=0).records[-1]
    row = task.layout.width * 4
    assert record["bytes_down"] == (3 + 1) * row
    assert record["bytes_up"] == 3 * 8 + row


def test_in_a_run_the_client_with_the_largest_loss_takes_part():
    task = fl.task_of(federation([20, 9, 14, 11]), mlp())
    history = fl.run(task, rounds=1, selection={"name": "poc", "number": 1})
    untrained = fl.run(task, rounds=1, local={"lr": 1e-30})  # its clients' losses are of the first model
    losses = [client["loss"] for client in untrained.clients]  # in this federation test and training parts are the same
    assert history.records[-1]["selected"] == [losses.index(max(losses))]


def test_in_a_run_a_candidate_that_does_not_answer_takes_no_part():
    task = fl.task_of(federation([20, 9, 14, 11]), mlp())
    run = prepare_run(task, fl.FedAvg(), rounds=1, eval_every=0, selection={"name": "poc", "number": 2})
    usual = play_run(run).records[-1]["selected"]
    for silent in usual:
        found = play_run(run, lambda job, silent=silent: job.kind == "ask" and job.ids == [silent]).records[-1][
            "selected"
        ]
        assert silent not in found
        assert set(usual) - {silent} < set(found)
        assert len(found) == 2


def test_in_a_run_where_no_candidate_answers_somebody_takes_part_all_the_same():
    task = fl.task_of(federation([20, 9, 14, 11]), mlp())
    run = prepare_run(task, fl.FedAvg(), rounds=1, eval_every=0, selection={"name": "poc", "number": 2})
    assert len(play_run(run, lambda job: job.kind == "ask").records[-1]["selected"]) == 2


def test_size_counts_when_clients_are_drawn_and_not_again_in_the_average():
    alike = {"name": "powerofchoice", "number": 2}
    assert resolve({"selection": alike}).weight_by == "uniform"
    assert resolve({"selection": PowerOfChoice(number=2)}).weight_by == "uniform"
    assert resolve({"selection": alike, "weight_by": "samples"}).weight_by == "samples"
    assert resolve({"selection": {"name": "random", "number": 2}}).weight_by == "samples"


def test_in_a_run_the_chosen_count_alike():
    """Clients of 10 and 90 samples: the shared model is halfway between theirs."""
    task = Task("sizes", federation([10, 90]), mlp())
    alike, by_size = (fl.run(task, rounds=1, selection={"name": name}).row for name in ("powerofchoice", "random"))
    uniform = fl.run(task, rounds=1, weight_by="uniform").row
    assert torch.equal(alike, uniform)
    assert not torch.equal(alike, by_size)


@pytest.mark.parametrize("part", ["validation", "training"])
def test_the_loss_is_that_of_the_validation_part_or_of_the_training_part_as_the_documents_have_it(part):
    data = federation([30, 31, 32, 33])
    half = Ragged.of([data.train[client][:15].numpy() for client in range(4)])
    rest = Ragged.of([data.train[client][15:].numpy() for client in range(4)])
    task = Task("two parts", replace(data, train=half, valid=rest), mlp())
    trainer = prepare_run(task, fl.FedAvg()).composition.trainer
    lists = task.federation.train if part == "training" else task.federation.valid
    other = task.federation.valid if part == "training" else task.federation.train
    row = task.initial_row().expand(4, -1)
    worst, not_worst = (
        int(trainer.scores(row, [some[client] for client in range(4)]).mean_loss.argmax()) for some in (lists, other)
    )
    assert worst != not_worst  # else nothing is shown
    selection = {"name": "powerofchoice", "number": 1, "loss_on": part}
    history = fl.run(task, "fedavg", rounds=1, selection=selection, eval_every=0)
    assert history.records[-1]["selected"] == [worst]
