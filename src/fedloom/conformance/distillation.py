"""Claims about methods that exchange what models say of communal samples, and no weights."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from fedloom.conformance.any_method import CLASSES, FEATURES, WORK, labelled_task
from fedloom.conformance.claim import Claim
from fedloom.conformance.quadratics import relative
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.task import Task
from fedloom.methods.distillation.fld import FLD
from fedloom.methods.fedavg import FedAvg


def linear_task() -> Task:
    """The small classification problem with a linear model: the mean of its outputs is the mean model's output."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return replace(labelled_task(), model=nn.Sequential(nn.Linear(FEATURES, CLASSES)))


def to_mean_model(method: Algorithm) -> float:
    """The distance of the mean outputs after one round from those of FedAvg's model after its first round."""
    task = linear_task()
    outputs = run_method(task, method, 1, WORK).state.server["outputs"]
    tensors = task.layout.views(run_method(task, FedAvg(), 1, WORK).row)
    x = task.inputs(task.federation.communal)
    assert isinstance(x, torch.Tensor)  # noqa: S101
    return relative(outputs, (x @ tensors["0.weight"].T + tensors["0.bias"]).double().numpy())


def to_fld(method: Algorithm) -> float:
    """The distance between clients' models under FLD and under the plain mean of a method that mixes outputs."""
    plain = replace(method, scheme="mean")  # type: ignore[call-arg]
    rows = [run_method(labelled_task(), one, 2, WORK).prediction_rows() for one in (plain, FLD())]
    return relative(rows[0], rows[1].double().numpy())


def to_untaught_server(method: Algorithm) -> float:
    """The distance between the server's models in two runs whose clients learn differently: it sees none of them."""
    works = (WORK, {**WORK, "lr": 0.5})
    rows = [run_method(labelled_task(), method, 2, work).row for work in works]
    return relative(rows[0], rows[1].double().numpy())


DISTILLATION = {
    "fedfmrl": (
        Claim("with the plain mean is FLD", to_fld),
        Claim("has a server model that no client changes", to_untaught_server, within=0.0),
    ),
    "fld": (Claim("has the outputs of FedAvg's model as mean outputs of linear models", to_mean_model),),
}
