"""The folders of runs in tests: what a run wrote, and an observer that stops it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedloom.runs.folder.manifest import manifest_paths, read_manifest, settings_of, write_manifest

WITH_TIMES = ("timings.jsonl", "report.html")


def written(folder: Path) -> dict[str, bytes]:
    """What a run or a plan wrote, by its path, but for what depends on the clock and for earlier checkpoints."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in WITH_TIMES)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if not _is_earlier(path)}


def _is_earlier(path: Path) -> bool:
    """Whether a file belongs to an earlier checkpoint only: a run that was stopped has others than one that was not."""
    manifests = sorted(path.parent.glob("manifest-*.json"))
    return path.parent.name == "earlier" or path in manifests[:-1]


def stop_after(rounds: int) -> Callable[[dict[str, Any]], None]:
    """An observer that stops a run, as Ctrl-C does, before the checkpoint of a round."""

    def observe(record: dict[str, Any]) -> None:
        if record["round"] == rounds:
            raise KeyboardInterrupt

    return observe


def vouch_again(folder: Path) -> None:
    """Write the digests of a run's folder again, as whoever changes its settings on purpose can do."""
    for path in manifest_paths(folder):
        write_manifest(folder, replace(read_manifest(path), settings=settings_of(folder)))
