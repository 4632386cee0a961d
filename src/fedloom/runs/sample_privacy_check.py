"""The privacy of single samples (DP-SGD): its ledger, or the reason why the settings of a run do not protect them.

Refused before any training: methods whose clients look at their samples in another way than by training, layers that
mix samples, and selectors that ask for losses.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.selection.poisson import Poisson
from fedloom.selection.random import Random
from fedloom.training.dpsgd.sample_gradients import clipped_gradient_sums
from fedloom.training.local_trainer import LocalTrainer

if TYPE_CHECKING:
    from fedloom.config.schema import RunConfig

log = logging.getLogger("fedloom")


def sample_ledger(config: RunConfig, algorithm: Algorithm, task: Task, deployed: bool = False) -> SampleLedger | None:
    """The ledger of a run whose clients train by DP-SGD; settings that do not protect their samples are refused.

    Args:
        config: The config of the run, with its execution.
        algorithm: The method of the run.
        task: The task of the run.
        deployed: Whether the clients are machines, whose data are not here.
    """
    privacy = config.sample_privacy
    if privacy is None:
        return None
    if not algorithm.sends_only_trained:
        raise FedloomError(
            f"clients of {config.method.get('name', 'the method')}, with these settings, look at their samples in "
            "another way than by training on the task's loss, which sample_privacy does not protect: use fedavg, "
            "fedprox, scaffold or fedrep. A method of your own says so with sends_only_trained = True."
        )
    check_selection(config.selection, "sample_privacy")
    if config.execution == "compiled":
        raise FedloomError("sample_privacy has steps of its own: use execution vectorised, loop or auto.")
    _check_task(task)
    if deployed:
        refuse_scores(config)
    else:
        _check_model(task)
    ledger = SampleLedger(privacy.noise, privacy.delta, config.local.batch_size, privacy.epsilon)
    _check_budget(ledger, privacy, config, task)
    if privacy.seeded:
        log.warning("samples and noise are drawn from the run's seed: the privacy of samples is for study only")
    return ledger


def check_selection(selection: object, what: str) -> None:
    """Refuse a selector that looks at what clients have.

    Args:
        selection: The selector of the run.
        what: What does not protect them from it.
    """
    if type(selection) not in (Random, Poisson):
        raise FedloomError(
            f"selection {type(selection).__name__.lower()} looks at what clients have, which {what} does not protect: "
            "use selection random or poisson."
        )


def refuse_scores(config: RunConfig) -> None:
    """Refuse a deployment whose sites would send scores on their samples.

    Args:
        config: The config of the run.
    """
    if config.eval_every:
        raise FedloomError(
            "sites would send scores on their own samples, which no noise protects: set eval_every = 0, and evaluate "
            "the model at the sites afterwards."
        )


def _check_task(task: Task) -> None:
    federation = task.federation
    if not federation.samples_are_independent or task.stacking_obstacle:
        raise FedloomError(
            "sample_privacy clips the gradient of each sample, and samples that are nodes or parts of graphs have none "
            "of their own: use a task with independent samples."
        )
    if federation.later:
        raise FedloomError("sample_privacy counts draws from the same samples in all rounds: leave out task.drift.")
    if task.augment is not None:
        raise FedloomError(
            "sample_privacy needs samples that do not change with each other, and task.augment changes a whole batch "
            "at once: leave it off."
        )
    for name, layer in task.model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise FedloomError(
                f"{type(layer).__name__} '{name}' mixes the samples of a batch, so that no sample has a gradient of "
                "its own: use GroupNorm."
            )


def _check_model(task: Task) -> None:
    """Try the gradients of two samples."""
    trainer = LocalTrainer(task, "vectorised")
    positions = task.federation.train[0][:1].expand(1, 2)
    moving = [slot.name for slot in task.layout.moving(None)]
    stacks, mask = trainer.stacks(task.initial_row().expand(1, -1)), torch.ones(1, 2)
    batch = (task.inputs(positions), task.targets(positions), mask)
    try:
        clipped_gradient_sums(trainer, stacks, moving, batch, torch.zeros(1, dtype=torch.int64), 1.0)
    except Exception as error:  # whatever a user's model raises
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise FedloomError(
            f"sample_privacy takes the gradient of each sample with torch.func.vmap, which cannot take this model "
            f"({reason}): use another model."
        ) from error


def _check_budget(ledger: SampleLedger, privacy: SamplePrivacy, config: RunConfig, task: Task) -> None:
    sizes: list[int] = task.federation.train.sizes.tolist()
    steps = [config.local.steps_for(size) for size in sizes]
    first = ledger.spent(sizes, steps)
    if not math.isfinite(first):
        raise FedloomError(f"sample_privacy: noise={privacy.noise:g} is so little that it protects nobody: raise it.")
    if len(ledger.over_budget(sizes, steps)) == len(sizes):
        raise FedloomError(
            f"the first round alone spends epsilon {first:.3g} at delta {privacy.delta:g}, and the budget is "
            f"{ledger.budget:g}: raise sample_privacy.noise, take smaller batches, or train less per round."
        )
