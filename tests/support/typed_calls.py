"""Calls that type checkers accept, and calls that they refuse as the run itself would. They are checked, never made.

``make lint`` reads this file with mypy, which also refuses an ``ignore`` with nothing to ignore: so each call that is
marked here is an error for users, and each one that is not is none.
"""

from __future__ import annotations

from typing import Any

import fedloom as fl


class Watch(fl.Callback):
    """A callback with the types that the base class has."""

    def run_begins(self, history: fl.History) -> None:
        """Look at the run."""
        print(history.config)

    def client_trained(self, work: fl.ClientWork) -> None:
        """Look at a client."""
        print(work.client + work.steps)

    def round_ends(self, record: dict[str, Any]) -> None:
        """Stop the run."""
        raise fl.StopRun("it is enough")


class WrongWatch(fl.Callback):
    """One that expects something else."""

    def round_begins(self, number: str) -> None:  # type: ignore[override]
        """Take text for a number."""


def accepted(task: fl.Task) -> None:
    """What the documentation shows."""
    history = fl.run(task, "fedavg", rounds=3, local={"lr": 0.1}, selection={"number": 2}, workers=2, progress=False)
    fl.run("digits", fl.FedProx(mu=0.1), local=fl.LocalWork(lr=0.05), callbacks=[Watch(), print], out="folder")
    found = fl.compare(task, ["fedavg", "local"], seeds=2, rounds=3, callbacks=[fl.CopyCheckpoints("elsewhere")])
    fl.sweep(task, "fedprox", grid={"local.lr": [0.1, 0.2]}, rounds=3)
    fl.advise(task, minutes=1.0, rounds=3)
    fl.resume("folder", rounds=5, workers=2)
    fl.audit(task, "fedavg", minutes=1.0, rounds=3)
    fl.task("digits", clients=5, alpha=0.1)
    history.plot(metric="client_model/own_test/loss/mean").savefig("loss.png")
    print(found.frame(), found.to_latex(), found.to_markdown())


def refused(task: fl.Task) -> None:
    """A misspelt setting, a value of another type, and what is no setting of this call."""
    fl.run(task, selecton={"number": 2})  # type: ignore[call-arg]
    fl.run(task, rounds="ten")  # type: ignore[arg-type]
    fl.run(task, weight_by="sample")  # type: ignore[arg-type]
    fl.run(task, callbacks=[3])  # type: ignore[list-item]
    fl.compare(task, ["fedavg"], round=3)  # type: ignore[call-arg]
    fl.sweep(task, "fedprox", grid={"local.lr": [0.1]}, worker=2)  # type: ignore[call-arg]
    fl.advise(task, minutes=1.0, eval_evry=2)  # type: ignore[call-arg]
    fl.resume("folder", round=5)  # type: ignore[call-arg]
    fl.audit(task, "fedavg", minute=1.0)  # type: ignore[call-arg]
    fl.audit(task, "fedavg", early_stopping={"patience": 3})  # type: ignore[call-arg]
    fl.task("digits", client=5)  # type: ignore[call-arg]
