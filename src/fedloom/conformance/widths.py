"""Claims about methods whose clients have corners of one wide network: one width is FedAvg, and what a step changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from fedloom.conformance.any_method import CLASSES, FEATURES, WORK, labelled_task
from fedloom.conformance.claim import Claim
from fedloom.conformance.run_method import run_method
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.model.architectures import Architectures
from fedloom.core.model.corners import corner_columns
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fjord import FjORD, draw_widths, widths_within
from fedloom.training.local_trainer import LocalTrainer

ONE_STEP = RunSetting(LocalWork(steps=1, batch_size=0, lr=0.1), seed=5, rounds=8)


def widths_task() -> Task:
    """The small classification problem with two widths: three clients have the wide network, two a narrow one."""
    task = labelled_task()
    with torch.random.fork_rng():
        torch.manual_seed(4)
        narrow = nn.Sequential(nn.Linear(FEATURES, 2), nn.ReLU(), nn.Linear(2, CLASSES))
    owners = torch.tensor([0, 0, 0, 1, 1])
    return replace(task, architectures=Architectures((task.model, narrow), ("wide", "narrow"), owners))


def to_fedavg_with_one_width(method: Algorithm) -> float:
    """How many numbers of the model differ from FedAvg's after two rounds with one width."""
    rows = [run_method(labelled_task(), one, 2, WORK).row for one in (method, FedAvg())]
    return float((rows[0] != rows[1]).sum())


def between_executions_of_widths(method: Algorithm) -> float:
    """The relative difference between vectorised training and a loop, with two widths."""
    task = widths_task()
    rows = [run_method(task, method, 2, WORK, execution=how).row for how in ("vectorised", "loop")]
    return float((rows[0] - rows[1]).abs().max() / rows[1].abs().max())


def narrow_steps(method: Algorithm) -> Iterator[tuple[Cohort, Tensor]]:
    """Some steps of wide clients that drew the narrow width: a client and its row after the step."""
    if not isinstance(method, FjORD):
        raise TypeError("this claim is about FjORD")
    own = widths_task().of_architecture(0)
    trainer = LocalTrainer(own, "loop")
    for round_number in range(1, ONE_STEP.rounds + 1):
        cohort = Cohort([round_number % 3], trainer, ONE_STEP, round_number)
        if int(draw_widths(cohort, len(widths_within(own)))) == 1:
            reply = replace(method, alpha=0.0).client_update(cohort, Message({"row": own.initial_row()}))
            yield cohort, reply.tensors["row"][0]


def changed_outside(method: Algorithm) -> float:
    """How many numbers outside the narrow network change in steps that drew it; NaN if there is no such step."""
    task = widths_task()
    outside = torch.ones(task.layout.width, dtype=torch.bool)
    outside[corner_columns(task.layout, task.of_architecture(1).layout)] = False
    found = [int((row != task.initial_row())[outside].sum()) for _, row in narrow_steps(method)]
    return float(sum(found)) if found else float("nan")


def to_narrow_steps(method: Algorithm) -> float:
    """The largest distance of a step that drew the narrow network from the same step of that network by itself."""
    narrow = widths_task().of_architecture(1)
    columns, worst = corner_columns(narrow.server_layout, narrow.layout), float("nan")
    start = widths_task().initial_row()[columns]
    for cohort, row in narrow_steps(method):
        alone = Cohort(cohort.ids, LocalTrainer(narrow, "loop"), ONE_STEP, cohort.round)
        step = alone.train(alone.spread(start))[0] - start
        distance = float((row[columns] - start - step).norm() / step.norm())
        worst = distance if worst != worst else max(worst, distance)
    return worst


ONE_WIDTH = Claim("with one width is FedAvg to the byte", to_fedavg_with_one_width, within=0)
EXECUTIONS = Claim("with two widths is the same vectorised and in a loop", between_executions_of_widths)
WIDTHS: dict[str, tuple[Claim, ...]] = {
    "heterofl": (ONE_WIDTH, EXECUTIONS),
    "fjord": (
        ONE_WIDTH,
        EXECUTIONS,
        Claim("changes no weight outside the width that a step drew", changed_outside, within=0),
        Claim("takes the narrow network's own step where it drew that", to_narrow_steps),
    ),
}
