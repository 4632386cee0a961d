"""Trackers: observers that send the metrics of each round to TensorBoard or MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError, unknown
from fedloom.runs.runner import Observer
from fedloom.runs.statistics import BYTES

TRACKERS = {
    "tensorboard": "event files in the run's folder, for tensorboard --logdir",
    "mlflow": "an MLflow run at MLFLOW_TRACKING_URI, or in files below the run's folder",
}


def tracker(name: str, folder: Path, label: str, rounds: int) -> Observer:
    """An observer that sends every metric to the named tracker."""
    if name == "tensorboard":
        return _tensorboard(folder)
    if name == "mlflow":
        return _mlflow(folder, label, rounds)
    raise unknown("tracker", name, TRACKERS)


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    return {**record["metrics"], **{key: float(record[key]) for key in (*BYTES, "steps")}}


def _tensorboard(folder: Path) -> Observer:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as missing:
        raise FedloomError("--track tensorboard needs TensorBoard: pip install 'fedloom[tensorboard]'.") from missing
    writer = SummaryWriter(str(folder / "tensorboard"))

    def observe(record: dict[str, Any]) -> None:
        for name, value in _numbers(record).items():
            writer.add_scalar(name, value, record["round"])
        writer.flush()

    return observe


def _mlflow(folder: Path, label: str, rounds: int) -> Observer:
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as missing:
        raise FedloomError("--track mlflow needs MLflow: pip install 'fedloom[mlflow]'.") from missing
    address = os.environ.get("MLFLOW_TRACKING_URI")
    if address is None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # plain files need no database and no server
        address = (folder.resolve() / "mlflow").as_uri()
    try:
        client = MlflowClient(tracking_uri=address, registry_uri=address)
        experiment = client.get_experiment_by_name("fedloom")
        home = experiment.experiment_id if experiment is not None else client.create_experiment("fedloom")
        run = client.create_run(home, run_name=label).info.run_id
    except MlflowException as error:
        raise FedloomError(f"MLflow at {address} does not answer ({error}): check MLFLOW_TRACKING_URI.") from None

    def observe(record: dict[str, Any]) -> None:
        for name, value in _numbers(record).items():
            client.log_metric(run, name, value, step=record["round"])
        if record["round"] == rounds:
            client.set_terminated(run)

    return observe
