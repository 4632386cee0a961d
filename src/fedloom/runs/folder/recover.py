"""Before a run continues: find its last whole checkpoint, and forget what came after it or is damaged."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.runs.folder.checkpoint import save_start
from fedloom.runs.folder.manifest import (
    PARTITION,
    Damaged,
    Manifest,
    check_config,
    check_files,
    digest_of,
    manifest_paths,
    newest_manifest,
    read_checked,
    read_manifest,
    refuse_lost_manifests,
    tidy,
    walk_chain,
    write_manifest,
)
from fedloom.runs.folder.metrics_file import FINISHED, METRICS, compact_json
from fedloom.runs.folder.run_files import check_records

log = logging.getLogger("fedloom")


def recover(folder: Path, partition: bytes | None = None) -> None:
    """Make the last whole checkpoint of a run's folder its newest one; damage is reported in the log.

    A changed config is refused, since the run would be another one, and so is a folder without a whole checkpoint.

    Args:
        folder: The run's folder.
        partition: What ``partition.json`` must contain, to write it again if it is damaged.
    """
    check_config(folder)
    paths = manifest_paths(folder)
    if not paths:
        refuse_lost_manifests(folder)
        save_start(folder)
        return
    manifest, damages = _last_whole(folder, paths)
    if damages:
        log.warning("%s: the run continues from round %s, to the same results", damages[0], manifest.round)
    manifest = _forget_damaged_results(folder, manifest)
    for path in paths[::-1][: len(damages)]:
        path.unlink()
    _forget_later_lines(folder, manifest)
    _mend_partition(folder, manifest, partition)
    tidy(folder)


def keep_records(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """Forget all but the first records of a run, because it continues from an earlier round.

    Args:
        folder: The run's folder.
        records: The records to keep.
    """
    manifest, lines = newest_manifest(folder), [compact_json(record) for record in records]
    if manifest is None:
        return
    if len(lines) < manifest.records:
        *_, (count, length, chain) = walk_chain(lines)
        manifest = replace(manifest, records=count, length=length, chain=chain, results={})
        write_manifest(folder, manifest)
        _forget_damaged_results(folder, manifest)
    _forget_later_lines(folder, manifest)


def _last_whole(folder: Path, paths: list[Path]) -> tuple[Manifest, list[Damaged]]:
    """The newest manifest whose checkpoint and records are whole, and what is wrong with the newer ones."""
    damages: list[Damaged] = []
    for path in reversed(paths):
        try:
            manifest = read_manifest(path)
            check_files(folder, manifest)
            check_records(folder, manifest)
            return manifest, damages
        except Damaged as damage:
            damages.append(damage)
    raise FedloomError(
        f"{damages[0]}, and no earlier checkpoint is whole: restore the folder from a copy, or start a new run with "
        "its config.toml."
    )


def _forget_damaged_results(folder: Path, manifest: Manifest) -> Manifest:
    """Remove results that are damaged or of a later round: the run writes them again."""
    try:
        for name, digest in manifest.results.items():
            read_checked(folder / name, digest)
    except Damaged as damage:
        if all((folder / name).exists() for name in manifest.results):  # else the run was killed before it wrote them
            log.warning("%s: it is computed again", damage)
        manifest = replace(manifest, results={})
        write_manifest(folder, manifest)
    for name in set(FINISHED).difference(manifest.results):
        (folder / name).unlink(missing_ok=True)
    return manifest


def _forget_later_lines(folder: Path, manifest: Manifest) -> None:
    path = folder / METRICS
    if path.exists() and path.stat().st_size > manifest.length:
        write_atomic(path, path.read_bytes()[: manifest.length])


def _mend_partition(folder: Path, manifest: Manifest, partition: bytes | None) -> None:
    """Write the table of the partition again if it is damaged: it follows from the task.

    It does not where sites of a deployment have other data by now: then the table cannot be had back, and a damaged
    one is refused.
    """
    allowed, path = manifest.settings.get(PARTITION, []), folder / PARTITION
    if partition is None or not allowed or (path.exists() and digest_of(path.read_bytes()) in allowed):
        return
    if digest_of(partition) not in allowed:
        raise FedloomError(
            f"{path} was changed since the run wrote it (its digest differs), and the clients have other data by now: "
            "restore it from a copy."
        )
    log.warning("%s is not what the run wrote: it is written again", path)
    write_atomic(path, partition)
