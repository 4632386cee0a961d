"""Manifests: what belongs to a checkpoint, with the digest of every file, so that damage is found.

``checkpoints/manifest-000012.json`` is written after all files of round 12: without it they do not count. It names the
files of the checkpoint and the digests of the config, of the partition and of the records in ``metrics.jsonl`` up to
that round, and, once a run has ended, of its results. The last ``GENERATIONS`` checkpoints stay: where the newest one
is damaged, a run continues from the one before to the same bytes. Files that only older checkpoints need are in
``checkpoints/earlier``. Folders of format 1, up to 0.5, have no manifests: they are read, but not checked. A later one
that has lost them is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.files.formats import RUN_FOLDER
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, most_json, read_limited
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.writer_version import has_manifests

GENERATIONS = 3
"""How many checkpoints a folder holds."""
CONFIG, PARTITION = "config.toml", "partition.json"
CHECKPOINTS, EARLIER = "checkpoints", "earlier"
PLAYED = ("metrics.jsonl", "clients.json")
"""Files that a run has once it has played a round."""
NOTHING = ""
"""The digest of no records."""


class Damaged(FedloomError):  # noqa: N818
    """A file of a run's folder is not what the run wrote."""


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's files and what they belong to.

    Args:
        round: The round after which the checkpoint was taken.
        files: The digest of each file, in the order in which they are read.
        settings: The digests of ``config.toml`` and ``partition.json``; while more rounds are being added to a run,
            ``config.toml`` may have either of two.
        records: How many lines of ``metrics.jsonl`` were written before the checkpoint.
        length: How many bytes these lines have.
        chain: The digest of these lines: each line's digest includes the one before.
        results: The digests of what a run writes at its end; empty before.
        format: The version of the folder's format.
    """

    round: int
    files: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, list[str]] = field(default_factory=dict)
    records: int = 0
    length: int = 0
    chain: str = NOTHING
    results: Mapping[str, str] = field(default_factory=dict)
    format: int = RUN_FOLDER.version

    def to_json(self) -> bytes:
        """The manifest and, last, its own digest."""
        content = asdict(self)
        return _canonical(content | {"digest": digest_of(_canonical(content))})

    @staticmethod
    def from_json(content: bytes, where: object = "it") -> Manifest:
        """Read a manifest; one that is not what was written raises ``ValueError``, a newer one ``FedloomError``."""
        values = parse_json(content)
        if not isinstance(values, dict):
            raise ValueError("not a manifest")
        said = values.pop("digest", None)
        if said != digest_of(_canonical(values)):
            raise ValueError("not what was written")
        RUN_FOLDER.check(values.get("format"), where)
        if values.keys() != {one.name for one in fields(Manifest)}:
            raise ValueError("not what was written")
        for listed in ("files", "settings", "results"):
            if any(Path(name).name != name for name in values[listed]):
                raise ValueError("a file outside of the folder")
        return Manifest(**values)


def digest_of(content: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def extend_chain(chain: str, line: bytes) -> str:
    """The digest of lines whose digest is ``chain``, and one more."""
    return digest_of(chain.encode() + b"\n" + line)


def manifest_paths(folder: Path) -> list[Path]:
    """The manifests in a run's folder, oldest first."""
    return sorted((folder / CHECKPOINTS).glob("manifest-*.json"))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest: from then on its checkpoint counts."""
    (folder / CHECKPOINTS).mkdir(exist_ok=True)
    write_atomic(folder / CHECKPOINTS / _name(manifest.round), manifest.to_json())


def read_manifest(path: Path) -> Manifest:
    """Read a manifest; a damaged or newer one is refused."""
    try:
        manifest = Manifest.from_json(read_limited(path, SETTINGS), path.parent.parent)
    except (ValueError, TypeError, OSError):
        raise Damaged(f"{path} is damaged (its digest differs)") from None
    if path.name != _name(manifest.round):
        raise Damaged(f"{path} is of another round")
    return manifest


def newest_manifest(folder: Path) -> Manifest | None:
    """The manifest of the newest checkpoint; None if a folder has none, since it is of format 1 or has no run yet."""
    paths = manifest_paths(folder)
    if not paths:
        refuse_lost_manifests(folder)
    return read_manifest(paths[-1]) if paths else None


def refuse_lost_manifests(folder: Path) -> None:
    """Refuse a folder without manifests whose run was played by a version that writes them before its first round.

    Read as an old one, nothing in it would be checked.
    """
    played = any((folder / name).exists() for name in PLAYED) or any((folder / CHECKPOINTS).glob("round-*"))
    if played and (folder / CONFIG).is_file() and has_manifests(read_toml(folder / CONFIG)):
        raise FedloomError(
            f"{folder / CHECKPOINTS} has no manifest, so nothing in {folder} can be checked: restore the folder from a "
            "copy, or start a new run with its config.toml."
        )


def find_file(folder: Path, name: str) -> Path:
    """Where a file of a checkpoint is: beside the newest ones, or with those that only earlier checkpoints need."""
    here = folder / CHECKPOINTS / name
    earlier = folder / CHECKPOINTS / EARLIER / name
    return earlier if earlier.exists() and not here.exists() else here


def refuse_strange_files(folder: Path) -> None:
    """Refuse a run's folder with a link to something outside of it, or with a pipe.

    A folder from elsewhere could show any file of this machine, or let its reader wait for ever.
    """
    whole = folder.resolve()
    for place in (folder, folder / CHECKPOINTS, folder / CHECKPOINTS / EARLIER):
        for path in place.iterdir() if place.is_dir() else ():
            if path.is_symlink() and not path.resolve().is_relative_to(whole):
                raise FedloomError(f"{path} is a link that leads out of the run's folder: it is not followed.")
            if path.exists() and not path.is_file() and not path.is_dir():
                raise FedloomError(f"{path} is a pipe or a device, not a file of a run: remove it.")


def read_checked(path: Path, digest: str) -> bytes:
    """The content of a file that must have a digest."""
    if path.exists() and not path.is_file():
        raise Damaged(f"{path} is not a file")
    try:
        content = read_limited(path)
    except OSError as error:
        raise Damaged(f"{path} cannot be read ({error.strerror})") from None
    if digest_of(content) != digest:
        raise Damaged(f"{path} is not what the run wrote (its digest differs)")
    return content


def settings_of(folder: Path) -> dict[str, list[str]]:
    """The digests of a folder's config and partition."""
    names = [name for name in (CONFIG, PARTITION) if (folder / name).exists()]
    return {name: [digest_of(read_limited(folder / name, most_json()))] for name in names}


