"""Graph networks against PyTorch Geometric: the same weights give the same numbers and the same gradients.

PyTorch Geometric takes seconds to import, so nothing here is imported before a test needs it.
"""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

from fedloom.tasks.flows.learning.flow_task import task_of_corpus
from support import small_flows

pytestmark = pytest.mark.slow


@pytest.fixture
def bench() -> ModuleType:
    """The models that bench/graphs.py writes with PyTorch Geometric."""
    pytest.importorskip("torch_geometric")
    import graphs

    return graphs


@pytest.mark.parametrize("blocks", [1, 2, 6])
def test_fullgn_equals_a_stack_of_meta_layers(bench: ModuleType, blocks: int) -> None:
    made = task_of_corpus(small_flows.corpus(), model_options={"blocks": blocks})
    made.model.double()
    positions = torch.cat([made.federation.train[0], made.federation.test[1]])
    batch, targets = bench.Batch.from_data_list(bench.data_objects(made, positions)), made.targets(positions)
    ours, theirs = made.model(made.inputs(positions)), bench.MetaStack(made.model)(batch)
    torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
    found, expected = (
        torch.autograd.grad(
            F.cross_entropy(logits, targets), list(made.model.parameters()), allow_unused=True, materialize_grads=True
        )
        for logits in (ours, theirs)
    )
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-10, rtol=1e-8)
