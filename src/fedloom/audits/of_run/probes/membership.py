"""Probes of membership: was a sample trained on? A server asks an update, and anybody asks the model.

The server's view is what it gets in the last round that is played: the model of a client, or of a sum. Shadow models
start from the model that the client got and train as the client does. Others are the client's own test and validation
parts, since samples of other clients may differ in kind. Of the final model the others are all samples that nobody
trained on.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedloom.attacks.measures.guesses import Guesses
from fedloom.attacks.membership.lira import lira
from fedloom.attacks.membership.loss_threshold import loss_threshold
from fedloom.attacks.membership.rmia import rmia
from fedloom.audits.of_run.play.subject import Played
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.inversion import shared_model
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, clip
from fedloom.audits.shadow_models import shadow_models
from fedloom.audits.updates_of_run import LookingServer
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.core.task import Task
from fedloom.registry.plain_values import hyperparameters

VICTIMS = 5
"""How many clients are asked about."""
LEAST = 5
"""The fewest members, and others, about whom asking says anything."""
MOST = 1000
"""How many members, and as many others, are asked about at most."""
SHADOWS = 4
RARE = 1
"""The place of the rate at 1 % false positives among the rates of ``Guesses``."""


def membership_of_update(trial: Trial) -> ProbeOutcome:
    """What the server tells from the updates of single clients, or of a sum."""
    server = LookingServer()
    played = trial.play(server)
    last = [one for one in server.seen if one.context.round == trial.rounds]
    if not last:
        raise FedloomError("clients send no model that a server could ask about.")
    if any(one.columns is not None for one in last):
        raise FedloomError("clients send a part of their model, and a loss is one of a whole model.")
    if last[0].of_sum:
        task, row = last[0].task, last[0].returned
        members, others = (
            torch.cat([parts_of_client(task, client, which) for client in last[0].clients]) for which in (True, False)
        )
        found = [{"loss": loss_threshold(task, row, *balanced(members, others, trial.seed))}]
        return _outcome(found, f"of the sum of {len(last[0].clients)} clients: the server cannot say who had a sample")
    found = []
    for one in last:
        members, others = (parts_of_client(one.task, one.clients[0], which) for which in (True, False))
        if min(len(members), len(others)) >= LEAST and len(found) < VICTIMS:
            asked = balanced(members, others, trial.seed)
            started = _started_from(one.task, one.row)
            found.append(_guesses(started, one.returned, asked, _work(played, 1), trial))
    if not found:
        raise FedloomError(f"no client of the round has {LEAST} training and {LEAST} test samples to ask about.")
    return _outcome(found, f"of {len(found)} single client{'s' * (len(found) > 1)}")


def membership_of_model(trial: Trial) -> ProbeOutcome:
    """What whoever gets the final model tells from it."""
    played = trial.plain
    task, row = shared_model(played)
    made = task.federation
    members = made.train.order
    others = torch.cat([made.test.order, made.valid.order, made.global_test])
    others = torch.unique(others[~torch.isin(others, members)])
    if min(len(members), len(others)) < LEAST:
        raise FedloomError(f"membership is asked about {LEAST} samples that nobody trained on: set task.test_share.")
    asked = balanced(members, others, trial.seed)
    return _outcome([_guesses(task, row, asked, _work(played, trial.rounds), trial)])


def beyond_chance(found: Mapping[str, Measure]) -> float:
    """How bad an AUC is: 0 for guesses at random."""
    return clip(2 * found["auc"].value - 1)


def _guesses(
    task: Task, row: Tensor, asked: tuple[Tensor, Tensor], work: Mapping[str, Any], trial: Trial
) -> dict[str, Guesses]:
    """The guesses of the three attacks."""
    members, others = asked
    settings = {**work, "observers": [trial.watch]}
    shadows = shadow_models(task, torch.cat([members, others]), SHADOWS, settings, trial.seed)
    return {
        "loss": loss_threshold(task, row, members, others),
        "lira": lira(task, row, members, others, shadows),
        "rmia": rmia(task, row, members, others, shadows),
    }


def _outcome(found: list[dict[str, Guesses]], note: str = "") -> ProbeOutcome:
    """The mean over clients of each attack; ``auc`` is that of the best one, with the error of its AUC."""
    means = {name: sum(one[name].auc for one in found) / len(found) for name in found[0]}
    best = max(means, key=lambda name: means[name])
    error = math.sqrt(sum(auc_variance(one[best]) for one in found)) / len(found)
    measures = {f"auc_{name}": Measure(value) for name, value in means.items()}
    measures["auc"] = Measure(means[best], max(0.0, means[best] - 1.96 * error), min(1.0, means[best] + 1.96 * error))
    rates = [one[best].rates[RARE] for one in found]
    measures["found_at_1_percent"] = Measure(sum(rate.true_positives for rate in rates) / len(rates))
    return ProbeOutcome(measures, note=f"{note}{'; ' * bool(note)}the best attack is {best}")


def auc_variance(guesses: Guesses) -> float:
    """The variance of an AUC. Hanley and McNeil, Radiology 1982, https://doi.org/10.1148/radiology.143.1.7063747.

    Args:
        guesses: What was guessed.
    """
    auc, members, others = guesses.auc, guesses.members, guesses.others
    two_members, two_others = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = (members - 1) * (two_members - auc**2) + (others - 1) * (two_others - auc**2)
    return (auc * (1 - auc) + spread) / (members * others)


def parts_of_client(task: Task, client: int, trained: bool) -> Tensor:
    """The samples of a client that it trains on, or the others that it has.

    Args:
        trained: Which of the two.
    """
    made = task.federation
    if trained:
        return made.train[client]
    others = torch.cat([made.test[client], made.valid[client]])
    return others[~torch.isin(others, made.train[client])]


def balanced(members: Tensor, others: Tensor, seed: int, most: int = MOST) -> tuple[Tensor, Tensor]:
    """As many members as others, drawn by the seed where there are many.

    Args:
        most: How many of each at most.
    """
    most = min(most, len(members), len(others))
    first, second = (
        some[torch.randperm(len(some), generator=generator(seed, f"audit/{what}"))[:most]]
        for what, some in (("members", members), ("others", others))
    )
    return first, second


def _started_from(task: Task, row: Tensor) -> Task:
    """The task with another initial model."""
    model = copy.deepcopy(task.model)
    task.layout.fill(model, row)
    return replace(task, model=model)


def _work(played: Played, rounds: int) -> dict[str, Any]:
    """How shadow models train: as clients do, with their noise."""
    found: dict[str, Any] = {"rounds": rounds, "local": hyperparameters(played.config.local)}
    if played.config.sample_privacy is not None:
        found["sample_privacy"] = replace(played.config.sample_privacy, epsilon=None)
    return found
