"""Checkpoints to elsewhere: a second folder that always holds a run which can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedloom.core.arguments import path_from
from fedloom.core.errors import FedloomError, unwritable
from fedloom.files.atomic_write import write_atomic
from fedloom.registry.validation import read_toml
from fedloom.runs.callbacks.callback import Callback
from fedloom.runs.folder.begun_rounds import BEGUN
from fedloom.runs.folder.manifest import CHECKPOINTS, CONFIG, PARTITION, find_file, manifest_paths, tidy
from fedloom.runs.folder.metrics_file import FINISHED, METRICS, TIMINGS
from fedloom.runs.plans.plan import PLAN_FILES
from fedloom.runs.results.history import History


class CopyCheckpoints(Callback):
    """Copies the run's folder, with its checkpoints, to another one: when a round begins, and when the run has ended.

    The copy is a run that ``fl.resume`` continues, at any time: a copy that was cut short continues from the checkpoint
    before. Each run of a comparison gets a folder below it, under the name of its own.

    Args:
        to: The other folder, for instance on another disk. It is made if it is missing, and must not hold another run.
    """

    def __init__(self, to: str | Path) -> None:
        self.to = path_from("to", to)
        self.source: Path | None = None

    def run_begins(self, history: History) -> None:
        """Refuse, before any work, what cannot be copied."""
        self.source = history.folder
        if self.source is None:
            raise FedloomError("CopyCheckpoints copies a run's folder, and this run stays in memory: give out= too.")
        if (self.source / BEGUN).exists():
            raise FedloomError(
                "CopyCheckpoints: this run spends privacy, and a copy that is resumed would not count what the run has "
                "spent since: leave it out."
            )
        is_member = any((self.source.parent / name).exists() for name in PLAN_FILES)
        self.home = self.to / self.source.name if is_member else self.to
        if self.home.resolve() == self.source.resolve():
            raise FedloomError(f"CopyCheckpoints: {self.to} is the folder of the run itself: name another one.")
        if (self.home / CONFIG).exists() and _settings(self.home) != _settings(self.source):
            raise FedloomError(f"CopyCheckpoints: {self.home} contains another run: name another folder.")

    def round_begins(self, number: int) -> None:
        """Copy what the rounds before have saved."""
        self._copy()

    def run_ends(self, history: History) -> None:
        """Copy the whole run."""
        self._copy()

    def _copy(self) -> None:
        """Copy what is new, manifests last: until one is there, the copy is the run of the checkpoint before."""
        if self.source is None:
            return
        source, home = self.source, self.home
        try:
            (home / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
            manifests = manifest_paths(source)
            for path in (source / CHECKPOINTS).rglob("*.safetensors"):
                if not _is_copied(path, find_file(home, path.name)):
                    write_atomic(home / CHECKPOINTS / path.name, path.read_bytes())
            for path in (*(source / name for name in (CONFIG, PARTITION, METRICS, TIMINGS)), *manifests):
                if path.exists():
                    write_atomic(home / path.relative_to(source), path.read_bytes())
            for path in manifest_paths(home)[::-1]:  # of rounds that the run went back from
                if path.name not in {one.name for one in manifests}:
                    path.unlink()
            tidy(home)
            for name in FINISHED[::-1]:  # with the first of them, the run counts as finished
                if (source / name).exists():
                    write_atomic(home / name, (source / name).read_bytes())
        except OSError as error:
            raise unwritable(home, error, "name another folder") from None


def _settings(folder: Path) -> dict[str, Any]:
    """The config of a run, but for its number of rounds, which may grow."""
    return {key: value for key, value in read_toml(folder / CONFIG).items() if key != "rounds"}


def _is_copied(path: Path, copy: Path) -> bool:
    """Whether a file was copied already, by its size and the time of its last change."""
    if not copy.exists():
        return False
    one, two = path.stat(), copy.stat()
    return one.st_size == two.st_size and one.st_mtime_ns <= two.st_mtime_ns
