"""The hand-written backward pass gives the gradients that autograd gives."""

import torch
import torch.nn.functional as F
from torch import nn

from fedloom.training.chain_pass import ChainGradients
from fedloom.training.layer_graph import sequential_graph
from fedloom.training.stacked import run_graph

CLIENTS, SAMPLES = 3, 4


def test_gradients_are_autograds_and_use_the_same_memory_for_fewer_clients():
    graph = sequential_graph(nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 8), nn.Tanh(), nn.Linear(8, 4)))
    assert graph is not None
    shapes = {"0.weight": (20, 6), "0.bias": (20,), "2.weight": (8, 20), "2.bias": (8,), "4.weight": (4, 8)}
    memory = {name: torch.zeros(CLIENTS, *shape) for name, shape in shapes.items()}
    made = ChainGradients(frozenset(shapes), memory)
    for clients in (CLIENTS, 2):
        stacks = {name: torch.randn(clients, *shape) for name, shape in shapes.items()}
        stacks["4.bias"] = torch.zeros(clients, 4)  # frozen
        x, y = torch.randn(clients, SAMPLES, 6), torch.randint(0, 4, (clients * SAMPLES,))
        keys = torch.arange(clients)

        def loss(outputs, y=y):
            return F.cross_entropy(outputs.flatten(0, 1), y, reduction="sum")

        leaves = {name: stacks[name].clone().requires_grad_() for name in shapes}
        wanted = torch.autograd.grad(loss(run_graph(graph, stacks | leaves, x, keys)), list(leaves.values()))
        made.run(graph.training, stacks, x.clone(), keys, loss)
        for own, autograd in zip(made.of_first(clients, list(shapes)), wanted, strict=True):
            assert torch.allclose(own, autograd, atol=1e-5)
