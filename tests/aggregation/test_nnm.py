"""NNM by hand, its promise, and what it gives to the rule behind it."""

import pytest
import torch

import fedloom as fl
from fedloom.aggregation.chain import AggregatorChain
from support.aggregations import aggregate, honest_rows


def mixed(rows, share):
    """The rows that a rule behind it gets."""
    seen = []

    class See(fl.Median):
        def rule(self, found, context):
            seen.append(found)
            return super().rule(found, context)

    aggregate(AggregatorChain((fl.NNM(share=share), See())), rows)
    return seen[0]


def test_each_row_is_the_mean_of_its_nearest_by_hand():
    rows = torch.tensor([[0.0], [1.0], [3.0], [10.0]])  # f = 1: the three nearest, itself among them
    found = mixed(rows, 0.25)
    assert found.flatten().tolist() == pytest.approx([4 / 3, 4 / 3, 4 / 3, 14 / 3])


def test_clients_with_starts_of_their_own_are_compared_by_their_changes():
    changes, starts = honest_rows(6, 5, 3), 100 * torch.arange(6.0)[:, None].expand(6, 5)
    together, apart = (aggregate(AggregatorChain((fl.NNM(share=0.2), fl.Mean())), start + changes, origin=start) for start in (starts[:1] * 0, starts))  # fmt: skip # noqa: E501
    assert torch.allclose(apart - starts.mean(0), together, atol=1e-3)


def test_without_hostile_clients_all_become_the_mean():
    rows = honest_rows(6, 5, 3)
    assert torch.allclose(mixed(rows, 0.0), rows.mean(0).expand_as(rows), atol=1e-6)


@pytest.mark.parametrize("size", [1e3, 1e8, 1e20, 3e38])
def test_far_rows_have_no_part_in_honest_ones(size):
    rows = honest_rows(10, 7, 1)
    rows[[2, 5]] = size
    found = mixed(rows, 0.2)
    honest = [place for place in range(10) if place not in (2, 5)]
    assert torch.allclose(found[honest], rows[honest].mean(0).expand(8, 7), atol=1e-4)
    assert bool(found.isfinite().all())


def test_it_saves_the_median_where_clients_differ():
    task = fl.task("digits", clients=12, alpha=0.1)
    work = {"epochs": 1, "lr": 0.1}
    runs = [fl.run(task, "fedavg", rounds=6, aggregation=rule, local=work) for rule in ("median", ["nnm", "median"])]
    alone, behind = (run.last("global_model/global_test/accuracy") for run in runs)
    assert behind > alone + 0.05
