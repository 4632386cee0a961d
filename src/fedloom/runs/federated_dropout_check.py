"""Runs whose clients train sub-models: what they are, and what cannot bear them is refused before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.channel.sub_model_step import SubModelStep
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.declarations import Model, Update
from fedloom.core.errors import FedloomError
from fedloom.core.model.sub_models import SubModels
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task
from fedloom.secure.sum_step import SumStep

if TYPE_CHECKING:
    from fedloom.config.schema import RunConfig


def sub_models_of(config: RunConfig, task: Task) -> SubModels | None:
    """The sub-models that the clients of a run train, if they do.

    Args:
        config: The config of the run.
        task: The task of the run.
    """
    return None if config.federated_dropout is None else config.federated_dropout.sub_models(task.model)


def channel_steps(config: RunConfig, task: Task, sub_models: SubModels | None) -> tuple[ChannelStep, ...]:
    """The steps of a run's channel: its own, behind the one that sends sub-models only.

    Args:
        config: The config of the run.
        task: The task of the run.
        sub_models: What its clients train, if not the whole model.
    """
    return (*cutting_steps(sub_models), *(step.for_task(task) for step in config.channel))


def cutting_steps(sub_models: SubModels | None) -> tuple[ChannelStep, ...]:
    """The step that sends sub-models only, where clients train them.

    Args:
        sub_models: What clients train, if not the whole model.
    """
    return () if sub_models is None else (SubModelStep(sub_models),)


def check_federated_dropout(config: RunConfig, algorithm: Algorithm) -> None:
    """Raise a ``FedloomError`` for a run in which weights that a client did not get would not stay 0.

    Args:
        config: The config of the run.
        algorithm: The method of the run.
    """
    if config.federated_dropout is None:
        return
    name = config.method.get("name", "the method")
    models = [key for key, one in algorithm.receives.items() if isinstance(one, Model)]
    updates = [key for key, one in algorithm.sends.items() if isinstance(one, Model | Update)]
    whole = algorithm.shares_whole_model and algorithm.communicates and algorithm.trains_locally
    if not whole or models != ["row"] or updates != ["row"] or algorithm.keeps or algorithm.has_personal_models:
        raise FedloomError(
            f"federated_dropout cuts one model that goes down and comes back, and clients of {name} keep, get or send "
            "something else: use fedavg, fedprox or one with a server optimiser."
        )
    if type(algorithm).groups is not Algorithm.groups:
        raise FedloomError(f"clients of {name} hand whole models to each other: leave out federated_dropout.")
    summed = [type(step).__name__.lower() for step in config.channel if isinstance(step, SumStep)]
    if summed:
        raise FedloomError(
            f"{summed[0]} adds rows of one model, and with federated_dropout each client sends other columns of it: "
            "leave out one of the two."
        )
    for step in config.channel:
        if step.covers_replies or getattr(step, "error_feedback", False):
            what = "adds noise to whole updates" if step.covers_replies else "keeps what it did not send by position"
            raise FedloomError(
                f"{type(step).__name__.lower()} {what}, and with federated_dropout a client trains other weights in "
                "every round: leave out one of the two, or the step's error feedback."
            )
    quiet = [type(step).__name__.lower() for step in config.channel if step.may_be_silent]
    if quiet:
        raise FedloomError(
            f"{quiet[0]} compares an update with the last one, and with federated_dropout a client trains other "
            "weights in every round: leave out one of the two."
        )
    if config.sample_privacy is not None:
        raise FedloomError(
            "sample_privacy adds noise to all weights, also to those that a client did not get: leave out "
            "federated_dropout."
        )
    for stage in config.prediction:
        if type(stage).after_update is not PredictionStage.after_update:
            raise FedloomError(
                f"{type(stage).__name__.lower()} keeps the model that a client trained, and with federated_dropout "
                "that is a part of one: leave out one of the two."
            )
