"""The probe of what noise promises: the epsilon that the run's noise states, and what a canary shows it is at least.

The run's own noise is played on clients with canaries, which no attacker can be more sure of (``audits/canary.py``): as
many rounds as the audit plays, with a delta so large that a few hundred trials can show something. ``fedloom privacy
--audit`` does the same for the mechanisms with thousands of trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedloom.audits.canary import CLIP
from fedloom.audits.lower_bound import empirical_epsilon
from fedloom.audits.of_run.play.subject import quiet
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, clip
from fedloom.audits.privacy_cases import DELTA, RepliesCase
from fedloom.config.schema import RunConfig
from fedloom.core.errors import FedloomError
from fedloom.core.seeds import key
from fedloom.privacy.local_noise import LocalNoise
from fedloom.registry.plain_values import hyperparameters

TRIALS = 1000
SAMPLES = 8
"""How many samples a client of the trial has; it draws a quarter of them in a step."""
ROUNDS = 2


def canary_epsilon(trial: Trial) -> ProbeOutcome:
    """The epsilon that is stated of the run's noise in a few rounds, and the least that trials leave possible."""
    case = _case(trial.subject.prepare(trial.settings, trial.seed).config)
    scores = []
    with quiet():
        for presence in ("in", case.neighbour):
            seeded = replace(
                case, settings={**case.settings, "seed": key(trial.seed, f"audit/canary/{presence}") % 2**31}
            )
            played, stated = seeded.play(presence, TRIALS)
            scores.append(played)
    found = empirical_epsilon(scores[0], scores[1], DELTA)
    note = f"{case.name}, {ROUNDS} rounds, delta {DELTA:g}, {TRIALS} trials of each neighbour"
    return ProbeOutcome({"epsilon": Measure(found.least, found.least, None), "stated": Measure(stated)}, note=note)


def beyond_stated(found: Mapping[str, Measure]) -> float:
    """How bad a lower bound is: nothing as long as it is not above what is stated."""
    return clip(found["epsilon"].value - found["stated"].value)


def _case(config: RunConfig) -> RepliesCase:
    """The run's noise, on clients with canaries."""
    if config.sample_privacy is not None:
        work = {"lr": 1e-3, "batch_size": SAMPLES // 4}
        settings = {"sample_privacy": _canary_noise(config.sample_privacy), "local": work}
        return RepliesCase("sample_privacy", settings, "privacy/sample_epsilon", "zero", SAMPLES, ROUNDS)
    local = [step for step in config.channel if isinstance(step, LocalNoise)]
    if local:
        channel = {"name": "localnoise", **_canary_noise(local[0])}
        return RepliesCase("localnoise", {"channel": [channel]}, "privacy/local_epsilon", "opposite", 1, ROUNDS)
    raise FedloomError(
        "no sample_privacy and no localnoise adds noise here, so that no epsilon of a client's own is stated; "
        "fedloom privacy --audit plays the noise of a server and of sums."
    )


def _canary_noise(part: Any) -> dict[str, Any]:
    """The settings of noise, as strong as it is, around the canary's clip norm."""
    found = {key: value for key, value in hyperparameters(part).items() if key != "epsilon" and value is not None}
    return {**found, "noise": part.multiplier, "clip": CLIP, "delta": DELTA, "seeded": True}
