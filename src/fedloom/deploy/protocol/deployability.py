"""Which runs can be deployed, and which of them with sites' own data; the others can only be rehearsed."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.config.compatibility import check_compatibility
from fedloom.config.schema import RunConfig
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.task import Task
from fedloom.data.tables.schema import DataSchema


def check_deployable(config: RunConfig, task: Task, algorithm: Algorithm, sites: Sequence[str]) -> None:
    """Raise an error for a run that only a simulation can do, and if the sites are not the task's clients.

    Args:
        task: Its simulated task.
        sites: The names of the training sites, by client number.
    """
    federation = task.federation
    if federation.seen is not None:
        raise FedloomError(
            "task.stream decides which classes clients meet when, but real sites meet their own: leave it out."
        )
    if federation.later:
        raise FedloomError("task.drift lets clients exchange data, but real sites keep theirs: leave it out.")
    if not holds(Fact.OWN_DATA, algorithm):
        raise FedloomError(
            f"{config.method['name']} trains on all clients' data in one place, which a deployment avoids: choose "
            "another method."
        )
    if config.early_stopping is not None:
        raise FedloomError(
            "early_stopping goes back to an earlier round, but sites keep the state of the last one: leave it out."
        )
    if config.adversary is not None and config.adversary.waits_for_groups:
        raise FedloomError(
            'adversary.groups = "formed" draws hostile clients when groups are formed, but sites start before: list '
            "the groups, or leave groups out."
        )
    check_compatibility(config, algorithm, algorithm.adapt_task(task), config.execution, deployed=True)
    twice = [name for name in sites if list(sites).count(name) > 1]
    if twice:
        raise FedloomError(f"two sites are called {twice[0]}: give each its own name.")
    if federation.clients != len(sites):
        raise FedloomError(
            f"{len(sites)} sites are named, but the task has {federation.clients} clients: set task.clients to "
            f"{len(sites)}, or name {federation.clients} sites."
        )


def own_data_error(config: RunConfig, schema: DataSchema) -> str | None:
    """Why sites cannot use data of their own in a run, as a sentence without full stop; None if they can."""
    if schema.rehearsal_only:
        unusual = f"task {config.task.name} with method {config.method['name']} cannot use a site's own data"
        return schema.reason or f"{unusual}: choose another method"
    if config.clients_on_global:
        return (
            "clients_on_global = true evaluates sites' models on the server's test samples, which do not leave the "
            "server: set it to false in the run file"
        )
    if config.task.withhold is not None:
        return "task.withhold removes samples from clients in a simulation: leave it out of the run file"
    if config.adversary is not None:
        return "[adversary] makes clients hostile in a simulation, and real sites would do it: leave it out"
    if schema.symbols and not schema.class_names:
        return (
            f"task {config.task.name} numbers words that no folder lists, so no site can number its own: use task own"
        )
    return None
