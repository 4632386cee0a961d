"""The data folder and the plain files in it.

``FEDLOOM_DATA`` (default ``~/.cache/fedloom``) holds one file per data set: an ``.npz`` of plain arrays, or a
``.tsv.gz`` with a header for texts; docs/data.md lists the arrays. Nothing is ever unpickled: an array of Python
objects is refused.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.files.limits import TooLarge, check_bytes, check_size, gunzip, read_limited


def data_folder() -> Path:
    """The folder of data sets: ``FEDLOOM_DATA`` or ``~/.cache/fedloom``."""
    return Path(os.environ.get("FEDLOOM_DATA") or Path.home() / ".cache" / "fedloom").expanduser()


def find(name: str, file: str, folder: Path | None = None) -> Path:
    """The file of a data set; if it is missing, the error says how to get it."""
    folder = folder or data_folder()
    path = folder / file
    if not path.is_file():
        raise FedloomError(
            f"the data of {name} are missing (looked in {folder}): get them with "
            f"`fedloom data get {name} --from FILE`, or point FEDLOOM_DATA to a folder that has {file}."
        )
    return path


def read_arrays(path: Path, needed: Sequence[str] = (), optional: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Read the named arrays of an ``.npz`` (all of them when ``optional`` is None), never unpickling."""
    try:
        check_size(path)
        if _begins_with(path, np.lib.format.MAGIC_PREFIX):  # before it is loaded: it may claim any size
            raise FedloomError(f"{path} is a single array and not an .npz: save named arrays with numpy.savez.")
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in needed if name not in file.files]
            if missing:
                raise FedloomError(
                    f"{path} has no array '{missing[0]}' (it has {', '.join(file.files) or 'none'}): "
                    f"the arrays it needs are {', '.join(needed)}."
                )
            wanted = file.files if optional is None else [n for n in file.files if n in {*needed, *optional}]
            _check_claims(path, file.zip, wanted)
            return {name: file[name] for name in wanted}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise FedloomError(f"{path} does not exist.") from None
        if "allow_pickle" in str(error):
            raise FedloomError(
                f"{path} holds pickled Python objects, which Fedloom never loads: save plain arrays with numpy.savez."
            ) from None
        raise FedloomError(f"{path} is not a readable .npz file: create or download it again.") from error


def _begins_with(path: Path, start: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(start)) == start


def _check_claims(path: Path, archive: zipfile.ZipFile, names: Iterable[str]) -> None:
    """Refuse arrays that are larger than this machine's memory when they are unpacked, or than their own members."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    total = 0
    for name in names:
        info = members[name]
        total += info.file_size
        check_bytes(f"{path}, unpacked,", total)
        with archive.open(info) as member:
            if member.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
                continue
            old = tuple(member.read(2)) == (1, 0)
            header = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
            shape, _, kind = header(member)
        claimed = math.prod(shape) * kind.itemsize
        if claimed > info.file_size and not kind.hasobject:
            raise TooLarge(
                f"{path}: the array '{name}' claims {claimed:,} bytes and has {info.file_size:,}: create or download "
                "the file again."
            )


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as an uncompressed ``.npz``, atomically."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise FedloomError(f"array '{name}' for {path.name} holds Python objects: only plain arrays are written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as out:
        np.savez(out, allow_pickle=False, **arrays)  # type: ignore[arg-type,unused-ignore]
    part.replace(path)


def read_tsv_columns(path: Path, needed: Sequence[str]) -> dict[str, list[str]]:
    """Read the named columns of a tab-separated text file with a header, gzipped or not."""
    try:
        data = read_limited(path)
        text = (gunzip(data, path) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise FedloomError(f"{path} is not a readable .tsv.gz file: create or download it again.") from error
    rows = [line.rstrip("\r").split("\t") for line in text.removesuffix("\n").split("\n")]
    header = rows.pop(0)
    for name in needed:
        if name not in header:
            raise FedloomError(f"{path} has no column '{name}' (it has {', '.join(header)}).")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise FedloomError(f"{path}, row {number}: {len(row)} cells where the header has {len(header)}.")
    return {name: [row[header.index(name)] for row in rows] for name in needed}


def write_tsv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a gzipped tab-separated file with a header, atomically; tabs and line ends become spaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        packed.write(("\t".join(header) + "\n").encode())
        for row in rows:
            packed.write(("\t".join(" ".join(cell.split()) for cell in row) + "\n").encode())
    part.replace(path)
