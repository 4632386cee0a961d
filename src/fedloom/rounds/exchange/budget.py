"""What single clients have spent of their privacy, where they add noise themselves: counted as their work arrives.

Work that arrived counts, whatever becomes of it, also in a round that is abandoned. A reply that would exceed its
client's budget is not looked at: in a deployment the site does not send it.
"""

from __future__ import annotations

import torch

from fedloom.core.errors import Abandoned, Stopped
from fedloom.core.message import Wave
from fedloom.rounds.answers import Answers, Arrived, WorkAbandoned
from fedloom.rounds.composition import Composition
from fedloom.rounds.exchange.station import Ask, Station
from fedloom.rounds.round_context import RoundContext
from fedloom.rounds.run_state import RunState

EXHAUSTED = "its privacy budget does not last for another reply"


class PrivacyBudget(Station):
    """Counts what clients spend, and leaves out those who have nothing left."""

    back = "counts the privacy that clients spend, and leaves out who has none left"

    def __call__(self, wave: Wave, round: RoundContext, ask: Ask) -> Answers:
        """The answers of the clients whose budget lasts."""
        try:
            answers = ask(wave)
        except Abandoned as given_up:
            if isinstance(given_up, WorkAbandoned):
                # Needs no answers: the round may be tried again, so a budget that runs out here must not end the run.
                count_uses(round.run, round.state, given_up.arrived, 0, round.number)
            _stop_if_exhausted(wave, round)
            raise
        # Nobody can be taken out of a sum that is open: if one budget does not last, the run ends.
        needed = len(answers.arrived.ids) if answers.summed else answers.needed
        exhausted = count_uses(round.run, round.state, answers.arrived, needed, round.number)
        places = {client: place for place, client in enumerate(answers.wave.ids)}
        return answers.without({places[client]: EXHAUSTED for client in exhausted})


def _stop_if_exhausted(wave: Wave, round: RoundContext) -> None:
    """End the run if a round was given up for want of clients whose budgets are spent: a further try needs them too."""
    spent = set(wave.ids).intersection(round.engine.exhausted)
    rest = len(wave.ids) - len(spent)
    if spent and (round.run.sums is not None or rest < round.run.answers_needed(len(wave.ids))):
        raise _budgets_spent(len(spent), len(wave.ids), round.number)


def _budgets_spent(spent: int, asked: int, round_number: int) -> Stopped:
    return Stopped(
        f"the privacy budgets of {spent} of {asked} clients do not last for round {round_number}: the model of round "
        f"{round_number - 1} is the last; more noise allows more rounds."
    )


def count_uses(run: Composition, state: RunState, arrived: Arrived, needed: int, round_number: int) -> list[int]:
    """Count what some clients have used; those whose budget that would exceed are not counted, and returned.

    Args:
        run: What the run is made of.
        state: Has how often each client used its noise; it is changed.
        arrived: Who did how much work.
        needed: How many answers the round needs.
    """
    ids, steps = torch.tensor(arrived.ids, dtype=torch.int64), arrived.steps.tolist()
    sizes = run.training_federation(round_number).train.sizes
    after, refused = {}, set[int]()
    for name, privacy in run.client_privacy.items():
        used = state.uses.get(name, torch.zeros(len(sizes), dtype=torch.int64))
        after[name] = used[ids] + torch.tensor([privacy.uses(made) for made in steps], dtype=torch.int64)
        refused |= set(privacy.over_budget(sizes[ids].tolist(), after[name].tolist()))
    if len(ids) - len(refused) < needed:
        raise _budgets_spent(len(refused), len(ids), round_number)
    # Only now: a reply that one budget refuses is not used at all, so it spends nothing of the others either.
    counted = [number for number in range(len(ids)) if number not in refused]
    for name, uses in after.items():
        used = state.uses.get(name, torch.zeros(len(sizes), dtype=torch.int64))
        state.uses[name] = used.index_copy(0, ids[counted], uses[counted])
    return [arrived.ids[number] for number in sorted(refused)]


def epsilons(run: Composition, state: RunState, round_number: int) -> dict[str, float]:
    """The largest epsilon of any client so far, by the names of the records.

    Args:
        run: What the run is made of.
        state: Has how often each client used its noise.
    """
    samples: list[int] = run.training_federation(round_number).train.sizes.tolist()
    return {
        f"privacy/{name}_epsilon": privacy.spent(samples, state.uses[name].tolist()) if name in state.uses else 0.0
        for name, privacy in run.client_privacy.items()
    }
