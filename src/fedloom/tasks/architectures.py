"""``task.models``: the architectures of a task's clients, and who has which.

Each is named by what builds it (``"resnet8" = 0.5``), or has a name of its own and a table:
``small = {model = "mlp:hidden=[16]", clients = [0, 3]}``. Who has it is a list of clients, a class of devices, or a
share of the clients that nothing else names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.core.arguments import argument_error
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.model.architectures import Architectures
from fedloom.core.seeds import numpy_generator
from fedloom.models import build
from fedloom.models.chain import Shape
from fedloom.registry.spec import split_spec
from fedloom.registry.user_classes import resolve_user_file
from fedloom.registry.validation import validate
from fedloom.selection.devices import draw_devices

DeviceClass = Literal["slow", "medium", "fast"]
Who = float | Sequence[int | str] | AbstractSet[int | str] | DeviceClass
"""Who has a model: a share of the clients, a list or a set of them, or the clients with devices of a class."""
ModelTable = Mapping[str, Who | Mapping[str, Any]]


@dataclass(frozen=True)
class ModelOwners:
    """A model that some clients have. Exactly one of ``share``, ``clients`` and ``device`` says who.

    Args:
        model: A name of ``fedloom list models``, or ``net.py:Net``; settings may follow (``mlp:hidden=[16]``).
        share: The share of the clients that neither a list nor a class of devices names.
        device: The clients whose devices are the slowest, middle or fastest third.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    model: str
    share: float | None = None
    clients: tuple[int | str, ...] | None = None
    device: DeviceClass | None = None


def complete_models(models: ModelTable) -> dict[str, dict[str, Any]]:
    """The table with an entry ``{model, share | clients | device}`` for each architecture.

    Args:
        models: What the user gave.
    """
    if not isinstance(models, Mapping):
        raise argument_error("models", models, 'give a table of models and who has them, such as {"mlp": 1.0}')
    return {name: _plain(_entry(name, who)) for name, who in models.items()}


def with_named_models(task: Mapping[str, Any]) -> dict[str, Any]:
    """The section of a task in which every entry of ``models`` is a table that says its model; nothing is checked.

    Args:
        task: The section, as the user or a folder gave it.
    """
    models = task.get("models")
    if not isinstance(models, Mapping):
        return dict(task)  # validation says what is wrong
    return {**task, "models": {name: _table(name, who) for name, who in models.items()}}


