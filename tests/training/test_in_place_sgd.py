"""The hand-written backward pass is autograd's: one step of a chain of layers against gradients of the whole chain."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedloom.training.in_place_sgd import InPlaceSGD
from fedloom.training.keyed_dropout import KeyedDropout
from fedloom.training.layer_graph import ELEMENTWISE, sequential_graph
from fedloom.training.stacked import run_graph

CLIENTS, SAMPLES, LR, DECAY = 3, 7, 0.3, 0.05
CHAINS = {
    **{layer.__name__: nn.Sequential(nn.Linear(6, 20), layer(), nn.Linear(20, 4)) for layer in ELEMENTWISE},
    "three layers": nn.Sequential(
        nn.Flatten(), nn.Linear(6, 17), nn.ReLU(), nn.Linear(17, 5), nn.Tanh(), nn.Linear(5, 4)
    ),
    "no bias": nn.Sequential(nn.Linear(6, 20, bias=False), nn.ReLU(), nn.Linear(20, 4, bias=False)),
    "in place": nn.Sequential(nn.Linear(6, 20), nn.ELU(inplace=True), nn.Linear(20, 4), nn.ReLU(inplace=True)),
    "dropout": nn.Sequential(nn.Linear(6, 20), nn.ReLU(), KeyedDropout(0.4, 1), nn.Linear(20, 4)),
    "no linear layer last": nn.Sequential(nn.Tanh(), nn.Linear(6, 4), nn.Sigmoid()),
}


@pytest.mark.parametrize("frozen", ["none", "first", "last", "all"])
@pytest.mark.parametrize("pulled", ["nothing", "affine", "any"])
@pytest.mark.parametrize("case", CHAINS)
def test_a_step_is_the_one_that_autograd_gives(case, pulled, frozen):
    model, random = CHAINS[case], torch.Generator().manual_seed(3)
    graph = sequential_graph(model)
    assert graph is not None
    assert graph.is_chain
    stacks = {
        name: 0.5 * torch.randn(CLIENTS, *tensor.shape, generator=random) for name, tensor in model.named_parameters()
    }
    x, keys = torch.randn(CLIENTS, SAMPLES, 6, generator=random), torch.arange(CLIENTS)
    y = torch.randint(0, 4, (CLIENTS * SAMPLES,), generator=random)
    constants = {name: torch.randn(stack.shape, generator=random) for name, stack in stacks.items()}
    names = list(dict.fromkeys(name.rpartition(".")[0] for name in stacks))
    still = {"none": [], "first": names[:1], "last": names[-1:], "all": names}[frozen]
    moving = [name for name in stacks if name.rpartition(".")[0] not in still]

    def loss(outputs):
        return F.cross_entropy(outputs.flatten(0, 1), y, reduction="sum") / SAMPLES

    def pull(_, value):
        return torch.sin(value)

    leaves = {name: stack.clone().requires_grad_() for name, stack in stacks.items()}
    slopes = torch.autograd.grad(loss(run_graph(graph, leaves, x.clone(), keys)), list(leaves.values()))
    expected = {name: stack.clone() for name, stack in stacks.items()}
    for name, slope in zip(leaves, slopes, strict=True):
        if name in moving:
            more = {"nothing": torch.tensor(0.0), "affine": constants[name], "any": pull(name, stacks[name])}[pulled]
            expected[name] -= LR * (slope + DECAY * stacks[name] + more)

    before = x.clone()
    sgd = InPlaceSGD(
        frozenset(moving), LR, DECAY, constants if pulled == "affine" else {}, pull if pulled == "any" else None
    )
    sgd.run(graph.training, stacks, x, keys, loss)
    assert torch.equal(x, before)
    for name, stack in stacks.items():
        torch.testing.assert_close(stack, expected[name], rtol=1e-5, atol=1e-6, msg=name)
        assert not stack.requires_grad
