"""Optimisers of a user's own: any class of torch.optim's kind, one client at a time."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.training.batches import Assignment
from fedloom.training.execution import decide
from support.synthetic import distance, federation, mlp, train_all

SIGNS = """
import torch

class Signs(torch.optim.Optimizer):
    def __init__(self, params, lr, scale=1.0):
        super().__init__(params, {"lr": lr, "scale": scale})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = p.data - group["lr"] * group["scale"] * p.grad.sign()

class NotOne:
    pass
"""
WORK = LocalWork(steps=20, batch_size=8, optimizer="torch.optim:Adamax", lr=0.01)
RUN = {"rounds": 2, "selection": {"number": 3}, "seed": 1}


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SIGNS)
    return f"{path}:Signs"


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=5, alpha=0.5)


def test_each_client_steps_as_torch_does():
    task = Task("t", federation([40, 25, 9]), mlp())
    work = replace(WORK, optimizer_options={"betas": [0.8, 0.9], "weight_decay": 0.1})
    rows = train_all(task, "loop", work)
    for client in range(3):
        model = mlp()
        optimizer = torch.optim.Adamax(model.parameters(), lr=0.01, betas=(0.8, 0.9), weight_decay=0.1)
        for positions in Assignment.of(client, task.federation.train[client], work, 3, 1):
            optimizer.zero_grad()
            F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
            optimizer.step()
        assert float((rows[client] - task.layout.row(model)).abs().max()) < 1e-6


def test_torchs_own_sgd_is_ours_with_pull_clip_and_rates_within_the_round():
    task = Task("t", federation([40, 25, 9]), mlp())
    ours = LocalWork(epochs=2, batch_size=8, clip=0.5, round_schedule="cosine", round_decay=0.1)
    theirs = replace(ours, optimizer="torch.optim:SGD")
    rows = [
        train_all(task, "loop", work, pull=lambda rows, received: 0.1 * (rows - received)) for work in (ours, theirs)
    ]
    assert distance(*rows) < 1e-6


def test_what_wants_to_be_vectorised_says_why_it_is_not():
    chosen = decide(Task("t", federation([8]), mlp()), "auto", WORK)
    assert (chosen.name, "steps one client's parameters" in chosen.reason) == ("loop", True)


def test_a_class_that_gives_parameters_other_memory_trains_in_a_run(own, task):
    local = {"optimizer": own, "optimizer_options": {"scale": 0.5}, "lr": 0.01}
    for method in ("fedprox", "scaffold:option=1", "ditto", "fedrep", "fedproxexit", "fedseq:max_clients=2"):
        history = fl.run(task, method, local=local, **RUN)
        assert history.config["local"]["optimizer"] == own


def test_a_class_of_python_is_named_in_the_config(task):
    history = fl.run(task, local={"optimizer": torch.optim.Adamax, "lr": 0.01}, **RUN)
    assert history.config["local"]["optimizer"] == "torch.optim.adamax:Adamax"


@pytest.mark.parametrize(
    ("local", "message"),
    [
        ({"optimizer": "torch.optim:Adamox"}, "torch.optim has no class Adamox"),
        (
            {"optimizer": "torch.optim:Adamax", "optimizer_options": {"beta": 1}},
            "cannot make a step .TypeError.*'beta'",
        ),
        ({"optimizer": "torch.optim:LBFGS"}, "torch.optim:LBFGS cannot make a step"),
        ({"optimizer": "torch.optim:SparseAdam"}, "torch.optim:SparseAdam cannot make a step"),
        ({"optimizer": "none.py:Mine"}, "there is no file"),
    ],
)
def test_what_cannot_train_is_refused_before_the_run(local, message, task):
    with pytest.raises(FedloomError, match=message):
        fl.run(task, local=local, **RUN)


def test_a_class_that_is_no_optimizer_is_refused(own, task):
    with pytest.raises(FedloomError, match=r"mine\.py has no class NotOne that is a"):
        fl.run(task, local={"optimizer": own.replace("Signs", "NotOne")}, **RUN)


def test_private_samples_need_steps_that_the_library_makes(own, task):
    for local in ({"optimizer": own}, {"accumulate": 2}):
        with pytest.raises(FedloomError, match="sample_privacy counts one draw of samples for each step"):
            fl.run(task, local=local, sample_privacy={"noise": 1.0, "delta": 1e-3}, **RUN)
