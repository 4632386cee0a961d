"""Hostile rows of any finite size: every rule keeps what its file promises, and no result is not finite."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.aggregation.any_size import BEYOND, as_finite, cut_sizes, distances_to
from fedloom.aggregation.foolsgold import FoolsGold
from fedloom.aggregation.robust_rule import RobustRule
from fedloom.registry.kinds import AGGREGATORS
from support.aggregations import aggregate, honest_rows
from support.hostile_sizes import AIM, INSIDE, PROMISES, ROWS, SIZES, WIDTH, excess, honest_changes, results

CASES = [(name, hostile) for name, promise in PROMISES.items() for hostile in range(1, promise.most + 1)]
LARGEST = torch.finfo(torch.float32).max
ORIGIN = honest_rows(1, WIDTH, 5)[0]


def holds_promise(name: str, hostile: int, found: torch.Tensor, honest: torch.Tensor) -> bool:
    """Whether a result is what the rule's file promises of it, up to rounding."""
    if not bool(found.isfinite().all()):
        return False
    centre = honest.mean(0)
    away = float((found - centre).norm())
    spread = float((honest - centre).norm(dim=1).max())
    norms = (honest - ORIGIN).norm(dim=1)
    match name:
        case "median" | "trimmedmean":
            return excess(found, honest) <= INSIDE
        case "bulyan":
            return excess(found, honest) <= 1 + INSIDE
        case "geometricmedian":
            return away <= 2 * (ROWS - hostile) / (ROWS - 2 * hostile) * spread * 1.01
        case "krum" | "multikrum":
            diameter = float(torch.cdist(honest, honest).max())
            nearest = float(torch.cdist(found[None], honest).min())
            return nearest <= diameter * math.sqrt((ROWS - hostile - 2) / (ROWS - 2 * hostile - 1)) * (1 + 1e-5)
        case "normbounding" | "centredclipping":
            return float((found - ORIGIN).norm()) <= float(norms.max()) * (1 + 1e-5)
        case "fltrust":
            return float((found - ORIGIN).norm()) <= AIM * math.sqrt(WIDTH) * (1 + 1e-5)
        case "dnc":  # the median distance is at most that of the farthest honest row from the coordinate-wise median
            middle = honest.median(0).values
            return float((found - middle).norm()) <= 101 * 2 * float((honest - middle).norm(dim=1).max())
    raise AssertionError(name)


@pytest.mark.parametrize(("name", "hostile"), CASES)
def test_every_size_leaves_the_promise_standing(name, hostile):
    for sizes in SIZES.values():
        for found, honest in results(name, hostile, sizes):
            assert holds_promise(name, hostile, found, honest), sizes


@pytest.mark.parametrize("name", ["krum", "multikrum", "dnc", "bulyan"])
def test_rules_that_choose_rows_stay_inside_the_honest_range_however_large_the_hostile_rows_are(name):
    for hostile in range(1, PROMISES[name].most + 1):
        for sizes in list(SIZES.values())[1:]:
            assert all(excess(found, honest) <= INSIDE for found, honest in results(name, hostile, sizes))


NUMBERS = st.one_of(
    st.floats(-LARGEST, LARGEST, width=32),
    st.sampled_from([0.0, 1.0, -1e3, 1e8, -1e20, 3e38, -3e38, LARGEST, -LARGEST, 1e-38]),
)


@pytest.mark.parametrize("name", PROMISES)
@settings(max_examples=40)
@given(data=st.data())
def test_any_finite_rows_leave_the_promise_standing(name, data):
    hostile = data.draw(st.integers(1, PROMISES[name].most))
    honest = honest_changes(hostile, data.draw(st.integers(0, 100))) + ORIGIN
    row = st.lists(NUMBERS, min_size=WIDTH, max_size=WIDTH)
    bad = torch.tensor(data.draw(st.lists(row, min_size=hostile, max_size=hostile)))
    found = aggregate(PROMISES[name].rule(hostile), torch.cat([bad, honest]), origin=ORIGIN, ids=list(range(ROWS)))
    assert holds_promise(name, hostile, found, honest)


