"""Which execution trains a cohort, and how large a cohort is: fixed rules, no timing.

The rules look at the kinds and sizes of layers and at the batch size only, so the same run takes the same path on
every machine and gives the same bytes. They were calibrated with bench/local.py: batched products win while a
client's own products are too small to keep a core busy; convolutions and recurrent layers are compute-bound and
best left to their fused kernels, one client at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.core.warn_once import warn_once
from fedloom.training.local_trainer import LocalTrainer
from fedloom.training.stacked import run_stacked, run_vmap

EXECUTIONS = {
    "auto": "choose by the model's layers and the batch size (the choice is written into the run's config)",
    "vectorised": "all clients of a cohort in one batched pass per step",
    "loop": "one client after another with an ordinary module",
    "compiled": "the vectorised step through torch.compile: seconds of compilation once, for long runs",
}
GRAPH_LIMIT = 4_000_000
"""Parameters times batch size / 32 up to which a graph of linear layers is trained batched."""
VMAP_LIMIT = 60_000
"""The same for a model that needs vmap, whose bookkeeping costs more."""
COHORT_NUMBERS = {"vectorised": 1 << 20, "compiled": 1 << 19}
"""A cohort holds about this many parameters, so that it stays in the processor's cache (compiled needs two copies)."""
COHORT_CLIENTS = (8, 128)
HALF_NUMBERS, HALF_CLIENTS = 240_000, 5
"""What each half of a round must have: parameters times batch size / 32, and clients. The rule may not know the
workers, since they must not change a byte: so the second cohort that two workers need costs one worker its fixed cost
per step (measured, docs/benchmarks.md)."""

_FUSED = (nn.modules.conv._ConvNd, nn.RNNBase, nn.MultiheadAttention)
_SHARED_STATISTICS = nn.modules.batchnorm._BatchNorm


@dataclass(frozen=True)
class Execution:
    """The chosen execution, the reason, and how many clients train as one cohort.

    ``halved_from`` is the number of clients from which on a round is two cohorts at least; 0 if there is none.
    """

    name: str
    reason: str
    cohort: int
    halved_from: int = 0


def decide(task: Task, wanted: str, work: LocalWork, per_sample: bool = False) -> Execution:
    """Choose the execution of a run. What cannot be vectorised falls back to the loop, with one log line.

    Args:
        wanted: The execution that the run asks for.
        per_sample: Whether every sample has a gradient of its own (DP-SGD), which is batched in any case.
    """
    if wanted not in EXECUTIONS:
        raise unknown("execution", wanted, EXECUTIONS)
    if wanted == "compiled" and work.accumulate > 1:
        raise FedloomError(
            f"local.accumulate={work.accumulate} saves memory, and execution compiled takes every step at once: use "
            "execution vectorised or loop."
        )
    trainer, batch_size = LocalTrainer(task, "vectorised"), work.batch_size
    name, reason = _rule(trainer, batch_size) if wanted == "auto" else (wanted, "asked for")
    # DP-SGD needs a gradient per sample, for which there is no fused kernel that a loop could use.
    if wanted == "auto" and per_sample and not task.stacking_obstacle:
        name, reason = "vectorised", "gradients of single samples: batched over samples and clients"
    if name != "loop":
        # Also where the user asks for it: a run that cannot be vectorised is slower, but not wrong.
        obstacle = _obstacle(trainer, work)
        if obstacle is not None:
            warn_once(f"the model is trained client by client (loop): {obstacle}")
            name, reason = "loop", obstacle
        elif trainer.untraceable_reason:
            why = f"which is slower than its own layers: {trainer.untraceable_reason}"
            warn_once(f"the model is batched by torch.func.vmap, {why}")
            reason = f"{reason}; with torch.func.vmap, because {trainer.untraceable_reason}"
        if name == "compiled" and (found := _gradient_obstacle(trainer)) is not None:
            warn_once(f"the model is trained vectorised, and not compiled: {found}")
            name, reason = "vectorised", f"not compiled: {found}"
    width = task.layout.width
    return Execution(
        name, reason, _cohort_size(name, width), _least_clients_to_halve(name, width * max(batch_size, 1) / 32)
    )


