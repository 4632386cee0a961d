"""Which organisations of a corpus take part."""

import logging
from dataclasses import replace

import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.learning.flow_source import RealFlowOptions, random_organisations, suitable_organisations
from fedloom.tasks.flows.rules import N8N
from support import small_flows

CORPUS = small_flows.corpus(4, 12)


def test_large_flows_and_small_owners_are_left_out_and_said(caplog: pytest.LogCaptureFixture) -> None:
    north, south, *_ = CORPUS.organisations
    corpus = Corpus((north, replace(south, flows=south.flows[:3]), Organisation("unknown", north.flows)), N8N, "flows")
    sizes = sorted(len(flow.nodes) for flow in north.flows)
    with caplog.at_level(logging.WARNING, "fedloom"):
        kept = suitable_organisations(
            corpus, RealFlowOptions(least_flows=4, largest_flow=sizes[5]), unknown_owner="unknown"
        )
    assert [organisation.name for organisation in kept.organisations] == ["north"]
    assert max(len(flow.nodes) for flow in kept.organisations[0].flows) == sizes[5]
    large = sum(size > sizes[5] for size in sizes)
    assert (
        "flows: left out: 1 organisations with fewer than 4 flows, 12 flows of unknown owners, "
        f"{large} flows of more than {sizes[5]} nodes"
    ) in caplog.text
    with pytest.raises(FedloomError, match="lower least_flows"):
        suitable_organisations(corpus, RealFlowOptions(least_flows=100))


def test_organisations_are_drawn_by_seed_and_keep_their_order() -> None:
    some = {tuple(o.name for o in random_organisations(CORPUS, 2, seed).organisations) for seed in range(12)}
    names = [organisation.name for organisation in CORPUS.organisations]
    assert len(some) > 2
    assert all(names.index(a) < names.index(b) for a, b in some)
    assert random_organisations(CORPUS, None, 0) is CORPUS
    with pytest.raises(FedloomError, match="has 4 organisations"):
        random_organisations(CORPUS, 5, 0)
