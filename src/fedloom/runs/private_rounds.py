"""How a private run counts its rounds over all stops: each is on disk before it draws anything (``begun.jsonl``)."""

from __future__ import annotations

from pathlib import Path

import torch

from fedloom.core.errors import FedloomError
from fedloom.rounds.composition import Composition
from fedloom.rounds.run_state import RunState
from fedloom.runs.folder.begun_rounds import BegunRounds
from fedloom.runs.folder.manifest import manifest_paths
from fedloom.runs.folder.metrics_file import last_recorded_round
from fedloom.runs.prepare import Prepared


def counts_rounds(prepared: Prepared) -> bool:
    """Whether what a run plays again has to be counted again: it adds noise that its seed does not decide."""
    run, config = prepared.composition, prepared.config
    parts = (*config.aggregation.members, *config.channel, config.sample_privacy)
    seeded = all(part.seeded for part in parts if hasattr(part, "seeded"))
    return (run.privacy is not None or bool(run.client_privacy)) and not seeded


def start_count(prepared: Prepared, folder: Path) -> BegunRounds | None:
    """The count of a new run's rounds, on disk; None where nothing has to be counted.

    Args:
        folder: Its folder, which has no config yet.
    """
    return BegunRounds.start(folder) if counts_rounds(prepared) else None


def read_count(prepared: Prepared, folder: Path) -> BegunRounds | None:
    """The count of a run's rounds so far; None where nothing has to be counted.

    Args:
        folder: Its folder, of which nothing that is damaged or too late was removed yet: it says what must be counted.
    """
    if not counts_rounds(prepared):
        return None
    saved = [int(path.stem.removeprefix("manifest-")) for path in manifest_paths(folder)]
    return BegunRounds.read(folder, max(last_recorded_round(folder), *saved, 0))


def count_replays(run: Composition, state: RunState, begun: BegunRounds) -> None:
    """Count in a state the rounds that began after it and are played again: what they told has been told.

    Who took part in them is not known any more, so every client counts as if it had.

    Args:
        run: What the run is made of.
        state: The state from which the run continues; it is changed.
        begun: The rounds that began.
    """
    again = len(begun.rounds) - state.plays
    begun.check(again >= 0)
    if 0 in begun.rounds and not state.plays:
        raise FedloomError(
            f"{begun.path.parent} was stopped before its first checkpoint, and its method has asked clients before "
            "round 1, so it is not known what they have spent of their privacy: start a new run."
        )
    if not again:
        return
    state.count_plays(again)
    for name, uses in _uses_of_a_round(run, state.round + 1).items():
        state.uses[name] = state.uses.get(name, torch.zeros_like(uses)) + again * uses


def _uses_of_a_round(run: Composition, number: int) -> dict[str, torch.Tensor]:
    """How often each client uses its own noise in a round in which it takes part, by the kind of noise."""
    sizes: list[int] = run.training_federation(number).train.sizes.tolist()
    steps = [run.algorithm.steps_per_turn(run.setting.work, size) for size in sizes]
    return {
        name: run.algorithm.turns * torch.tensor([privacy.uses(made) for made in steps], dtype=torch.int64)
        for name, privacy in run.client_privacy.items()
    }
