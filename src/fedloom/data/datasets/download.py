"""Filling the data folder: ``fedloom data get NAME --from FILE_OR_ADDRESS``.

The source is the user's: official files on disk, or an address. A download goes to a temporary file, is checked
(against the user's SHA-256, or against the publisher's MD5 where that is known) and only then converted; the finished
file is moved to the data folder in one rename.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fedloom.core.errors import FedloomError
from fedloom.data.datasets.archive import LIMIT
from fedloom.data.datasets.dataset import dataset
from fedloom.data.datasets.official_files import IDX_FILES, convert
from fedloom.data.folder import data_folder

Progress = Callable[[int, int | None], None]

# Checksums that the publishers state for their files.
PUBLISHED_MD5 = {
    "mnist": {
        "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
    },
    "fashion-mnist": {
        "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
    },
    "cifar10": {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
    "cifar100": {"cifar-100-binary.tar.gz": "03b5dce01913d631647c71ecec9e9cb8"},
}


SAME_FILE = {"mnist-writers": "mnist", "har-columns": "har"}
"""Data sets that are another view of the file of a first one."""


def get(
    name: str,
    source: str | Path,
    *,
    sha256: str | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Convert the official files of a data set, from a path or an http(s) address, into the data folder.

    An address that ends with a slash is a folder that has MNIST's four files. ``progress`` is called with the bytes
    done and the total bytes (None where unknown). Returns the file written.
    """
    entry = dataset(SAME_FILE.get(dataset(name).name, name))
    if entry.file is None:
        raise FedloomError(f"{entry.name} ships with Fedloom's dependencies: there is nothing to download.")
    target = (folder or data_folder()) / entry.file
    text = str(source)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch_folder = tempfile.TemporaryDirectory(dir=target.parent, prefix=".get-")
    except OSError as error:
        raise FedloomError(
            f"{target.parent} cannot be written ({error.strerror}): point FEDLOOM_DATA to a writable folder."
        ) from error
    with scratch_folder as scratch:
        fetched, made = Path(scratch) / "fetched", Path(scratch) / "made"
        fetched.mkdir()
        made.mkdir()
        if urlsplit(text).scheme in ("http", "https"):
            path = _fetch(entry.name, text, fetched, sha256, progress)
        else:
            path = Path(source).expanduser()
            if not path.exists():
                raise FedloomError(f"{path} does not exist: give the official archive, file or folder of {entry.name}.")
            if sha256:
                _check(path, sha256)
        if path.is_file() and path.name.endswith(".npz") and entry.file.endswith(".npz"):
            shutil.copyfile(path, made / entry.file)
        else:
            convert(entry.name, path, made / entry.file)
        entry.samples(made)
        (made / entry.file).replace(target)
    return target


def _check(path: Path, sha256: str) -> None:
    if path.is_dir():
        raise FedloomError(f"{path} is a folder: a SHA-256 belongs to a single file: give an archive, or leave it out.")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256.strip().lower():
        raise FedloomError(f"{path.name} has SHA-256 {found}, not {sha256}: it is damaged or a different file.")


def _fetch(name: str, address: str, scratch: Path, sha256: str | None, progress: Progress | None) -> Path:
    if address.endswith("/"):
        if name not in ("mnist", "fashion-mnist"):
            raise FedloomError(f"{address} is a folder: give the address of the archive of {name}.")
        if sha256:
            raise FedloomError(f"{address} is a folder: a SHA-256 belongs to a single file: leave it out.")
        for file in IDX_FILES:
            _download(name, address + file + ".gz", scratch / (file + ".gz"), None, progress)
        return scratch
    file = unquote(urlsplit(address).path).rpartition("/")[2].replace("\\", "_") or "download"
    _download(name, address, scratch / file, sha256, progress)
    return scratch / file


def _download(name: str, address: str, path: Path, sha256: str | None, progress: Progress | None) -> None:
    done = 0
    try:
        with urllib.request.urlopen(address, timeout=60) as answer, path.open("wb") as out:  # noqa: S310 (http(s) only)
            length = answer.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            while block := answer.read(1 << 20):
                done += len(block)
                if done > LIMIT:
                    raise FedloomError(f"{address} is larger than {LIMIT >> 30} GiB: refused.")
                out.write(block)
                if progress:
                    progress(done, total)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FedloomError(f"{address} could not be downloaded ({reason}): give a local file with --from.") from error
    if total is not None and done != total:
        raise FedloomError(f"{address} ended after {done} of {total} bytes: try again.")
    if sha256:
        _check(path, sha256)
    elif published := PUBLISHED_MD5.get(name, {}).get(path.name):
        found = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if found != published:
            raise FedloomError(
                f"{path.name} has MD5 {found}, but its publisher states {published}: it is damaged or a different file "
                "(give its SHA-256 to use it anyway)."
            )
