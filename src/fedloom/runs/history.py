"""What a run measured: one record per round, and what it was measured on.

The names of metrics say which model was scored on whose data, so that no number is ever ambiguous:
``global_model/global_test/accuracy`` (the server's model on the evaluation-only node),
``client_model/own_test/accuracy/mean`` (the weights each client would predict with, on its own test part),
``received_model/own_test/...`` and ``trained_model/own_test/...`` (selected clients, before and after local training).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.errors import FedloomError

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor, nn

    from fedloom.core.task import Task

CLIENTS = "client_model/own_test/accuracy/mean"
GLOBAL = "global_model/global_test/accuracy"


@dataclass
class History:
    """A run's config, its per-round records, and (at its end) a row per client.

    A record is ``{"round", "selected": [...], "bytes_down", "bytes_up", "steps", "metrics": {name: value}}``;
    a client's row is ``{"client", "name", "train", "test", "group", "accuracy", "loss"}``. ``partition`` is the
    table of training samples per client and class. ``stopped`` says why a run ended early, if it did.
    """

    config: dict[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    partition: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    stopped: str | None = None
    row: Tensor | None = None

    @property
    def label(self) -> str:
        """The method as written on the command line."""
        return str(self.config["method"]["name"])

    def series(self, metric: str) -> tuple[list[int], list[float]]:
        """The rounds at which a metric was measured, and its values."""
        points = [(r["round"], r["metrics"][metric]) for r in self.records if metric in r["metrics"]]
        return [p[0] for p in points], [p[1] for p in points]

    def last(self, metric: str) -> float | None:
        """The newest value of a metric, or None if it was never measured."""
        values = self.series(metric)[1]
        return values[-1] if values else None

    def total(self, what: str, upto: int | None = None) -> int:
        """A sum over rounds of ``bytes_up``, ``bytes_down`` or ``steps``."""
        return sum(r[what] for r in self.records if upto is None or r["round"] <= upto)

    def frame(self) -> pd.DataFrame:
        """One line per round with every metric as a column (needs pandas)."""
        try:
            import pandas as pd
        except ImportError as missing:
            raise FedloomError("history.frame() needs pandas: pip install pandas.") from missing
        plain = ("round", "bytes_down", "bytes_up", "steps")
        return pd.DataFrame([{**{k: r[k] for k in plain}, **r["metrics"]} for r in self.records])

    def plot(self, path: str | Path | None = None) -> Any:
        """Accuracy by round as a matplotlib figure, also saved to ``path`` if given."""
        from fedloom.report.figures import accuracy_by

        figure = accuracy_by("round", {self.label: [self]})
        if path is not None:
            figure.savefig(path, bbox_inches="tight")
        return figure

    def model(self, task: Task) -> nn.Module:
        """The trained global model: a copy of the task's model with the run's final weights."""
        if self.row is None:
            raise FedloomError(f"{self.label} has no global model: its clients' models stay with the clients.")
        import copy

        model = copy.deepcopy(task.model)
        task.layout.fill(model, self.row)
        return model.eval()

    @staticmethod
    def load(folder: str | Path) -> History:
        """Read a run's folder."""
        folder = Path(folder)
        if not (folder / "config.toml").is_file():
            raise FedloomError(f"{folder} is not a run's folder: it has no config.toml.")
        with open(folder / "config.toml", "rb") as file:
            config = tomllib.load(file)
        records = _records(folder / "metrics.jsonl")
        stopped = next((r["stopped"] for r in records if "stopped" in r), None)
        return History(
            config=config,
            records=[r for r in records if "stopped" not in r],
            clients=_json(folder / "clients.json") or [],
            partition=_json(folder / "partition.json") or {},
            folder=folder,
            stopped=stopped,
            row=_row(folder),
        )


def _records(path: Path) -> list[dict[str, Any]]:
    """The records of a run; a last line that was cut off by a stop does not count."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise FedloomError(
                    f"{path}, line {number} is no JSON: restore the file or start the run anew."
                ) from None
    return records


def _row(folder: Path) -> Tensor | None:
    """The shared row of a run's newest checkpoint."""
    newest = sorted((folder / "checkpoints").glob("round-*.safetensors"))
    if not newest:
        return None
    from fedloom.runs.checkpoint import load_tensors

    return load_tensors(newest[-1]).get("server/row")


def _json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for a single value)."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