def check_settings(folder: Path, manifest: Manifest) -> None:
    """Refuse a config or partition that changed since the run wrote it."""
    for name, allowed in manifest.settings.items():
        try:
            found = digest_of(read_limited(folder / name, most_json()))
        except OSError as error:
            raise Damaged(f"{folder / name} cannot be read ({error.strerror})") from None
        if found not in allowed:
            raise Damaged(f"{folder / name} was changed since the run wrote it (its digest differs)")


def check_config(folder: Path) -> None:
    """Refuse a config that changed since the run wrote it; a folder without a readable manifest is not checked."""
    for path in reversed(manifest_paths(folder)):
        try:
            manifest = read_manifest(path)
        except Damaged:
            continue
        try:
            check_settings(folder, replace(manifest, settings={CONFIG: manifest.settings[CONFIG]}))
        except Damaged as damage:
            raise FedloomError(f"{damage}: restore it, or start a new run with it in another folder.") from None
        return


def allow_configs(folder: Path, digests: list[str]) -> None:
    """Note in all manifests which digests the config may have; the run has no results yet."""
    for path in manifest_paths(folder):
        manifest = read_manifest(path)
        write_manifest(folder, replace(manifest, settings={**manifest.settings, CONFIG: digests}, results={}))


def check_files(folder: Path, manifest: Manifest) -> None:
    """Refuse a checkpoint whose files are not what the run wrote."""
    for name, digest in manifest.files.items():
        read_checked(find_file(folder, name), digest)


def tidy(folder: Path) -> None:
    """Remove what no checkpoint needs, and put aside what only earlier ones need. It may be stopped at any point."""
    checkpoints, paths = folder / CHECKPOINTS, manifest_paths(folder)
    for old in paths[:-GENERATIONS]:
        old.unlink()
    needed = [_files_named_by(path) for path in paths[-GENERATIONS:]]
    newest, earlier = needed[-1], set().union(*needed[:-1])
    for path in [*checkpoints.glob("*.safetensors"), *(checkpoints / EARLIER).glob("*.safetensors")]:
        if path.name in newest:
            _move(path, checkpoints)
        elif path.name in earlier:
            _move(path, checkpoints / EARLIER)
        else:
            path.unlink()


def _name(number: int) -> str:
    return f"manifest-{number:06d}.json"


def _files_named_by(path: Path) -> set[str]:
    """The files of a manifest; none if it is damaged."""
    try:
        return set(read_manifest(path).files)
    except FedloomError:
        return set()


def _move(path: Path, folder: Path) -> None:
    if path.parent != folder:
        folder.mkdir(exist_ok=True)
        path.replace(folder / path.name)


def walk_chain(lines: list[bytes]) -> Iterator[tuple[int, int, str]]:
    """The number of lines, their bytes (with line ends) and their digest, from no lines to all."""
    count, length, chain = 0, 0, NOTHING
    yield count, length, chain
    for line in lines:
        count, length, chain = count + 1, length + len(line) + 1, extend_chain(chain, line)
        yield count, length, chain


def _canonical(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
