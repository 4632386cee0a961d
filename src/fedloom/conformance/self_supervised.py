"""Claims about methods that learn from images without labels, at clients or at the server."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedloom.conformance.any_method import WORK, image_task, labelled_task
from fedloom.conformance.claim import Claim
from fedloom.conformance.quadratics import relative
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.model.adapted_model import model_row
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedper import FedPer
from fedloom.methods.selfsupervised.fedsimclr import FedSimCLR


def _row(task: Task, method: Algorithm) -> Tensor:
    """The task's own model in the server's row after two rounds."""
    run = run_method(task, method, 2, WORK, execution="loop")
    return model_row(run.run.task, run.state.server["row"])


def to_fedavg(method: Algorithm) -> float:
    """The distance from FedAvg of a method whose server does not train."""
    plain, other = (_row(image_task(), one) for one in (FedAvg(), replace(method, server_epochs=0)))  # type: ignore[call-arg]
    return relative(other, plain.double().numpy())


def to_fedsimclr(method: Algorithm) -> float:
    """The distance from FedSimCLR of a method without dictionary and alignment."""
    plain, other = (_row(image_task(), one) for one in (FedSimCLR(), replace(method, dictionary=0, alignment=0)))  # type: ignore[call-arg]
    return relative(other, plain.double().numpy())


def to_fedper(method: Algorithm) -> float:
    """The distance from FedPer's shared body of a method without contrasts."""
    plain, other = (_row(labelled_task(), one) for one in (FedPer(), replace(method, mu=0)))  # type: ignore[call-arg]
    body = labelled_task().layout.columns("body")
    return relative(other[body], plain[body].double().numpy())


def of_the_head(method: Algorithm) -> float:
    """How far a method without labels moved the classifier, relative to its size."""
    task = image_task()
    head = task.layout.columns("head")
    return relative(_row(task, method)[head], task.initial_row()[head].double().numpy())


def of_labels(method: Algorithm) -> float:
    """The distance between two runs in which clients' labels differ and the server's do not."""
    task = image_task()
    federation = task.federation
    y, mine = federation.columns["y"].clone(), torch.zeros(len(federation.columns["y"]), dtype=torch.bool)
    mine[federation.train.order] = True
    mine[federation.server] = False
    y[mine] = (y[mine] + 1) % federation.classes
    other = replace(task, federation=replace(federation, columns={**federation.columns, "y": y}))  # type: ignore[type-var]
    return relative(_row(other, method), _row(task, method).double().numpy())


NO_LABELS = Claim("trains the same whatever clients' labels are", of_labels, within=0.0)
FIXED_HEAD = Claim("leaves the classifier, which it does not send, as it was", of_the_head, within=0.0)
SELF_SUPERVISED = {
    "fedsimclr": (FIXED_HEAD, NO_LABELS),
    "fedsimsiam": (FIXED_HEAD, NO_LABELS),
    "fedca": (Claim("without dictionary and alignment is FedSimCLR", to_fedsimclr, within=0.0), FIXED_HEAD, NO_LABELS),
    "fedcon": (NO_LABELS,),
    "perfcl": (Claim("without its contrasts (mu = 0) has FedPer's body", to_fedper),),
    "fedlid": (Claim("without epochs at the server is FedAvg", to_fedavg, within=0.0),),
}