def _table(name: str, who: Who | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(who, Mapping):
        return {"model": name} | {key: _plain_clients(value) for key, value in who.items()}
    who = _plain_clients(who)
    if isinstance(who, str):
        return {"model": name, "device": who}
    return {"model": name, "clients": list(who)} if isinstance(who, Sequence) else {"model": name, "share": who}


def _entry(name: str, who: Who | Mapping[str, Any]) -> ModelOwners:
    _require_model_name(name, "task.models")
    where = f"task.models: {name}"
    if isinstance(who, str) and who not in get_args(DeviceClass):
        raise unknown(f"class of devices in {where}:", who, get_args(DeviceClass))
    table = _table(name, who)
    share = table.get("share")
    _require_model_name(share if isinstance(share, nn.Module) else table["model"], where)
    if isinstance(share, bool) or not isinstance(share, Real | str | None):
        raise argument_error(where, share, "give a share, a list of clients, or a class of devices")
    entry: ModelOwners = validate(ModelOwners, table, where)
    found = [key for key in ("share", "clients", "device") if getattr(entry, key) is not None]
    if len(found) != 1:
        said = f"{' and '.join(found)} each say who has it" if found else "nothing says who has it"
        raise FedloomError(f"{where}: {said}: give one of share, clients and device.")
    if entry.share is not None and not 0 < entry.share <= 1:
        raise FedloomError(f"{where}: share={entry.share}: a share is above 0 and at most 1.")
    spec = split_spec(entry.model)[0]
    return replace(entry, model=entry.model.replace(spec, resolve_user_file(spec), 1))


def _require_model_name(model: object, where: str) -> None:
    """Refuse a model that is an object: a configuration, from which others build the task again, has names only."""
    if not isinstance(model, str):
        raise FedloomError(
            f"{where}: a model is given by its name, such as mlp, or as file.py:Class if it is your own, not as an "
            f"object of type {type(model).__name__}."
        )


def _plain_clients(who: Any) -> Any:
    """Clients in an array or a set as a list; anything else as it is."""
    if isinstance(who, np.ndarray | np.generic | Tensor):
        return who.tolist()
    return sorted(who, key=str) if isinstance(who, AbstractSet) else who


def _plain(entry: ModelOwners) -> dict[str, Any]:
    values = {"share": entry.share, "clients": entry.clients and list(entry.clients), "device": entry.device}
    return {"model": entry.model} | {key: value for key, value in values.items() if value is not None}


def build_architectures(
    models: ModelTable,
    names: Iterable[str],
    shape: Shape | Mapping[str, Shape],
    classes: int,
    seed: int,
) -> Architectures | None:
    """The models of a task's clients; None if the table is empty.

    Args:
        models: The table ``task.models``.
        names: The clients' names.
        shape: The shape of one sample, or shapes by column.
        classes: The number of outputs.
        seed: The seed of the assignment and of the initial weights.
    """
    if not models:
        return None
    entries = {name: _entry(name, who) for name, who in models.items()}
    of_client = assign(entries, list(names), seed)
    built = []
    for entry in entries.values():
        name, options = split_spec(entry.model)
        built.append(build(name, shape, classes, seed, **options))
    return Architectures(tuple(built), tuple(entries), of_client)


def numbered_models(models: ModelTable, architectures: Architectures) -> dict[str, dict[str, Any]]:
    """The table with the numbers of the clients that have each architecture, whatever said so before.

    Args:
        models: The table ``task.models``.
        architectures: What was made of it.
    """
    entries = complete_models(models).items()
    return {
        name: {"model": entry["model"], "clients": architectures.clients_of(number)}
        for number, (name, entry) in enumerate(entries)
    }


def assign(entries: Mapping[str, ModelOwners], names: Sequence[str], seed: int) -> Tensor:
    """The number of each client's architecture.

    Args:
        entries: The architectures, by name.
        names: The clients' names.
        seed: The seed of the division by shares.
    """
    of_client = torch.full((len(names),), -1)
    speeds = _device_classes(len(names), seed)
    for number, (name, entry) in enumerate(entries.items()):
        if entry.clients is not None:
            chosen = [_client(one, names, name) for one in entry.clients]
        elif entry.device is not None:
            chosen = [client for client, speed in enumerate(speeds) if speed == entry.device]
        else:
            continue
        for client in chosen:
            if of_client[client] >= 0:
                other = list(entries)[int(of_client[client])]
                raise FedloomError(
                    f"task.models: client {names[client]} has both {other} and {name}: name it in one of them."
                )
            of_client[client] = number
    rest = (of_client < 0).nonzero().flatten().numpy()
    shares = {number: entry.share for number, entry in enumerate(entries.values()) if entry.share is not None}
    if len(rest) and not shares:
        raise FedloomError(
            f"task.models: client {names[rest[0]]} has no model: add it to a list, or give one model a share."
        )
    if shares and abs(sum(shares.values()) - 1) > 1e-6:
        raise FedloomError(
            f"task.models: the shares sum to {sum(shares.values()):g}: they divide the clients that no list names, so "
            "let them sum to 1."
        )
    order = numpy_generator(seed, "architectures").permutation(rest)
    bounds = np.round(np.cumsum([0.0, *shares.values()]) * len(order)).astype(int)
    for (number, _), first, last in zip(shares.items(), bounds[:-1], bounds[1:], strict=True):
        of_client[torch.from_numpy(order[first:last])] = number
    for number, name in enumerate(entries):
        if not bool((of_client == number).any()):
            raise FedloomError(
                f"task.models: no client has {name}: give it a larger share or more clients, or leave it out."
            )
    return of_client


def _client(one: int | str, names: Sequence[str], model: str) -> int:
    if isinstance(one, str) and one in names:
        return names.index(one)
    if isinstance(one, int) and 0 <= one < len(names):
        return one
    raise FedloomError(
        f"task.models: {model} names the client {one!r}, but there are {len(names)} clients: give numbers from 0 to "
        f"{len(names) - 1}, or names."
    )


def _device_classes(clients: int, seed: int) -> list[str]:
    """The class of each client's device, by the speeds that ``rawcs`` draws with the same seed."""
    devices = draw_devices(numpy_generator(seed, "devices", 0), np.ones(clients))
    rank = np.argsort(np.argsort(-devices.training, kind="stable"), kind="stable")
    return [get_args(DeviceClass)[place * 3 // clients] for place in rank.tolist()]
