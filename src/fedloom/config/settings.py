"""The settings of a run that are single values, one declaration each; ``config/schema.py`` has its other keys."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge

from fedloom.registry.setting import Setting, path_text

ROUND = "Rounds"
DEFAULT_ROUNDS = 20


class RunSettings:
    """How long and where a run trains, and how it is measured.

    ``workers``, ``engine``, ``ray_address`` and ``checkpoint_every`` never change a result.
    """

    rounds: Annotated[int, Ge(1), Setting("The number of rounds.", "--rounds", ROUND)] = DEFAULT_ROUNDS
    seed: Annotated[int, Setting("The seed of all random choices: same seed, same bytes.", "--seed", ROUND)] = 0
    weight_by: Annotated[
        Literal["samples", "steps", "uniform"], Setting("What a client's weight in a mean is proportional to.")
    ] = "samples"
    execution: Annotated[str, Setting("How a cohort trains, of `fedloom list executions`.", "--execution", ROUND)] = (
        "auto"
    )
    workers: Annotated[int, Ge(1), Setting("Worker processes; they never change a result.", "--workers", ROUND)] = 1
    engine: Annotated[
        str,
        Setting("Where clients train: auto, or one of `fedloom list engines`; it never changes a result.", "--engine",
                ROUND),
    ] = "auto"  # fmt: skip
    ray_address: Annotated[
        str | None,
        Setting("The host:port of a Ray cluster, or auto for the one of this machine.", "--ray-address", ROUND,
                usual="a local Ray is started"),
    ] = None  # fmt: skip
    eval_every: Annotated[int, Ge(0), Setting("Evaluate every n rounds; 0 is never.", "--eval-every", ROUND)] = 1
    eval_clients: Annotated[int | None, Ge(1), Setting("How many clients are evaluated, drawn once.", usual="all")] = (
        None
    )
    clients_on_global: Annotated[
        bool, Setting("Whether the clients' own models are also measured on the global test set.")
    ] = False
    checkpoint_every: Annotated[int, Ge(1), Setting("Write a checkpoint every n rounds.")] = 1
    size_groups: Annotated[
        list[int] | None,
        Setting("Numbers of training samples at which clients are divided into groups for reports.", usual="terciles"),
    ] = None
    new_clients: Annotated[
        int, Ge(0), Setting("Clients held out of training; they are only evaluated.", "--new-clients", ROUND)
    ] = 0
    start_from: Annotated[
        str | None,
        Setting("Start from the model of a run's folder, of a saved model, or of a .safetensors file.", "--start-from",
                ROUND, usual="a random initial model", read=path_text),
    ] = None  # fmt: skip
