"""The model that a client of a run predicts with, read from the run's folder."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedloom.config.method_spec import run_label
from fedloom.config.resolve import method_from_config, task_from_config
from fedloom.config.trusted_code import NO_CODE, TrustedCode
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.model.adapted_model import model_row, without_added_modules
from fedloom.core.task import FederationView, Task
from fedloom.registry.code_consent import trust_only
from fedloom.registry.kinds import TASKS
from fedloom.rounds.composition import Composition
from fedloom.rounds.run_state import RunState
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.runs.folder.fingerprint import refuse_other_task
from fedloom.runs.folder.load_config import load_config
from fedloom.runs.hostile_groups import with_hostile_groups
from fedloom.runs.prepare import prepare
from fedloom.tasks.builder import StandaloneModel
from fedloom.training.threads import single_thread

if TYPE_CHECKING:
    pass

MOST_NAMES = 6
"""How many clients an error message names."""


@dataclass(frozen=True)
class ClientModel:
    """The weights that a client predicts with.

    ``client`` is empty if all clients share them; ``round`` is the number of rounds they were trained for.
    """

    task: Task
    row: Tensor
    client: str
    method: str
    round: int


def client_model(
    folder: str | Path,
    client: str | None = None,
    *,
    task: Task | None = None,
    method: Algorithm | None = None,
    trusted: TrustedCode = NO_CODE,
) -> ClientModel:
    """The weights that a client predicts with at a run's last checkpoint, after the run's prediction stages.

    Args:
        client: The client's name, or its number. It may be omitted if all clients predict with the same model.
        task: The run's task, if it is a Python object that the config in the folder cannot name.
        method: The run's method, if it is a Python object that the config in the folder cannot name.
        trusted: The code of a user's own that may run. What only the folder names is not run.
    """
    folder = Path(folder)
    with trust_only(trusted.places, str(folder)):
        config = load_config(folder, task=task, method=method, trusted=trusted)
        prepared = prepare(task or task_from_config(config), method or method_from_config(config), config)
    run, federation = prepared.composition, prepared.composition.task.federation
    refuse_other_task(
        config.made_by,
        prepared.plain["made_by"]["task"],
        str(folder),
        "restore the data, give the same task, or use the version that wrote it",
    )
    state = load_checkpoint(folder, federation.clients)
    if state is None:
        raise FedloomError(f"{folder} has no checkpoint yet, so it has no model.")
    run = with_hostile_groups(run, state)
    number = 0 if client is None else client_number(client, federation, folder)
    rows = prediction_rows(run, state, number)
    own = rows.dim() == 2
    if client is None and own and federation.clients > 1:
        raise FedloomError(
            f"every client of {folder} has its own model: choose one with --client (client= in Python), "
            f"{_client_names(federation)}."
        )
    name = federation.name(number) if client is not None or own else ""
    row, label = rows[0].clone() if own else rows.clone(), run_label(prepared.plain)
    mine = run.task.of_client(number)
    return ClientModel(without_added_modules(mine), model_row(mine, row), name, label, state.round)


def prediction_row(run: Composition, state: RunState, client: int) -> Tensor:
    """The weights of the task's own model that a client predicts with.

    Args:
        run: What the run is made of.
        client: The client's number.
    """
    rows = prediction_rows(run, state, client)
    return model_row(run.task.of_client(client), rows[0] if rows.dim() == 2 else rows)


def prediction_rows(run: Composition, state: RunState, client: int) -> Tensor:
    """The weights that a client predicts with, after the prediction stages: its own row in a matrix, or a shared row.

    Args:
        run: What the run is made of.
        client: The client's number.
    """
    with single_thread():
        runtime = run.runtime().of_client(client)
        cohort = runtime.cohort([client], state.round, state.client_states.read([client]))
        message = run.algorithm.broadcast(state.server, [client]).for_clients(torch.tensor([0]))
        message = Message({name: tensor.clone() for name, tensor in message.shared.items()}, message.each)
        return runtime.prediction_rows(cohort, message).detach()


def client_standalone_model(
    folder: str | Path, client: str | None = None, trusted: TrustedCode = NO_CODE
) -> StandaloneModel:
    """The model of a client as its kind of task saves it (``TaskBuilder.standalone_model``).

    Args:
        client: The client's name or number; None if all clients predict with the same model.
        trusted: The code of a user's own that may run.
    """
    with trust_only(trusted.places, str(folder)):
        name = load_config(Path(folder), trusted=trusted).task.name
    kind: type[StandaloneModel] | None = TASKS[name].standalone_model if name in TASKS else None
    if kind is None:
        raise FedloomError(
            f"{folder} is a run of the task {name}, whose models cannot be used without it: use fedloom predict."
        )
    found = client_model(folder, client, trusted=trusted)
    return kind.of_task(found.task, found.row, found.client, found.method)


def client_number(client: str, federation: FederationView, where: object) -> int:
    """The number of a client that is given by its name or number; ``where`` is what an error calls the run."""
    names = [federation.name(number) for number in range(federation.clients)]
    if client in names:
        return names.index(client)
    if client.isdecimal() and int(client) < len(names):
        return int(client)
    close = get_close_matches(client, names, n=1, cutoff=0.5)
    meant = f"did you mean '{close[0]}'?" if close else f"there are {_client_names(federation)}."
    raise FedloomError(f"{where} has no client '{client}': {meant}")


def _client_names(federation: FederationView) -> str:
    """The names of the first clients, and how many more there are."""
    count = federation.clients
    named = ", ".join(f"'{federation.name(number)}'" for number in range(min(count, MOST_NAMES)))
    return named + (f" or one of {count - MOST_NAMES:,} more" if count > MOST_NAMES else "")
