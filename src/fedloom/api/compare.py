"""``fl.compare``: several methods on the same data with the same seeds, in memory or in a folder with a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedloom.api.plot import plot
from fedloom.config.method_spec import Method, label_of, method_from
from fedloom.config.schema import RunConfig
from fedloom.config.settings import ResumeSettings
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import list_from, path_from
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.registry.setting_arguments import documents_settings
from fedloom.reports.comparison_table import comparison_frame, comparison_table
from fedloom.reports.run_page import write_report
from fedloom.reports.summary_table import baseline_rows, cell_text, summary
from fedloom.reports.verdict import evidence, verdict
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.callbacks.callback_list import for_one_run, observer_list
from fedloom.runs.callbacks.progress import show_progress
from fedloom.runs.callbacks.trackers import make_trackers
from fedloom.runs.plans.compare import PLAN, make_plan, prolong_comparison, run_comparison, write_comparison
from fedloom.runs.plans.members import ObserversOf, RunFactory, TaskOf
from fedloom.runs.plans.plan import TaskSource, read_plan
from fedloom.runs.results.data_frame import data_frame
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import common_score
from fedloom.runs.run import warn_if_stopped

if TYPE_CHECKING:
    import pandas as pd

MOST_SHOWN = 4
"""How many methods a short description names."""
EXAMPLE = "'fedavg', 'local'"


class Comparison(dict[str, list[History]]):
    """The runs of each method, one history per seed, under the method's spec.

    Args:
        runs: The histories.
        folder: The folder of the comparison; None if it stayed in memory.
        reach: A value of the score; ``rows`` then say after how many rounds each method reached it.
    """

    def __init__(
        self, runs: Mapping[str, list[History]], folder: Path | None = None, reach: float | None = None
    ) -> None:
        super().__init__(runs)
        self.folder, self.reach = folder, reach

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The table: a row per method with its scores, their spread over seeds, and its costs."""
        return summary(self, self.reach)

    @property
    def baselines(self) -> list[dict[str, Any]]:
        """Rows of the same form for what answering without a model scores, such as always the most frequent class."""
        return baseline_rows(self)

    @property
    def verdict(self) -> str:
        """Which method is best, or which ones cannot be told apart."""
        return verdict(self)

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """The numbers behind the verdict: a row for each rival of the leader on each test, with ``metric``, ``leader``,
        ``rival``, ``lead``, ``low`` and ``high`` (its 95 % interval), ``p``, ``seeds`` and ``established``."""
        return evidence(self)

    def plot(self, path: str | Path | None = None, axis: str = "round") -> Any:
        """The score of all methods as a matplotlib figure, also saved to ``path`` if given.

        Args:
            path: The file; its ending names the format.
            axis: Along ``round``, ``megabytes``, ``steps`` or ``seconds``.
        """
        return plot(self, path, axis)

    def frame(self) -> pd.DataFrame:
        """One line per method and per baseline with every number as a column (needs pandas)."""
        return data_frame(comparison_frame(self, self.reach), "comparison.frame()")

    def to_markdown(self) -> str:
        """The table as Markdown: mean ± standard deviation over seeds, the best mean in bold, a caption."""
        return comparison_table(self).to_markdown()

    def to_latex(self) -> str:
        """The same table for LaTeX, with the package ``booktabs``."""
        return comparison_table(self).to_latex()

    def _repr_html_(self) -> str:
        return comparison_table(self).to_html([self.verdict, *([] if self.folder is None else [f"In {self.folder}."])])

    def __repr__(self) -> str:
        score = common_score(self)
        shown = [f"{row['method']} {cell_text(row, f'client_{score.name}', score)}" for row in self.rows[:MOST_SHOWN]]
        more = [f"{len(self) - MOST_SHOWN} more"] if len(self) > MOST_SHOWN else []
        seeds = max((len(runs) for runs in self.values()), default=0)
        where = "" if self.folder is None else f", in {self.folder}"
        what = f"{len(self)} methods, {seeds} {'seed' if seeds == 1 else 'seeds'}"
        return f"<Comparison of {what}: clients' {score.title} {', '.join([*shown, *more])}{where}>"

    def __str__(self) -> str:
        return self.verdict


