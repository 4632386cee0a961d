"""How many rounds a run's privacy budgets last: said when folders are made, not when the budget is spent.

A site that has spent its budget sends nothing any more, and a run without answers ends. What a site's own noise costs
depends on how many samples it has; here they are those of the run file's data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedloom.core.privacy import ClientPrivacy
from fedloom.runs.prepare import Prepared, client_ledgers, planned_run

KINDS = {"sample": "sample_privacy", "local": "localnoise", "sum": "privatesum"}
"""The parts of a run file that make ledgers of these kinds."""


def budget_sentences(prepared: Prepared) -> list[str]:
    """A sentence per privacy budget of a run that is to be deployed; nothing for noise without a budget.

    Args:
        prepared: The run, with the run file's data.
    """
    run, config = prepared.composition, prepared.config
    clients = run.task.federation.clients
    plan = planned_run(config, run.algorithm, run.task, clients, selects=clients > 1, deployed=True)
    found, whole = [], config.aggregation.ledger(plan)
    if whole is not None and whole.budget is not None:
        spent, most = whole.spent, whole.budget
        lasts = _longest(lambda rounds: spent(rounds) <= most, config.rounds)
        found.append(_sentence("privatemean", most, lasts, config.rounds))
    sizes: list[int] = run.task.federation.train.sizes.tolist()
    steps = [run.algorithm.steps_per_turn(config.local, samples) for samples in sizes]
    for kind, ledger in client_ledgers(config, plan).items():
        if ledger.budget is not None:
            lasts = _longest(partial(_lasts, ledger, sizes, steps, run.algorithm.turns), config.rounds)
            found.append(_sentence(KINDS.get(kind, kind), ledger.budget, lasts, config.rounds))
    return found


def _lasts(ledger: ClientPrivacy, sizes: list[int], steps: list[int], turns: int, rounds: int) -> bool:
    """Whether the budgets of all clients last for this many rounds, in each of which they are asked some times."""
    return not ledger.over_budget(sizes, [rounds * turns * ledger.uses(made) for made in steps])


def _longest(lasts: Callable[[int], bool], rounds: int) -> int:
    """The most rounds, up to all of them, for which something lasts; it does not last longer again later."""
    fewest, most = 0, rounds
    while fewest < most:
        middle = (fewest + most + 1) // 2
        fewest, most = (middle, most) if lasts(middle) else (fewest, middle - 1)
    return fewest


def _sentence(part: str, budget: float, lasts: int, rounds: int) -> str:
    what = f"Privacy: epsilon = {budget:g} of {part} lasts for"
    if lasts == rounds:
        return f"{what} all {rounds} rounds."
    return f"{what} {lasts} of {rounds} rounds, and the run ends then: more noise or fewer rounds make it last."
