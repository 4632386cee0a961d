"""An advice with made-up numbers, for the tests of its text and its page."""

from __future__ import annotations

from dataclasses import replace

from fedloom.runs.plans.advise.advice import Advice, Cost, Pick, Standing
from fedloom.runs.plans.advise.halving import Rung

LOCAL = Standing("local lr=0.1", 0.7, 0.71, 0.02, 3)
DITTO = Standing("ditto:lam=1 lr=0.1", 0.8, 0.81, 0.01, 3)
FEDPER = Standing("fedper lr=0.3", 0.79, 0.78, 0.03, 3)
PICK = Pick("small", DITTO, FEDPER, LOCAL, 0.87, 0.999, (), "best", 4, (5, 12))


def example_advice() -> Advice:
    """Two groups, two rungs, candidates that failed and candidates that were not run."""
    return Advice(
        task="digits",
        score="accuracy",
        groups=(PICK, replace(PICK, group="big", use=LOCAL, local=None, over_local=None, sizes=(90, 90))),
        overall=replace(PICK, group="overall", reason="regret", clients=8),
        regrets={"small": 0.0, "big": 0.012},
        costs={
            "local lr=0.1": Cost(0, 0, 3.0),
            "ditto:lam=1 lr=0.1": Cost(60_000, 61_000, 6.0),
            "fedper lr=0.3": Cost(500, 500, 3.0),
        },
        rungs=(Rung(3, 1, ("a", "b", "c")), Rung(20, 3, ("a", "b"))),
        cannot_run={"scaffold lr=0.1": "no momentum.", "scaffold lr=0.3": "no momentum.", "x": "it <broke>."},
        not_run=tuple(f"m{n}" for n in range(9)),
        rounds=20,
        minutes=2.0,
        seconds=93.4,
    )
