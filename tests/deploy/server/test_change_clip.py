"""A change that moves too far, or too far against the others, counts with the usual size; all others as they are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.message import Message, Wave
from fedloom.deploy.server.change_clip import ChangeClip, opposition, room
from fedloom.deploy.server.relative_bounds import RelativeBounds
from fedloom.rounds.screen import Influence, Verdict

ROW = torch.zeros(2)


def judge(*changes: tuple[float, float], samples: list[int] | None = None) -> Verdict:
    """The verdict on some changes of a model of two numbers, with the default bounds of a deployment."""
    rows = torch.tensor(changes, dtype=torch.float32)
    sizes = torch.tensor(samples or [10] * len(rows))
    wave = Wave(list(range(len(rows))), Message({"row": ROW}))
    return RelativeBounds(50).judge(fl.FedAvg(), wave, {"row": rows}, Influence(sizes, sizes / sizes.sum()), {})


def test_what_moves_against_the_others_counts_with_the_usual_size():
    verdict = judge((1, 0), (1, 0), (1, 0), (-10, 0))
    assert list(verdict.clipped) == [3]
    assert verdict.scales["row"].tolist() == pytest.approx([1, 1, 1, 0.1])
    assert "moved by 10 against the other sites, 3 times (clip_against) the usual 1 is allowed" in verdict.clipped[3]


def test_with_the_others_or_across_them_a_change_may_be_larger():
    assert not judge((1, 0), (1, 0), (1, 0), (10, 0)).clipped
    assert not judge((1, 0), (1, 0), (1, 0), (0, 10)).clipped
    assert not judge((1, 0), (1, 0), (1, 0), (-2.9, 0)).clipped
    verdict = judge((1, 0), (1, 0), (1, 0), (0, 21))
    assert verdict.scales["row"].tolist() == pytest.approx([1, 1, 1, 1 / 21])
    assert list(judge((1, 0), (1, 0), (1, 0), (0, 51)).refused) == [3]


def test_a_small_site_may_differ_as_much_more_as_it_weighs_less_and_a_large_one_by_a_root():
    assert not judge((1, 0), (1, 0), (1, 0), (-19, 0), samples=[10, 10, 10, 1]).clipped  # of 31/4 the mean weight
    assert judge((1, 0), (1, 0), (1, 0), (-19, 0), samples=[10, 10, 10, 10]).clipped
    influence = Influence(torch.tensor([10, 10, 1000]), torch.tensor([10, 10, 1000]) / 1020)
    assert room(influence).tolist() == pytest.approx([34, 34, 10])


def test_honest_sites_of_one_to_three_hundred_are_all_believed():
    """One large site moves far; most small ones have learnt their few samples and move by almost nothing."""
    changes = [(0.3, 0.0), (0.0, 0.3), *[(1e-3, 0.0)] * 10]
    verdict = judge(*changes, samples=[900, *[3] * 11])
    assert not verdict.refused
    assert not verdict.clipped


def test_two_sites_are_not_clipped_since_nobody_knows_who_is_wrong():
    assert not judge((1, 0), (-40, 0)).clipped


@given(
    st.lists(
        st.tuples(*[st.floats(-10, 10, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)] * 3),
        min_size=3,
        max_size=6,
    )
)
def test_opposition_is_the_component_along_the_mean_of_the_others(changes):
    rows = torch.tensor(changes, dtype=torch.float64)
    sizes, usual = rows.norm(dim=1), torch.full((len(rows),), 3.0, dtype=torch.float64)
    weights = torch.arange(1.0, len(rows) + 1, dtype=torch.float64)
    found = opposition(rows, sizes, weights, usual)
    for place in range(len(rows)):
        others = [k for k in range(len(rows)) if k != place]
        mean = sum(weights[k] * rows[k] * min(1.0, float(3 / sizes[k])) for k in others if sizes[k] > 0)
        if isinstance(mean, int) or float(mean.norm()) < 1e-3:
            continue  # the others have no direction
        assert float(found[place]) == pytest.approx(-float(rows[place] @ mean / mean.norm()), abs=1e-6)


def test_a_tensor_of_one_number_is_never_clipped():
    wave = Wave([0, 1, 2, 3], Message({"row": ROW}))
    influence = Influence(torch.full((4,), 10), torch.full((4,), 0.25))
    fine, losses = torch.ones(4, dtype=torch.bool), torch.tensor([1.0, 1.0, 1.0, -40.0])
    sizes, usual = losses.abs().double(), torch.ones(4, dtype=torch.float64)
    assert ChangeClip().scales(fl.FedAvgExit(), wave, {"loss": losses}, "loss", sizes, usual, influence, fine) is None
