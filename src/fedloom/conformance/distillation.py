"""Claims about methods that exchange what models say of samples."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import nn

from fedloom.conformance.any_method import CLASSES, FEATURES, WORK, image_task, labelled_task
from fedloom.conformance.claim import Claim
from fedloom.conformance.quadratics import relative
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.data.changes.class_stream import ClassStream, with_class_stream
from fedloom.data.federation import Federation
from fedloom.methods.distillation.dsfl import DSFL
from fedloom.methods.distillation.fdfaug import FDFAug
from fedloom.methods.distillation.feddf import FedDF
from fedloom.methods.distillation.fedfmrl import FedFMRL
from fedloom.methods.distillation.fedmd import FedMD
from fedloom.methods.distillation.fld import FLD
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.incremental.fedrcil import FedRCIL
from fedloom.methods.local import Local
from fedloom.training.local_trainer import LocalTrainer


def linear_task() -> Task:
    """The small classification problem with a linear model: the mean of its outputs is the mean model's output."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return replace(labelled_task(), model=nn.Sequential(nn.Linear(FEATURES, CLASSES)))


def staged_task() -> Task:
    """The small classification problem on images, with a convolution as the model's only stage."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        convolution = nn.Conv2d(1, 2, 3, padding=1)
        model = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(2 * FEATURES, CLASSES))
    model.stages = ("1",)  # type: ignore[assignment]
    return replace(image_task(), model=model)


def outputs_of_linear(task: Task, row: torch.Tensor) -> np.ndarray:
    """What a linear model says of the communal set, in double precision."""
    tensors = {name: view.double().numpy() for name, view in task.layout.views(row).items()}
    x = task.federation.columns["x"][task.federation.communal].double().numpy()
    return np.asarray(x @ tensors["0.weight"].T + tensors["0.bias"])


def to_mean_model(method: Algorithm) -> float:
    """The distance of the mean outputs after one round from those of FedAvg's model after its first round."""
    task = linear_task()
    outputs = run_method(task, method, 1, WORK).state.server["outputs"]
    return relative(outputs, outputs_of_linear(task, run_method(task, FedAvg(), 1, WORK).row))


def to_self_distillation(method: Algorithm) -> float:
    """The distance of a single client's model after a round from one that digests its own outputs."""
    if not isinstance(method, FedMD):
        raise TypeError("this claim is about FedMD")
    task = replace(labelled_task(), federation=labelled_task().federation.as_one_client())
    made = run_method(task, method, 1, WORK)
    trainer, setting = LocalTrainer(task, made.run.execution.name), made.run.setting
    first = Cohort([0], trainer, setting, 1)
    rows = method.learn(first, first.spread(task.initial_row()))
    own = {name: of_clients[0] for name, of_clients in method.knowledge(first, rows).items()}
    rows = method.distil(Cohort([0], trainer, setting, 1, turn=1), rows, Message(own))
    return relative(made.prediction_rows(), rows.double().numpy())


def to_sharpened_mean(method: Algorithm) -> float:
    """The distance of what DS-FL distils after one round from ``softmax(mean of probabilities / temperature)``."""
    if not isinstance(method, DSFL):
        raise TypeError("this claim is about DS-FL")
    task = linear_task()
    sizes, mean = task.federation.train.sizes.double().numpy(), 0.0
    for client, row in enumerate(run_method(task, Local(), 1, WORK).prediction_rows()):
        mean = mean + sizes[client] / sizes.sum() * _softmax(outputs_of_linear(task, row))
    found = run_method(task, method, 1, WORK).state.server["probabilities"]
    return relative(found, _softmax(np.asarray(mean) / method.temperature))


def without_distillation(method: Algorithm) -> float:
    """The distance of FedDF without distillation from FedAvg."""
    if not isinstance(method, FedDF):
        raise TypeError("this claim is about FedDF")
    rows = [run_method(labelled_task(), one, 3, WORK).row for one in (replace(method, epochs=0), FedAvg())]
    return relative(rows[0], rows[1].double().numpy())


def without_teachers(method: Algorithm) -> float:
    """The distance of FD without its term from local training."""
    if not isinstance(method, FDFAug):
        raise TypeError("this claim is about FD")
    alone = (replace(method, gamma=0.0), Local())
    rows = [run_method(labelled_task(), one, 3, WORK).prediction_rows() for one in alone]
    return relative(rows[0], rows[1].double().numpy())


def _softmax(outputs: np.ndarray) -> np.ndarray:
    powers = np.exp(outputs - outputs.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def to_fld(method: Algorithm) -> float:
    """The distance between clients' models under FLD of the method's own settings and under FedFMRL's plain mean."""
    if not isinstance(method, FedFMRL):
        raise TypeError("this claim is about FedFMRL")
    plain = replace(method, scheme="mean")
    fld = FLD(multi_loss=method.multi_loss, m_c=method.m_c, epochs=method.epochs, distance=method.distance)
    rows = [run_method(staged_task(), one, 2, WORK).prediction_rows() for one in (plain, fld)]
    return relative(rows[0], rows[1].double().numpy())


def to_untaught_server(method: Algorithm) -> float:
    """The distance between the server's models in two runs whose clients learn differently: it sees none of them."""
    works = (WORK, {**WORK, "lr": 0.5})
    rows = [run_method(labelled_task(), method, 2, work).row for work in works]
    return relative(rows[0], rows[1].double().numpy())


def to_fld_without_contrast(method: Algorithm) -> float:
    """The distance of clients' models under FedRCIL without its contrast from those under FLD, on a stream of classes.

    FLD has the method's own layer, multi-loss and epochs.
    """
    if not isinstance(method, FedRCIL):
        raise TypeError("this claim is about FedRCIL")
    task = staged_task()
    stream = ClassStream(tasks=2, rounds=1, order=list(range(CLASSES)))
    task = replace(task, federation=with_class_stream(cast(Federation, task.federation), stream))
    plain = replace(method, m_u=0.0, exemplars=0, exemplar_epochs=0)
    same = {name: getattr(method, name) for name in ("layer", "multi_loss", "m_c", "epochs", "distance")}
    fld = FLD(**same)
    rows = [run_method(task, one, 2, WORK).prediction_rows() for one in (plain, fld)]
    return relative(rows[0], rows[1].double().numpy())


def to_fedavg_without_stream(method: Algorithm) -> float:
    """The distance between the shared models of FedAvg with exemplars and of FedAvg, where no class comes later."""
    rows = [run_method(labelled_task(), one, 2, WORK).row for one in (method, FedAvg())]
    return relative(rows[0], rows[1].double().numpy())


DISTILLATION = {
    "fedavgexemplars": (Claim("without a stream is FedAvg", to_fedavg_without_stream, within=0.0),),
    "fedfmrl": (
        Claim("with the plain mean is FLD", to_fld),
        Claim("has a server model that no client changes", to_untaught_server, within=0.0),
    ),
    "fedrcil": (
        Claim(
            "without its contrast (m_u = 0) and exemplars' labels is FLD, also on a stream",
            to_fld_without_contrast,
            within=0.0,
        ),
    ),
    "fld": (Claim("has the outputs of FedAvg's model as mean outputs of linear models", to_mean_model),),
    "fedmd": (Claim("with one client is self-distillation", to_self_distillation),),
    "fdfaug": (Claim("without its term (gamma = 0) is local training", without_teachers),),
    "dsfl": (Claim("distils the sharpened mean of all clients' probabilities", to_sharpened_mean),),
    "feddf": (Claim("without distillation is FedAvg", without_distillation),),
}
