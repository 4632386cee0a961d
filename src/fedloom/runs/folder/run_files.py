"""What a run's folder says of the run, checked against its newest manifest: settings, records, seconds and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, most_json, read_limited
from fedloom.files.resume_command import resume_command
from fedloom.runs.folder.manifest import (
    PARTITION,
    Damaged,
    Manifest,
    check_settings,
    digest_of,
    read_checked,
    walk_chain,
)
from fedloom.runs.folder.metrics_file import METRICS, TIMINGS, compact_json

Record = dict[str, Any]


def read_records(folder: Path, manifest: Manifest | None) -> list[Record]:
    """The records of a run. A last line that a stop left incomplete is skipped, damage is refused.

    Args:
        folder: The run's folder.
        manifest: Its newest manifest, which vouches for the first lines; later ones have digests in the timings.
    """
    path = folder / METRICS
    lines = read_limited(path, most_json()).splitlines() if path.exists() else []
    if manifest is None:
        return _parse(path, lines)
    check_records(folder, manifest, lines)
    known = [parse_json(line) for line in lines[: manifest.records]]
    digests = {line.get("record") for line in _timings(folder)}
    later = lines[manifest.records :]
    for number, line in enumerate(later, 1):
        if digest_of(line) in digests:
            known.append(parse_json(line))
        elif number < len(later):
            raise Damaged(
                f"{path}, line {manifest.records + number} is not what the run wrote (its digest differs): "
                f"{resume_command(folder)} plays its round again."
            )
    rounds = [record["round"] for record in known if "round" in record]
    if rounds and rounds != list(range(rounds[0], rounds[0] + len(rounds))):
        raise Damaged(f"{path} lacks a round: {resume_command(folder)} plays it again.")
    return known


def check_records(folder: Path, manifest: Manifest, lines: list[bytes] | None = None) -> None:
    """Refuse records that are not those a manifest vouches for."""
    path = folder / METRICS
    if lines is None:
        lines = read_limited(path, most_json()).splitlines() if path.exists() else []
    *_, found = walk_chain(lines[: manifest.records])
    if found != (manifest.records, manifest.length, manifest.chain):
        raise Damaged(f"{path} is not what the run wrote up to round {manifest.round} (its digest differs)")


NOTICES = "notices.json"
"""Sentences about a deployed run that its report shows, for instance of certificates that will expire."""


def read_notices(folder: Path | None) -> list[str]:
    """The notices of a run; a damaged file is as if it were missing."""
    try:
        found = parse_json(read_limited(folder / NOTICES, SETTINGS)) if folder is not None else []
    except (OSError, ValueError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


def read_seconds(folder: Path) -> dict[int, float]:
    """How long each round took, by its number, as far as the run says; a damaged line is as if it were missing."""
    return {line["round"]: line["seconds"] for line in _timings(folder) if "seconds" in line}


def read_result(folder: Path, name: str, manifest: Manifest | None) -> Any:
    """What a run wrote at its end under a name, or None if it has not ended."""
    path = folder / name
    if not path.exists():
        return None
    if manifest is None:
        return parse_json(read_limited(path, most_json()))
    if name not in manifest.results:  # it is about to be written again
        return None
    try:
        return parse_json(read_checked(path, manifest.results[name]))
    except Damaged as damage:
        raise Damaged(f"{damage}: {resume_command(folder)} computes it again.") from None


def read_partition(folder: Path, manifest: Manifest | None) -> Any:
    """The table of samples per client and class."""
    if manifest is not None:
        try:
            check_settings(folder, manifest)
        except Damaged as damage:
            raise Damaged(f"{damage}: {resume_command(folder)} writes it again.") from None
    path = folder / PARTITION
    return parse_json(read_limited(path, most_json())) if path.exists() else {}


def _timings(folder: Path) -> list[Record]:
    path = folder / TIMINGS
    return (
        [line for line in map(_timing, read_limited(path, most_json()).splitlines()) if line] if path.exists() else []
    )


def _timing(line: bytes) -> Record:
    """A line of the timings; empty if it is not what the run wrote."""
    try:
        values = parse_json(line)
        said = values.pop("digest", None)
        whole = said is None or said == digest_of(compact_json(values))
        took = {"seconds": float(values["seconds"])} if "seconds" in values else {}
        return {"round": int(values["round"]), **took, **values} if whole else {}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _parse(path: Path, lines: list[bytes]) -> list[Record]:
    """Records without digests, of a folder of format 1."""
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(parse_json(line))
        except ValueError:
            if number < len(lines):
                raise FedloomError(
                    f"{path}, line {number} is not valid JSON: restore the file or start the run again."
                ) from None
    return records
