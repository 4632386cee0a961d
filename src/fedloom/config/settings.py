"""The settings of a run that are single values, one declaration each; ``config/schema.py`` has its other keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

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
    start_without: Annotated[
        list[str],
        Setting("Tensors that `start_from` leaves as they are, as patterns: `head.*` for other classes."),
    ] = field(default_factory=list)


@dataclass(frozen=True)
class ResumeSettings:
    """What a stopped run or comparison may be continued with; None leaves it as it was started."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    rounds: Annotated[
        int | None, Ge(1), Setting("More rounds than it was started with, to continue further.", "--rounds")
    ] = None
    from_round: Annotated[
        int | None,
        Setting("For a run: continue after this round, one of the last checkpoints; later records are forgotten.",
                "--from-round"),
    ] = None  # fmt: skip
    settings: Annotated[
        Mapping[str, Any],
        Setting("With `from_round`: other settings for what follows, by their dotted keys."),
    ] = field(default_factory=dict)
    workers: Annotated[int | None, Ge(1), Setting("Worker processes; they never change a result.", "--workers")] = None
    engine: Annotated[str | None, Setting("For a run: another engine; it never changes a result.", "--engine")] = None
    ray_address: Annotated[
        str | None, Setting("For a run: the host:port of another Ray cluster, or auto.", "--ray-address")
    ] = None

    @property
    def of_a_run(self) -> list[str]:
        """Those that are given and are for a single run only."""
        given = {"from_round": self.from_round is not None, "settings": bool(self.settings)}
        given |= {"engine": self.engine is not None, "ray_address": self.ray_address is not None}
        return [name for name, is_given in given.items() if is_given]
