"""Trackers: callbacks that send the metrics of each round to TensorBoard, MLflow or Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.core.arguments import list_from
from fedloom.core.errors import FedloomError, unknown
from fedloom.runs.callbacks.callback import Callback
from fedloom.runs.results.summaries import BYTES

Log = Callable[[dict[str, float], int], None]
"""Takes the numbers of a round and the round."""


@dataclass(frozen=True)
class Tracker(Callback):
    """Sends the numbers of each round to a tracker, until the run ends.

    Args:
        log: Sends the numbers of a round.
        end: Tells the tracker that the run has ended.
    """

    log: Log
    end: Callable[[], None]

    def round_ends(self, record: dict[str, Any]) -> None:
        """Send its numbers."""
        self.log({**record["metrics"], **{key: float(record[key]) for key in (*BYTES, "steps")}}, record["round"])

    def close(self) -> None:
        """End the tracker's run."""
        self.end()


TRACKERS = {
    "tensorboard": "event files in the output folder, for tensorboard --logdir",
    "mlflow": "an MLflow run at MLFLOW_TRACKING_URI, or in files below the output folder",
    "wandb": "a Weights & Biases run in files below the output folder; WANDB_MODE=online sends it",
}


def make_trackers(names: Sequence[str], folder: Path | None, label: str, *, is_plan: bool = False) -> list[Tracker]:
    """Trackers of a run.

    Args:
        names: Names of ``TRACKERS``.
        folder: The folder of the run, or of the plan that it belongs to.
        label: What the trackers call the run.
        is_plan: Whether other runs have the same folder.
    """
    names = list_from("track", names, "'tensorboard'")
    strange = [name for name in names if name not in MAKERS]
    if strange:
        raise unknown("tracker", strange[0], TRACKERS)
    if names and folder is None:
        raise FedloomError(f"track={', '.join(names)}: trackers write into the folder of a run: give out= too.")
    return [MAKERS[name](folder, label, is_plan) for name in names if folder is not None]


def _tensorboard(folder: Path, label: str, is_plan: bool) -> Tracker:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise FedloomError("--track tensorboard needs TensorBoard: pip install 'fedloom[tensorboard]'.") from missing
    home = folder / "tensorboard"
    writer = SummaryWriter(str(home / label if is_plan else home))

    def log(numbers: dict[str, float], number: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, number)
        writer.flush()

    return Tracker(log, writer.close)


def _mlflow(folder: Path, label: str, is_plan: bool) -> Tracker:
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as missing:
        raise FedloomError("--track mlflow needs MLflow: pip install 'fedloom[mlflow]'.") from missing
    address = os.environ.get("MLFLOW_TRACKING_URI")
    if address is None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # plain files need no database and no server
        address = (folder.resolve() / "mlflow").as_uri()
    tags = {"fedloom.plan": folder.name} if is_plan else {}
    try:
        client = MlflowClient(tracking_uri=address, registry_uri=address)
        experiment = client.get_experiment_by_name("fedloom")
        home = experiment.experiment_id if experiment is not None else client.create_experiment("fedloom")
        run = client.create_run(home, run_name=label, tags=tags).info.run_id
    except MlflowException as error:
        raise FedloomError(f"MLflow at {address} does not answer ({error}): check MLFLOW_TRACKING_URI.") from None

    def log(numbers: dict[str, float], number: int) -> None:
        for name, value in numbers.items():
            client.log_metric(run, name, value, step=number)

    return Tracker(log, lambda: client.set_terminated(run))


def _wandb(folder: Path, label: str, is_plan: bool) -> Tracker:
    try:
        import wandb
    except ImportError as missing:
        raise FedloomError("--track wandb needs Weights & Biases: pip install 'fedloom[wandb]'.") from missing
    runs: list[Any] = []
    mode: Any = os.environ.get("WANDB_MODE", "offline")  # nothing leaves this machine unless the user says so

    def log(numbers: dict[str, float], number: int) -> None:
        if not runs:  # it starts threads, and worker processes are forked before the first record
            run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "fedloom"),
                name=label,
                group=folder.name if is_plan else None,
                dir=str(folder),
                mode=mode,
                reinit="create_new",
                settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
            )
            runs.append(run)
        runs[0].log(numbers, step=number)

    def close() -> None:
        for run in runs:
            run.finish()

    return Tracker(log, close)


MAKERS: dict[str, Callable[[Path, str, bool], Tracker]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
}
