"""What a run measured: one record per round, and one row per client at the end.

The name of a metric says which model was scored on which data:
``global_model/global_test/accuracy`` (the server's model on the evaluation-only node),
``client_model/own_test/accuracy/mean`` (the weights each client would predict with, on its own test part),
``received_model/own_test/...`` and ``trained_model/own_test/...`` (selected clients, before and after local training).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.config.method_spec import run_label
from fedloom.config.task_title import task_title
from fedloom.core.arguments import path_from
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.task import check_task
from fedloom.plotting.curves import curves_figure, draw_panel
from fedloom.plotting.style import save_figure
from fedloom.rounds.early_stopping import EarlyStopping, best_so_far
from fedloom.rounds.score import Score, score_of, scores_of
from fedloom.runs.folder.checkpoint import read_server_state
from fedloom.runs.folder.manifest import newest_manifest
from fedloom.runs.folder.old_folders import read_run_values
from fedloom.runs.folder.run_files import read_partition, read_records, read_result, read_seconds
from fedloom.runs.results.client_model import client_model, client_number
from fedloom.runs.results.data_frame import data_frame
from fedloom.runs.results.history_html import history_html
from fedloom.runs.results.metric_names import refuse_unknown_metric
from fedloom.runs.results.summaries import BYTES, bytes_sent, metric_panel, score_panels
from fedloom.runs.results.unadapted_row import unadapted_row
from fedloom.runs.start_model import with_start

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from torch import Tensor, nn

    from fedloom.core.algorithm import Algorithm
    from fedloom.core.task import Task


@dataclass(repr=False)
class History:
    """A run's config, its per-round records, and (at its end) a row per client.

    Two histories are equal if the same config measured the same, wherever they are stored and however long they took.

    Args:
        records: One record per round: ``{"round", "selected": [...], "bytes_down", "bytes_up", "bytes_between",
            "steps", "metrics": {name: value}}``.
        clients: One row per client: ``{"client", "name", "train", "test", "points", "group", "accuracy", "loss"}``
            (points: all its samples).
        partition: The table of training samples per client and class.
        folder: The folder of the run; None if it stayed in memory.
        stopped: Why the run ended early, if it did.
        can_continue: Whether a callback stopped it, so that ``fl.resume`` continues it.
        row: The weights of the shared model, if the method has one.
        seconds: How long each round took, by its number.
        confusion: How many test samples of each class (rows) clients' models took for which class (columns), all
            clients together; empty if it was not counted.
        baselines: What answering without a model scores on the same samples: ``{"name", "words", "metrics",
            "clients"}`` for each baseline of the task; empty if it was not measured.
        rows_of: The weights that a client predicts with, by its number, of a run without a folder.
    """

    config: dict[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    partition: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = field(default=None, compare=False)
    stopped: str | None = None
    can_continue: bool = False
    row: Tensor | None = field(default=None, compare=False)
    seconds: dict[int, float] = field(default_factory=dict, compare=False)
    confusion: list[list[int]] = field(default_factory=list)
    baselines: list[dict[str, Any]] = field(default_factory=list)
    rows_of: Callable[[int], Tensor] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        last = self.records[-1]["round"] if self.records else 0
        facts = [f"{last} of {self.config['rounds']} rounds" if "rounds" in self.config else f"{last} rounds"]
        for metric, whose in ((self.score.clients, "clients' models"), (self.score.shared, "global model")):
            value = self.last(metric)
            facts += [] if value is None else [f"{self.score.title} {self.score.text(value)} ({whose})"]
        facts += [f"ended with round {self.final_round}"] if "early_stopping" in self.config else []
        facts += [f"stopped: {self.stopped}"] if self.stopped else []
        facts += [f"in {self.folder}"] if self.folder is not None else []
        return f"<History of {self.label} on {task_title(self.config)}: {', '.join(facts)}>"

    @property
    def label(self) -> str:
        """The method and its prediction stages, as written on the command line."""
        return run_label(self.config)

    @property
    def score(self) -> Score:
        """The score of the run's task: its first metric, or accuracy."""
        return score_of(self.config)

    @property
    def metric_names(self) -> list[str]:
        """The names of all metrics that the run measured."""
        return list(dict.fromkeys(name for record in self.records for name in record["metrics"]))

    def series(self, metric: str) -> tuple[list[int], list[float]]:
        """The rounds at which a metric was measured, and its values; a name that no run has is an error.

        Args:
            metric: The name of a metric, such as ``client_model/own_test/accuracy/mean``.
        """
        refuse_unknown_metric(metric, self.metric_names, [score.name for score in scores_of(self.config)])
        points = [(r["round"], r["metrics"][metric]) for r in self.records if metric in r["metrics"]]
        return [p[0] for p in points], [p[1] for p in points]

    @property
    def final_round(self) -> int:
        """The round whose models the run ended with: the last one, or the best one with early stopping."""
        rule = self.config.get("early_stopping")
        if rule is not None:
            progress = best_so_far(self.records, EarlyStopping(**rule), scores_of(self.config))
            if progress is not None:
                return progress.best
        return int(self.records[-1]["round"]) if self.records else 0

    def last(self, metric: str) -> float | None:
        """The newest value of a metric, or None if it was never measured; a name that no run has is an error.

        With early stopping it is the value of the best round, whose models the run ended with.

        Args:
            metric: The name of a metric, such as ``client_model/own_test/accuracy/mean``.
        """
        final = self.final_round
        values = [value for number, value in zip(*self.series(metric), strict=True) if number <= final]
        return values[-1] if values else None

    def mean(self, metric: str) -> float | None:
        """The mean of a metric over all rounds from round 1 in which it was measured, or None if there are none.

        Args:
            metric: The name of a metric, such as ``client_model/own_test/accuracy/mean``.
        """
        values = [r["metrics"][metric] for r in self.records if r["round"] and metric in r["metrics"]]
        return sum(values) / len(values) if values else None

    def rounds_to(self, target: float, metric: str | None = None, window: int = 1) -> int | None:
        """The first round at which the mean of the last ``window`` measured values is at least ``target``.

        None if that never happens, or if fewer than ``window`` values were measured.

        Args:
            target: The value to reach.
            metric: The name of a metric, such as ``client_model/own_test/accuracy/mean``; None is the mean score of
                clients' models, which must be at most ``target`` where lower is better.
            window: How many measured values are averaged.
        """
        if window < 1:
            raise FedloomError(f"window={window}: it must be at least 1.")
        rounds, values = self.series(metric or self.score.clients)
        sign = 1 if metric is not None or self.score.higher_is_better else -1
        means = (sum(values[end - window : end]) / window for end in range(window, len(values) + 1))
        later = zip(rounds[window - 1 :], means, strict=True)
        return next((number for number, mean in later if sign * mean >= sign * target), None)

    def total(self, what: str, upto: int | None = None) -> int:
        """The sum of a cost over rounds.

        Args:
            what: ``steps``, or bytes: ``bytes_up`` to the server, ``bytes_down`` from it, ``bytes_between`` clients, or
                ``bytes_sent``, which is all three.
            upto: The last round that counts; all rounds by default.
        """
        if what not in (*BYTES, "bytes_sent", "steps"):
            raise unknown("cost", what, (*BYTES, "bytes_sent", "steps"))
        records = [r for r in self.records if upto is None or r["round"] <= upto]
        if what == "bytes_sent":
            return sum(bytes_sent(r) for r in records)
        return sum(r.get(what, 0) if what in BYTES else r[what] for r in records)

    def frame(self) -> pd.DataFrame:
        """One line per round with every metric as a column (needs pandas)."""
        lines = [{"round": r["round"], **{k: r.get(k, 0) for k in BYTES}, "steps": r["steps"]} for r in self.records]
        rows = [line | r["metrics"] for line, r in zip(lines, self.records, strict=True)]
        return data_frame(rows, "history.frame()")

    def plot(self, path: str | Path | None = None, *, metric: str | None = None, ax: Axes | None = None) -> Any:
        """The score by round as a matplotlib figure, also saved to ``path`` if given. A notebook shows it.

        Args:
            path: The file; its ending names the format.
            metric: Another metric, such as ``client_model/own_test/loss/mean``; by default the scores of the global
                model and of clients' models.
            ax: Axes of your own figure. One metric is drawn on them, clients' score by default, and they are returned.
        """
        if metric is None and ax is None:
            panels = score_panels("round", {self.label: [self]})
        else:
            panels = [metric_panel(self, metric or self.score.clients)]
        if ax is not None:
            draw_panel(ax, panels[0])
        figure = curves_figure(panels, [self.label]) if ax is None else ax.get_figure(root=True)
        if path is not None and figure is not None:
            save_figure(figure, path)
        return figure if ax is None else ax

    def _repr_html_(self) -> str:
        return history_html(self)

    def model(self, task: Task, client: int | str | None = None, method: Algorithm | None = None) -> nn.Module:
        """A trained model: a copy of the task's model with the run's final weights.

        Args:
            task: The task that the run was trained on.
            client: The name or number of a client, for the weights that it predicts with after the run's prediction
                stages; None is the global model.
            method: The method, if it is a Python object and the run has a folder.
        """
        check_task(task)
        if client is not None:
            row = self._client_row(task, str(client), method)
            if task.architectures is not None:
                task = task.of_client(client_number(str(client), task.federation, self.label))
        elif self.row is not None:
            row = unadapted_row(self.row, task, method or self.config.get("method", {"name": "fedavg"}))
        else:
            raise FedloomError(
                f"{self.label} has no global model, its clients' models stay with the clients: name one with client=."
            )
        if len(row) != task.layout.width:
            raise FedloomError(
                f"this run's model has {len(row):,} numbers, but the model of the task {task.name} has "
                f"{task.layout.width:,}: give the task of the run."
            )
        start = self.config.get("start_from")
        if start is not None and task.layout.constants(task.model):  # what is frozen came from there
            task = with_start(task, start, self.config.get("start_without", ()))
        model = copy.deepcopy(task.model)
        task.layout.fill(model, row)
        return model.eval()

    def _client_row(self, task: Task, client: str, method: Algorithm | None) -> Tensor:
        if self.folder is not None:
            return client_model(self.folder, client, task=task, method=method).row
        if self.rows_of is None:
            raise FedloomError("the clients' models of this run were not kept: give the run a folder with out=...")
        return self.rows_of(client_number(client, task.federation, self.label))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "rows_of": None}

    def server_state(self) -> dict[str, Tensor]:
        """The server's state at the run's newest checkpoint: the shared row, clusters, a chosen threshold, ..."""
        if self.folder is None:
            raise FedloomError("history.server_state() reads a run's checkpoint: give the run a folder with out=...")
        return read_server_state(self.folder)

    @staticmethod
    def load(folder: str | Path) -> History:
        """Read a run's folder.

        Args:
            folder: The run's folder.
        """
        folder = path_from("folder", folder)
        config, manifest = read_run_values(folder), newest_manifest(folder)
        records = read_records(folder, manifest)
        return History(
            config=config,
            records=[r for r in records if "stopped" not in r],
            clients=read_result(folder, "clients.json", manifest) or [],
            partition=read_partition(folder, manifest),
            folder=folder,
            stopped=next((r["stopped"] for r in records if "stopped" in r), None),
            can_continue=any(r.get("can_continue") is True for r in records),
            row=read_server_state(folder).get("row"),
            seconds=read_seconds(folder),
            confusion=read_result(folder, "confusion.json", manifest) or [],
            baselines=read_result(folder, "baselines.json", manifest) or [],
        )
