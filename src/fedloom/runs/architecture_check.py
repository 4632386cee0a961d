"""Runs whose clients have different models: how each architecture trains, and what cannot bear them is refused."""

from __future__ import annotations

import logging

from fedloom.config.schema import RunConfig
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.runs.output_check import check_outputs
from fedloom.training.execution import Execution, decide

log = logging.getLogger("fedloom")


def check_architectures(task: Task, algorithm: Algorithm, config: RunConfig, has_data: bool) -> None:
    """Raise a ``FedloomError`` for a run whose parts need equal models, where the clients' models differ.

    Args:
        task: The task of the run.
        algorithm: Its method.
        config: Its config.
        has_data: Whether the task has samples to try the models with; the server of a deployment has none.
    """
    if task.architectures is None:
        return
    shown = ", ".join(task.architectures.names)
    if not algorithm.mixes_models:
        raise FedloomError(
            f"{config.method.get('name', 'the method')} averages rows of weights, but the clients of this task have "
            f"different models ({shown}): use a method that exchanges logits, features or prototypes, such as fld or "
            "fedproto, or give all clients one model (task.model)."
        )
    for key in ("start_from", "federated_dropout", "downlink", "sample_privacy"):
        if getattr(config, key) is not None:
            raise FedloomError(
                f"{key} is made for one model, but the clients of this task have different ones ({shown}): leave out "
                f"{key}, or task.models."
            )
    for own in task.by_architecture if has_data else ():
        check_outputs(own)


def architecture_executions(task: Task, config: RunConfig) -> tuple[Execution, ...]:
    """How the clients of each architecture train; empty where all have the same model.

    Args:
        task: The task of the run.
        config: Its config.
    """
    if task.architectures is None:
        return ()
    found = tuple(decide(own, config.execution, config.local.batch_size) for own in task.by_architecture)
    for name, execution in zip(task.architectures.names, found, strict=True):
        log.info("execution of %s: %s (%s)", name, execution.name, execution.reason)
    return found
