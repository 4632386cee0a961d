"""Local optimisers are torch's, client by client."""

import pytest
import torch

from fedloom.core.local_work import LocalWork
from fedloom.training.gradients import clip_
from fedloom.training.optimizers.make import make_optimizer as Optimizer

CASES = {
    "sgd": (LocalWork(lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "nesterov": (
        LocalWork(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": (LocalWork(optimizer="adam", lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_client_steps_as_torch_does(case):
    work, theirs = case
    start = [torch.randn(3, 4, 2), torch.randn(3, 4)]
    values = [v.clone() for v in start]
    optimizer = Optimizer(work, work.lr, values)
    copies = [[v[k].clone().requires_grad_() for v in start] for k in range(3)]
    references = [theirs(copy) for copy in copies]
    for _ in range(5):
        gradients = [torch.randn_like(v) for v in values]
        for k in range(3):
            for leaf, gradient in zip(copies[k], gradients, strict=True):
                leaf.grad = gradient[k].clone()
            references[k].step()
        optimizer.step([g.clone() for g in gradients])
    for k in range(3):
        for value, leaf in zip(values, copies[k], strict=True):
            assert torch.allclose(value[k], leaf, atol=1e-6)


def test_clipping_bounds_each_client_on_its_own():
    gradients = [torch.tensor([[3.0, 0.0], [0.3, 0.0]]), torch.tensor([[4.0], [0.4]])]
    clip_(gradients, 1.0)
    assert torch.allclose(gradients[0], torch.tensor([[0.6, 0.0], [0.3, 0.0]]), atol=1e-5)
    assert torch.allclose(gradients[1], torch.tensor([[0.8], [0.4]]), atol=1e-5)
