"""Probes of hostile clients: what they ruin, beside the same run without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fedloom.audits.of_run.play.subject import Played
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, clip
from fedloom.core.errors import FedloomError

RECORDED = ("success", "untriggered", "attacked_accuracy")
"""What attacks measure themselves, as ``adversary/NAME``."""


def poison(
    attack: str, settings: Callable[[Trial], Mapping[str, Any]] = lambda _: {}
) -> Callable[[Trial], ProbeOutcome]:
    """A probe that lets a registered attack act, and compares what the run scores.

    Args:
        settings: Its settings in a trial; by default its own.
    """

    def play(trial: Trial) -> ProbeOutcome:
        played = trial.play({"name": attack, **settings(trial)})
        return ProbeOutcome(_measures(played, trial), note="the run diverged" if played.diverged else "")

    return play


def _measures(played: Played, trial: Trial) -> dict[str, Measure]:
    """What was lost, and what the attack says of itself."""
    kind, after = played.score_kind, 0.0 if played.diverged else played.score
    before = trial.plain.score if trial.plain_score is None else trial.plain_score
    if before is None or after is None:
        raise FedloomError("the run scores no model, so nobody can say what an attack ruins: set task.test_share.")
    if played.diverged and not kind.higher_is_better:
        after = 2 * before  # no number is the worst of an error; this one counts as a total loss
    lost = kind.rank(before) - kind.rank(after)
    told = {name: played.metrics[f"adversary/{name}"] for name in RECORDED if f"adversary/{name}" in played.metrics}
    if {"success", "untriggered"} <= told.keys():
        told["gained"] = told["success"] - told["untriggered"]
    found = {"lost": lost / abs(before) if before else 0.0, "score": after, **told}
    return {name: Measure(value) for name, value in found.items()}


def one_replacement(trial: Trial) -> dict[str, Any]:
    """One hostile client who makes its update as large as those of all, in the second half of the rounds."""
    clients = trial.subject.size(trial.rounds).clients
    return {"fraction": 1 / clients, "scale": float(clients), "start": trial.rounds // 2 + 1}


def loss(found: Mapping[str, Measure]) -> float:
    """How bad it is that a share of the score is lost."""
    return clip(found["lost"].value)


def takeover(found: Mapping[str, Measure]) -> float:
    """How bad it is that a trigger works, or that the model is ruined by what was to teach it."""
    return max(clip(found["gained"].value), loss(found))