@pytest.mark.parametrize("name", [*PROMISES, "foolsgold"])
@pytest.mark.parametrize("bucket", [1, 2])
def test_no_number_of_hostile_rows_makes_a_result_that_is_not_finite(name, bucket):
    """Beyond the promise there is no bound but that of the numbers themselves."""
    signs = honest_rows(ROWS, WIDTH, 0).sign()
    rule = FoolsGold() if name == "foolsgold" else PROMISES[name].rule(1)
    if isinstance(rule, RobustRule):
        rule = replace(rule, bucket=bucket)
    memory: dict[str, torch.Tensor] = {}
    for rows in (LARGEST * torch.ones(ROWS, WIDTH), LARGEST * signs, torch.cat([LARGEST * signs[:8], signs[8:]])):
        found = aggregate(rule, rows, ids=list(range(ROWS)), origin=torch.zeros(WIDTH), memory=memory)
        assert found.dtype == torch.float32
        assert bool(found.isfinite().all())


def test_rows_of_ordinary_sizes_are_not_even_copied():
    for rows in (honest_rows(5, 4, 0), 1e6 * honest_rows(5, 4, 0), torch.zeros(3, 2), torch.zeros(0, 2)):
        assert cut_sizes(rows) is rows


def test_a_row_beyond_any_honest_size_keeps_its_direction():
    rows = torch.tensor([[1.0, 0.0], [0.0, -1.0], [3e38, -1.5e38]])
    cut = cut_sizes(rows)
    assert torch.equal(cut[:2], rows[:2])
    assert cut[2].tolist() == pytest.approx([BEYOND, -BEYOND / 2])


def test_where_most_rows_are_zero_a_size_of_one_is_usual():
    rows = torch.tensor([[0.0], [0.0], [0.0], [1.0], [3e38]])
    assert cut_sizes(rows).flatten().tolist() == [0.0, 0.0, 0.0, 1.0, BEYOND]


def test_where_the_usual_rows_are_huge_they_are_computed_with_in_double_precision():
    cut = cut_sizes(torch.full((3, 2), LARGEST))
    assert cut.dtype == torch.float64
    assert bool(cut.square().sum().isfinite())
    assert as_finite(cut.sum(0), torch.zeros(1)).tolist() == [LARGEST, LARGEST]


def test_distances_do_not_overflow():
    assert distances_to(torch.zeros(4), torch.full((1, 4), 1.5e38)).tolist() == pytest.approx([3e38])


@dataclass(frozen=True)
class Huge(fl.Adversary):
    """Hostile clients send updates of one size."""

    size: float = 3e38

    def poison_update(self, name, changes, cohort, hostile):
        return torch.full_like(changes, self.size)


@pytest.mark.parametrize("name", ["geometricmedian", "multikrum", "bulyan", "dnc", "centredclipping", "median"])
def test_a_run_learns_beside_a_client_that_sends_the_largest_numbers(name):
    """Behind the stations that look for numbers that are not finite: these are."""
    task = fl.task("digits", clients=10, partition=fl.iid())
    found = [
        fl.run(task, "fedavg", rounds=3, aggregation=name, adversary=adversary, eval_every=3)
        for adversary in (None, Huge(fraction=0.1))
    ]
    honest, attacked = (history.last("global_model/global_test/accuracy") for history in found)
    assert attacked > honest - 0.2


FIVE = ["median", "trimmedmean", "geometricmedian", "krum", "multikrum", "normbounding", "centredclipping", "dnc"]


@pytest.mark.parametrize("name", FIVE)
def test_one_of_five_that_sends_its_update_a_billion_times_moves_the_result_by_less_than_the_honest_differ(name):
    for seed in range(10):
        changes = AIM + honest_rows(5, WIDTH, seed)
        honest = changes.clone()
        changes[seed % 5] *= 1e9
        rule = AGGREGATORS[name]()
        found, without = (
            aggregate(rule, ORIGIN + rows, origin=ORIGIN, ids=list(range(5))) for rows in (changes, honest)
        )
        others = honest[[place for place in range(5) if place != seed % 5]]
        spread = float(torch.cdist(others, others).max())
        assert float((found - without).norm()) <= spread
