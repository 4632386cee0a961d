"""Counting what follows the same actions: contexts and back-off by hand, and the numbers on real flows."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.tasks.flows.learning.flow_counts import CountsAnswer, FlowCounts, flow_contexts
from support.paths import DATA_FOLDER


def by_hand(contexts: list[list[int]], targets: list[int], classes: int = 3) -> tuple[FlowCounts, Any]:
    """Counts over given contexts, and a stand-in for a task with these targets."""
    counts = FlowCounts(None, None)  # type: ignore[arg-type]  # contexts are given instead of a table
    counts.__dict__["contexts"] = np.array(contexts)
    task = SimpleNamespace(
        targets=lambda positions: torch.tensor(targets)[positions], federation=SimpleNamespace(classes=classes)
    )
    return counts, task


def small_flows() -> FlowCounts:
    (counts,) = fl.task("flows", clients=3, options={"largest": 300}).baselines
    assert isinstance(counts, FlowCounts)
    return counts


def test_witten_and_bell_by_hand() -> None:
    """Five points: contexts a, a, a, b, b of one order, followed by 0, 0, 1, 2, 2."""
    counts, task = by_hand([[0] * 5, [0, 0, 0, 1, 1]], [0, 0, 1, 2, 2])
    shares = counts.fit(task, torch.arange(5)).outputs(torch.tensor([0, 3])).exp()
    empty = (np.array([2, 1, 2]) + 3 * np.full(3, 1 / 3)) / (5 + 3)
    assert shares[0].tolist() == pytest.approx(((np.array([2, 1, 0]) + 2 * empty) / (3 + 2)).tolist(), rel=1e-5)
    assert shares[1].tolist() == pytest.approx(((np.array([0, 0, 2]) + 1 * empty) / (2 + 1)).tolist(), rel=1e-5)
    assert shares.sum(1).tolist() == pytest.approx([1, 1])


def test_own_counts_back_off_to_those_of_all() -> None:
    counts, task = by_hand([[0] * 5], [0, 0, 1, 2, 2])
    pooled = counts.fit(task, torch.arange(5))
    own = counts.fit(task, torch.tensor([2]), pooled).outputs(torch.tensor([0])).exp()
    behind = pooled.outputs(torch.tensor([0])).exp()[0].numpy()
    assert own[0].tolist() == pytest.approx(((np.array([0, 1, 0]) + behind) / 2).tolist(), rel=1e-5)
    nobody = counts.fit(task, torch.zeros(0, dtype=torch.int64), pooled)
    assert isinstance(nobody, CountsAnswer)
    assert torch.allclose(nobody.outputs(torch.arange(5)), pooled.outputs(torch.arange(5)), atol=1e-6)


def test_a_longer_context_never_joins_what_a_shorter_one_tells_apart() -> None:
    counts = small_flows()
    contexts = flow_contexts(counts.table, counts.points)
    assert len(contexts) == 4
    for shorter, longer in pairwise(contexts):
        pairs = np.unique(np.stack([longer, shorter]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1]


def test_the_target_is_no_part_of_its_own_context() -> None:
    """Other kinds of nodes that lead nowhere, and so are only ever targets, change no context."""
    counts = small_flows()
    table, kind = counts.table, list(counts.table.schema.node).index("kind")
    before = flow_contexts(table, counts.points)
    owner = torch.arange(len(table.first_edge) - 1).repeat_interleave(table.first_edge.diff())
    sources = (table.first_node[owner] + table.edges[:, 0]).unique()
    leads_nowhere = torch.ones(len(table.nodes), dtype=torch.bool)
    leads_nowhere[sources.long()] = False
    assert leads_nowhere.any()
    table.nodes[leads_nowhere, kind] = 0
    assert np.array_equal(before, flow_contexts(table, counts.points))


@pytest.mark.slow
@pytest.mark.skipif(not (DATA_FOLDER / "n8n_flows.npz").is_file(), reason="n8n flows are not in the data folder")
def test_counts_on_thirty_owners_of_real_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent code with another smoothing has 31.8 % pooled, and 42.5 % for own on pooled counts."""
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    settings = {"clients": 30, "test_share": 0.15, "valid_share": 0.15}
    small = {"model_options": {"width": 8, "blocks": 1}}
    history = fl.run(fl.task("n8n", **settings, **small), "fedavg", rounds=1, local={"steps": 1})
    pooled, own = (one["metrics"]["client_model/own_test/accuracy/mean"] for one in history.baselines)
    assert pooled == pytest.approx(0.318, abs=0.04)
    assert own == pytest.approx(0.425, abs=0.04)
