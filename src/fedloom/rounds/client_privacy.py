"""What single clients have spent of their privacy, where they add noise themselves: counted as replies arrive.

A reply that arrived counts, whatever becomes of it. One that would exceed its client's budget is not looked at: in a
deployment the site does not send it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fedloom.core.errors import Stopped
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Job, Tensors
from fedloom.rounds.run_state import RunState

EXHAUSTED = "its privacy budget does not last for another reply"


def count_uses(
    run: Composition, state: RunState, jobs: Sequence[Job], results: Sequence[Tensors], needed: int, round_number: int
) -> dict[int, str]:
    """Count what some clients have used; those whose budget that would exceed are not counted, and returned by place.

    Args:
        run: The run.
        state: Has how often each client used its noise; it is changed.
        jobs: The jobs of the clients that answered.
        results: Their results.
        needed: How many answers the round needs.
        round_number: The round.
    """
    if not run.client_privacy:
        return {}
    places = [place for job in jobs for place in job.places]
    ids = torch.tensor([client for job in jobs for client in job.ids], dtype=torch.int64)
    steps = [int(made) for result in results for made in result["steps"]]
    sizes = run.training_federation(round_number).train.sizes
    after, refused = {}, set()
    for name, privacy in run.client_privacy.items():
        used = state.uses.get(name, torch.zeros(len(sizes), dtype=torch.int64))
        after[name] = used[ids] + torch.tensor([privacy.uses(made) for made in steps], dtype=torch.int64)
        refused |= set(privacy.over_budget(sizes[ids].tolist(), after[name].tolist()))
    if len(places) - len(refused) < needed:
        raise Stopped(
            f"the privacy budgets of {len(refused)} of {len(places)} clients do not last for round {round_number}: the "
            f"model of round {round_number - 1} is the last; more noise makes more rounds."
        )
    counted = [number for number in range(len(places)) if number not in refused]
    for name, uses in after.items():
        used = state.uses.get(name, torch.zeros(len(sizes), dtype=torch.int64))
        state.uses[name] = used.index_copy(0, ids[counted], uses[counted])
    return {places[number]: EXHAUSTED for number in sorted(refused)}


def epsilons(run: Composition, state: RunState, round_number: int) -> dict[str, float]:
    """The largest epsilon of any client so far, by the names of the records.

    Args:
        run: The run.
        state: Has how often each client used its noise.
        round_number: The round.
    """
    samples: list[int] = run.training_federation(round_number).train.sizes.tolist()
    return {
        f"privacy/{name}_epsilon": privacy.spent(samples, state.uses[name].tolist()) if name in state.uses else 0.0
        for name, privacy in run.client_privacy.items()
    }
