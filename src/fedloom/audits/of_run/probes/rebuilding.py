"""Probes of a server that rebuilds its clients' samples, in the first round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from fedloom.attacks.measures.interval import clopper_pearson
from fedloom.attacks.reconstruction.gradient_inversion import GradientInversion
from fedloom.attacks.reconstruction.rebuilt import RECOGNISED, Rebuilt, summary, value_range
from fedloom.attacks.reconstruction.server_attack import ServerAttack
from fedloom.audits.leaks_of_run import watch_leaks
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, Sample
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import ATTACKS

PILOT = 2
"""How many iterations of a search say how long all take."""
SHOWN = 6
"""How many samples an outcome keeps."""
EXACT = 99.0
"""In dB: what is more is not told apart."""
LARGEST = 20_000
"""Of samples with more numbers none is kept."""


def rebuild(attack: str, **settings: Any) -> Callable[[Trial], ProbeOutcome]:
    """A probe that lets a registered attack of the server act.

    Args:
        **settings: Its settings.
    """

    def play(trial: Trial) -> ProbeOutcome:
        found, made = list[Rebuilt](), ATTACKS.make({"name": attack, **settings})
        if not isinstance(made, ServerAttack):
            raise FedloomError(f"{attack} rebuilds no samples.")
        if isinstance(made, GradientInversion):  # its search takes long, by much that cannot be said beforehand
            pilot = replace(made, iterations=PILOT)
            trial.check_time(made.iterations / PILOT, lambda: trial.play(pilot, rounds=made.at_round))
        played = trial.play(watch_leaks(made, found), rounds=made.at_round)
        numbers = summary(found)
        if not numbers:
            raise FedloomError(f"{attack} found no model in what clients sent in round {made.at_round}.")
        right, of = sum(int((one.psnr >= RECOGNISED).sum()) for one in found), sum(one.of for one in found)
        least, most = clopper_pearson(right, of)
        measures = {name: Measure(min(value, EXACT)) for name, value in numbers.items() if value == value}
        measures["rebuilt"] = Measure(right / max(of, 1), float(least), float(most))
        low, high = value_range(played.task)
        return ProbeOutcome(measures, _best(found), (low, high), _whose(found))

    return play


def _whose(found: Sequence[Rebuilt]) -> str:
    """Whose samples these are, as far as the server knows."""
    if found[0].of_sum:
        return f"of the sum of {len(found[0].clients)} clients: the server cannot say whose samples these are"
    return f"of {len(found)} single client{'s' * (len(found) > 1)}"


def _best(found: Sequence[Rebuilt]) -> tuple[Sample, ...]:
    """The samples that were rebuilt best, with how well."""
    each = torch.cat([one.psnr for one in found]).nan_to_num(nan=-torch.inf)
    originals, rebuilt = (torch.cat([getattr(one, name) for one in found]) for name in ("originals", "rebuilt"))
    if originals[0].numel() > LARGEST:
        return ()
    places = [int(place) for place in each.argsort(descending=True)[:SHOWN] if each[place] > -torch.inf]
    return tuple(
        Sample(originals[place].tolist(), rebuilt[place].tolist(), f"{min(float(each[place]), EXACT):.0f} dB")
        for place in places
    )