def _cohort_size(name: str, width: int) -> int:
    fewest, most = COHORT_CLIENTS
    return 1 if name == "loop" else max(fewest, min(most, COHORT_NUMBERS[name] // width))


def _least_clients_to_halve(name: str, numbers: float) -> int:
    """From how many clients on a round is halved; a compiled step would compile once more."""
    return 2 * max(HALF_CLIENTS, math.ceil(HALF_NUMBERS / numbers)) if name == "vectorised" else 0


def _rule(trainer: LocalTrainer, batch_size: int) -> tuple[str, str]:
    task = trainer.task
    if task.stacking_obstacle:
        return "loop", task.stacking_obstacle
    fused = sorted({type(m).__name__ for m in task.model.modules() if isinstance(m, _FUSED)})
    if fused:
        return "loop", f"{', '.join(fused)} run best one client at a time"
    size = task.layout.width * max(batch_size, 1) / 32
    limit = GRAPH_LIMIT if trainer.graph is not None else VMAP_LIMIT
    if size > limit:
        return "loop", f"{task.layout.width:,} parameters at batch size {batch_size} keep a core busy on their own"
    return "vectorised", "small layers: batched over clients"


def _obstacle(trainer: LocalTrainer, work: LocalWork) -> str | None:
    """Why a model cannot be vectorised, found by its layers and by one pass of two clients with a sample each."""
    if work.has_own_optimizer:
        return f"the optimizer {work.optimizer} steps one client's parameters"
    task = trainer.task
    if task.stacking_obstacle:
        return task.stacking_obstacle
    for name, layer in task.model.named_modules():
        if isinstance(layer, _SHARED_STATISTICS):
            return f"{type(layer).__name__} '{name}' takes statistics of a batch, which padding would change"
    # One pass finds out what no list of layers could: any Python in a user's forward may break under vmap.
    positions = task.sample.expand(2, 1)
    keys = torch.zeros(2, dtype=torch.int64)
    try:
        with torch.no_grad():
            before = {name: buffer.clone() for name, buffer in trainer.model.named_buffers()}
            trainer.model.train()(task.inputs(positions[0]))
            for name, buffer in trainer.model.named_buffers():
                if not torch.equal(buffer, before[name]):
                    return f"its forward pass changes the buffer '{name}', which vmap would lose"
            stacks, x = trainer.stacks(task.initial_row().expand(2, -1)), task.inputs(positions)
            run = run_stacked(trainer.model, trainer.graph, stacks, x, keys)
            task.objective.losses(run.flatten(0, 1), task.targets(positions).flatten(0, 1))
    except Exception as error:  # whatever a user's model raises, the loop is the fallback
        return f"torch.func.vmap cannot take it ({type(error).__name__}: {(str(error).splitlines() or [''])[0]})"
    return None


def _gradient_obstacle(trainer: LocalTrainer) -> str | None:
    """Why a model's gradient cannot be taken inside a compiled step; layers that are traced have rules of their own."""
    task, positions = trainer.task, trainer.task.sample.expand(2, 1)
    x, keys = task.inputs(positions), torch.zeros(2, dtype=torch.int64)
    if trainer.graph is not None and not isinstance(x, dict):
        return None

    def total(stacks: dict[str, torch.Tensor]) -> torch.Tensor:
        outputs = run_vmap(trainer.model, stacks, x, keys)
        return task.objective.losses(outputs.flatten(0, 1), task.targets(positions).flatten(0, 1))[0].sum()

    try:
        torch.func.grad(total)(trainer.stacks(task.initial_row().expand(2, -1)))
    except Exception as error:  # such as a layer whose gradient is written for the vectorised step
        return f"torch.func.grad cannot take it ({type(error).__name__}: {str(error).partition('. ')[0]})"
    return None


def cohorts(ids: list[int], sizes: torch.Tensor, execution: Execution) -> list[list[int]]:
    """Split the clients of a round into cohorts, largest clients first, so that several workers have something to do.

    Cohorts are of similar size. If there would be one or two, and each has enough work, clients are dealt to two in
    turn, which are then alike. The rule does not depend on the number of workers.
    """
    # Clients of similar size take their steps together, with little padding.
    ordered = sorted(ids, key=lambda client: (-int(sizes[client]), client))
    if 0 < execution.halved_from <= len(ordered) <= 2 * execution.cohort:
        return [ordered[0::2], ordered[1::2]]
    return [ordered[i : i + execution.cohort] for i in range(0, len(ordered), execution.cohort)]
