"""Top-k: by hand, its error feedback, and what a server does not believe."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.channel.topk import TopK, largest_positions
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates


def test_the_largest_entries_are_sent_with_their_positions():
    rows = torch.tensor([[0.1, -5.0, 2.0, 0.0], [7.0, 0.5, -0.2, 6.0]])
    step = TopK(fraction=0.5, error_feedback=False)
    values, extras = step.encode(rows, MemorySender())
    assert values.tolist() == [[-5.0, 2.0], [7.0, 6.0]]
    assert extras["positions"].tolist() == [[1, 2], [0, 3]]
    assert step.decode(values, extras, 4).tolist() == [[0.0, -5.0, 2.0, 0.0], [7.0, 0.0, 0.0, 6.0]]


def test_what_was_not_sent_is_sent_later():
    step, memory = TopK(fraction=0.25), MemorySender()
    update = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    sent = [step.decode(*step.encode(rows, memory), 4) for rows in (update, *[torch.zeros(1, 4)] * 3)]
    assert torch.equal(torch.stack(sent).sum(0), update)
    assert memory.kept["error"].abs().sum() == 0


def test_what_is_sent_and_what_is_kept_are_the_update_and_the_old_error():
    step, memory, random = TopK(fraction=0.1), MemorySender(), torch.Generator().manual_seed(0)
    error = torch.zeros(3, 40)
    for _ in range(5):
        rows = torch.randn(3, 40, generator=random)
        sent = step.decode(*step.encode(rows, memory), 40)
        assert torch.allclose(sent + memory.kept["error"], rows + error)
        error = memory.kept["error"]


def test_all_entries_is_the_update_itself():
    rows = torch.randn(2, 7)
    step = TopK(fraction=1.0, error_feedback=False)
    assert torch.equal(step.decode(*step.encode(rows, MemorySender()), 7), rows)


@settings(deadline=None, max_examples=60)
@given(updates())
def test_the_error_is_within_its_bound(rows):
    step, (_, width) = TopK(0.3, error_feedback=False), rows.shape
    error = (send(step, rows).double() - rows.double()).square().sum(1)
    assert bool((error <= rows.double().square().sum(1) * (1 - step.width(width) / width) * (1 + 1e-9)).all())


@pytest.mark.parametrize("positions", [[[0, 4]], [[-1, 2]], [[2, 1]], [[1, 1]]])
def test_positions_that_no_client_sends_are_refused(positions):
    with pytest.raises(ValueError, match="positions must ascend"):
        TopK(0.5).decode(torch.ones(1, 2), {"positions": torch.tensor(positions, dtype=torch.int32)}, 4)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5])
def test_an_impossible_fraction_is_refused(fraction):
    with pytest.raises(FedloomError, match="above 0 and at most 1"):
        TopK(fraction)


@pytest.mark.slow
def test_error_feedback_reaches_what_plain_top_k_loses():
    task = fl.task("digits", clients=5, alpha=1.0)
    loss = {}
    for memory in (True, False):
        run = fl.run(task, "fedavg", rounds=12, channel=[TopK(0.01, error_feedback=memory)])
        loss[memory] = run.last("global_model/global_test/loss")
    assert loss[True] < loss[False] - 0.05


def test_error_feedback_behind_a_step_that_moves_entries_is_refused():
    task = fl.task("digits", clients=3)
    with pytest.raises(FedloomError, match="put topk first"):
        fl.run(task, "fedavg", rounds=1, channel=[TopK(0.25, error_feedback=False), TopK(0.5)])
    fl.run(task, "fedavg", rounds=1, channel=[TopK(0.25), TopK(0.5, error_feedback=False)])


@settings(deadline=None, max_examples=60)
@given(updates(), st.floats(0.05, 1.0))
def test_the_selected_magnitudes_are_those_of_a_sort(rows, fraction):
    count = TopK(fraction).width(rows.shape[1])
    places = largest_positions(rows, count)
    assert bool((places.diff(dim=1) > 0).all())
    assert torch.equal(rows.abs().gather(1, places).sort(1).values, rows.abs().sort(1).values[:, -count:])


def test_of_equal_magnitudes_the_first_are_taken():
    assert largest_positions(torch.tensor([[1.0, -2.0, 1.0, 1.0, 0.0]]), 3).tolist() == [[0, 1, 2]]
    assert largest_positions(torch.zeros(1, 4), 2).tolist() == [[0, 1]]
    assert largest_positions(torch.tensor([[1.0, torch.nan, 3.0]]), 2).tolist() == [[1, 2]]
