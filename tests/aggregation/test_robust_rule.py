"""Buckets, and what a share of hostile clients means with them."""

from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.aggregation.centred_clipping import CentredClipping
from fedloom.aggregation.chain import AggregatorChain
from fedloom.aggregation.krum import Krum
from fedloom.aggregation.median import Median
from fedloom.aggregation.robust_rule import RobustRule, ShareRule
from fedloom.aggregation.trimmed_mean import TrimmedMean
from fedloom.core.aggregator import TOLERATED
from support.aggregations import aggregate, aggregation_context


@dataclass(frozen=True)
class Rows(RobustRule):
    """Shows what the rule sees."""

    def rule(self, rows, context):
        return rows


def test_each_client_is_in_one_bucket_and_a_rest_is_a_bucket_of_its_own():
    rows = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0]])
    seen = aggregate(Rows(bucket=2), rows)
    assert seen.shape == (3, 1)
    assert float(seen[:2].sum() * 2 + seen[2]) == 31.0


def test_buckets_are_drawn_anew_in_each_round():
    rows = torch.arange(12.0)[:, None]
    first, second = (aggregate(Rows(bucket=3), rows, number=number) for number in (1, 2))
    assert not torch.equal(first, second)
    assert torch.equal(first, aggregate(Rows(bucket=3), rows, number=1))


def test_a_bucket_of_one_changes_nothing():
    rows = torch.randn(4, 3)
    assert torch.equal(aggregate(Rows(), rows), rows)


def test_buckets_help_the_median_where_clients_differ():
    """Most clients have nothing in a coordinate: the median is 0, the mean is not. Buckets bring some of it back."""
    rows = torch.zeros(30, 1)
    rows[:12] = 1.0
    plain, bucketed = (float(aggregate(Median(bucket=size), rows)) for size in (1, 5))
    assert plain == 0.0
    assert abs(bucketed - 0.4) <= 0.2


@pytest.mark.parametrize(("rows", "hostile"), [(10, 4), (5, 2), (3, 1), (1, 0)])
def test_a_share_of_buckets_is_that_of_clients_times_the_bucket(rows, hostile):
    assert TrimmedMean(share=0.2, bucket=2).hostile(rows) == hostile


def test_a_share_near_the_bound_is_cut_to_what_the_rule_bears():
    class Careful(ShareRule):
        bound = (2, 3)

    assert Careful(share=0.45).hostile(8) == 2  # 3 of 8 are not borne: 8 < 2 * 3 + 3


@pytest.mark.parametrize(
    ("rule", "clients", "found"),
    [
        (Krum(share=0.45), 20, 8),  # 9 of 20, and 20 < 2 * 9 + 3
        (Krum(share=0.45), 21, None),
        (Krum(share=0.2), 4, 0),
        (Krum(share=0.0), 4, None),
        (TrimmedMean(share=0.2, bucket=2), 4, 0),  # two buckets
        (TrimmedMean(share=0.2, bucket=2), 5, None),  # three, of which one may be hostile
        (Median(), 2, 0),
        (Median(), 3, None),
        (CentredClipping(), 1, None),
    ],
)
def test_what_a_rule_withstands_is_noted_where_its_settings_promise_more(rule, clients, found):
    assert rule.tolerated(clients) == found
    context = aggregation_context()
    context.note_tolerated(rule, clients)
    context.note_tolerated(Median(), 50)
    assert context.findings == ({} if found is None else {TOLERATED: found})


def test_less_tolerance_than_promised_is_said_once_and_is_in_the_record_of_each_round(caplog):
    task, share = fl.task("digits", clients=20), {"name": "krum", "share": 0.45}
    history = fl.run(task, "fedavg", rounds=3, aggregation=share, eval_every=0)
    assert [record["metrics"][TOLERATED] for record in history.records if record["round"]] == [8, 8, 8]
    assert caplog.text.count("krum withstood 8 hostile among the clients of round 1, fewer than its settings") == 1
    caplog.clear()
    quiet = fl.run(task, "fedavg", rounds=1, aggregation="krum", eval_every=0)
    assert TOLERATED not in quiet.records[-1]["metrics"]
    assert "withstood" not in caplog.text


def test_a_cluster_with_few_clients_is_noted_too():
    task = fl.task("digits", clients=6)
    history = fl.run(task, "ifca:clusters=3", rounds=2, aggregation="krum", eval_every=0)
    assert history.records[-1]["metrics"][TOLERATED] == 0


def test_a_rule_that_remembers_stops_and_resumes_to_the_same_bytes(tmp_path):
    """FoolsGold sums changes over rounds: a resumed run must not have forgotten them."""

    class Stop(Exception):  # noqa: N818
        pass

    def stop(record):
        if record["round"] == 2:
            raise Stop

    task, settings = fl.task("digits", clients=4), {"rounds": 4, "aggregation": "foolsgold"}
    fl.run(task, "fedavg", out=tmp_path / "whole", **settings)
    with pytest.raises(Stop):
        fl.run(task, "fedavg", out=tmp_path / "parts", observers=[stop], **settings)
    fl.resume(tmp_path / "parts", task=task)
    for name in ("metrics.jsonl", "clients.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_each_cluster_has_a_memory_of_its_own():
    """The centre of one cluster's clipping is not that of another's."""
    task = fl.task("digits", clients=6)
    history = fl.run(task, "ifca:clusters=2", rounds=3, aggregation="centredclipping", eval_every=3)
    assert history.stopped is None


@pytest.mark.parametrize(
    ("rule", "clients", "gone", "does"),
    [
        (TrimmedMean(share=0.2), 5, 1, True),  # f = 1 of 5 becomes 0 of 4
        (TrimmedMean(share=0.2), 5, 2, False),  # more than f
        (TrimmedMean(share=0.2), 8, 2, True),  # more than f, and still as many as for any round
        (TrimmedMean(share=0.2), 1, 1, False),  # nobody is left
        (Krum(share=0.4), 7, 1, True),  # f = 2 of 7 becomes 1 of 6: 6 >= 2 + 3
        (Krum(share=0.4), 7, 2, True),  # f = 0 of 5
        (Krum(share=0.4), 6, 1, True),  # it bears 1 of 6, which becomes 0 of 5
        (Krum(share=0.4), 4, 1, False),  # it bears nobody of 4
        (TrimmedMean(share=0.2, bucket=2), 5, 1, True),  # three buckets bear one
        (Median(), 3, 1, True),
        (Median(), 4, 2, False),
        (Median(bucket=2), 5, 1, True),
        (CentredClipping(), 2, 1, True),  # it promises no number, and needs one client
    ],
)
def test_a_rule_has_as_many_fewer_to_withstand_as_are_known_and_gone(rule, clients, gone, does):
    assert rule.withstands_rest(clients, gone) is does
    assert AggregatorChain((rule,)).withstands_rest(clients, gone) is does