@documents_settings(RunConfig, without=("task", "method"))
def compare(
    task: Task | str | TaskOf,
    methods: Sequence[Method],
    *,
    seeds: int = 1,
    reach: float | None = None,
    out: str | Path | None = None,
    callbacks: Sequence[Observer] = (),
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
    progress: bool | None = None,
    **settings: Any,
) -> Comparison:
    """Run several methods on the same data with the same seeds.

    If a method diverges, its measurements are kept and the comparison continues.

    Args:
        task: A task, the name of a task, or a function from a seed to a task, so that each seed has its own partition
            and model.
        methods: Specs (``"fedprox:mu=0.1"``), methods or classes of methods.
        seeds: How many seeds each method is run with; the first is ``seed`` (default 0).
        reach: A value of the score; the table then also says after how many rounds each method reached it.
        out: A folder for the comparison and its report. The same call continues a stopped comparison. With more
            methods, seeds or rounds it adds them: runs that are there are not repeated.
        callbacks: What is called while the runs work and may stop each of them, see ``fl.run``; every run has its own
            shallow copy of a callback.
        observers: More callbacks; the earlier name of the same list.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        progress: Whether a progress bar with the time left is shown. By default it is in a terminal and in a notebook.
        **settings: Any other key of a run's config, as for ``fl.run``.
    """
    if "method" in settings:
        raise FedloomError("method: a comparison takes several, as its second argument: methods=['fedavg', 'local'].")
    chosen = [spec if isinstance(spec, str) else method_from(spec) for spec in list_from("methods", methods, EXAMPLE)]
    look_on, folder = observer_list(callbacks, observers), None if out is None else path_from("out", out)
    source = TaskSource.of(task)
    objects = {label_of(method): method for method in chosen if isinstance(method, Algorithm)}
    labels = [label_of(method) for method in chosen]
    values = {**settings, "task": source.section}
    plan = make_plan(values, labels, seeds, reach, task_of=source.of_seed, objects=objects)
    make_trackers(track if folder is None else (), folder, "")  # refuses trackers without a folder
    if folder is not None:
        plan = write_comparison(folder, plan, source.is_named, source.of_seed, objects)
    runs = RunFactory(source.of_seed)
    with show_progress(progress, runs=len(labels) * seeds) as bar:
        observers_of = _with_trackers(lambda *_: [*for_one_run(look_on), *bar.of_run()], folder, track)
        found = _finish(folder, plan, observers_of, runs, objects)
    warn_if_stopped(history for histories in found.values() for history in histories)
    return found


def resume_comparison(
    folder: Path,
    changes: ResumeSettings,
    *,
    task: Task | TaskOf | None = None,
    observers_of: ObserversOf = lambda *_: (),
    track: Sequence[str] = (),
    cores: int | None = None,
) -> Comparison:
    """Run the unfinished runs of the comparison in a folder, and write its report.

    Args:
        folder: The folder of the comparison.
        changes: With what it continues, where that is not what it was started with.
        task: The task, if it is a Python object.
        observers_of: The observers of the run of a method with a seed.
        track: Trackers that get every metric too.
        cores: How many cores it uses; None: as many as its runs have workers.
    """
    plan = read_plan(folder, PLAN, has_task=task is not None)
    task_of = None if task is None else TaskSource.of(task).of_seed
    if changes.rounds is not None:
        plan = prolong_comparison(folder, plan, changes.rounds, task_of)
    return _finish(
        folder, plan, _with_trackers(observers_of, folder, track), RunFactory(task_of, changes.workers, cores=cores)
    )


def _finish(
    folder: Path | None,
    plan: Mapping[str, Any],
    observers_of: ObserversOf,
    factory: RunFactory,
    objects: Mapping[str, Algorithm] | None = None,
) -> Comparison:
    """Run what is left of a comparison; with a folder, write its report."""
    runs = run_comparison(folder, plan, observers_of, factory, objects)
    found = Comparison(runs, folder, plan.get("reach"))
    if folder is not None and any(history.metric_names for some in found.values() for history in some):
        write_report(found, folder / "report.html")
    return found


def _with_trackers(observers_of: ObserversOf, folder: Path | None, track: Sequence[str]) -> ObserversOf:
    """The observers of each run, and its trackers."""

    def both(label: str, seed: int) -> list[Observer]:
        return [*observers_of(label, seed), *make_trackers(track, folder, f"{label}-seed{seed}", is_plan=True)]

    return both
