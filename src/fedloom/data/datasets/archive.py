"""Reading members of a folder, zip or tar by name, in memory.

Nothing is ever extracted to disk, so a member's path cannot point anywhere; each member has a size limit, so a small
archive cannot fill the memory; gzipped members are decompressed when they are read, within the same limit.
"""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from fedloom.core.errors import FedloomError
from fedloom.files.limits import check_bytes, gunzip, most_data

LIMIT = 2 << 30


class Members:
    """The files of a source by name, read on demand."""

    def __init__(self, source: str, files: dict[str, Callable[[], bytes]]) -> None:
        self.source = source
        self.files = files
        self._called: dict[str, list[str]] = {}
        for name in sorted(files):
            self._called.setdefault(name.rpartition("/")[2], []).append(name)

    def names(self, ending: str = "") -> list[str]:
        """The sorted names of the members that end with ``ending``."""
        return sorted(name for name in self.files if name.endswith(ending))

    def find(self, *endings: str) -> str | None:
        """The first member with one of these names, with or without .gz, in any folder of the source."""
        for ending in endings:
            for wanted in (ending, ending + ".gz"):
                for name in self._called.get(wanted.rpartition("/")[2], ()):
                    if name == wanted or name.endswith("/" + wanted):
                        return name
        return None

    def read(self, *endings: str) -> bytes:
        """The bytes of the first member with one of these names, gunzipped; an error if there is none."""
        name = self.find(*endings)
        if name is None:
            raise FedloomError(f"{self.source} has no file '{endings[0]}': give the complete official files.")
        try:
            data = self.files[name]()
            return gunzip(data, f"{self.source}:{name}") if name.endswith(".gz") else data
        except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error) as error:
            raise FedloomError(f"{self.source}: the file '{name}' is damaged: download it again.") from error


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Open a folder (and the zips in it), a zip, a tar (compressed or not) or a single file as named members."""
    if path.is_dir():
        with ExitStack() as opened:
            files: dict[str, Callable[[], bytes]] = {}
            for inside in sorted(p for p in path.rglob("*") if p.is_file()):
                if inside.suffix == ".zip" and zipfile.is_zipfile(inside):
                    files |= _open_zip(opened.enter_context(zipfile.ZipFile(inside)))
                else:
                    files[inside.relative_to(path).as_posix()] = _disk(inside)
            yield Members(str(path), files)
    elif not path.is_file():
        raise FedloomError(f"{path} does not exist: give an archive, a file or a folder with the official files.")
    elif zipfile.is_zipfile(path) and path.suffix != ".npz":
        with zipfile.ZipFile(path) as archive:
            yield Members(str(path), _open_zip(archive))
    elif path.suffix != ".npz" and tarfile.is_tarfile(path):
        with tarfile.open(path) as packed:
            try:
                inside_tar = packed.getmembers()
            except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
                raise FedloomError(f"{path} is damaged: download it again.") from error
            yield Members(str(path), {m.name: _open_tar(packed, m) for m in inside_tar if m.isfile()})
    else:
        yield Members(str(path), {path.name: _disk(path)})


def _disk(path: Path) -> Callable[[], bytes]:
    def read() -> bytes:
        _allow(path.name, path.stat().st_size)
        return path.read_bytes()

    return read


def _open_zip(archive: zipfile.ZipFile, depth: int = 0) -> dict[str, Callable[[], bytes]]:
    files: dict[str, Callable[[], bytes]] = {}
    for member in archive.infolist():
        if member.is_dir():
            continue
        if depth == 0 and PurePosixPath(member.filename).suffix == ".zip":  # UCI wraps its archive in another one
            _allow(member.filename, member.file_size)
            files |= _open_zip(zipfile.ZipFile(io.BytesIO(archive.read(member))), depth + 1)
        else:
            files[member.filename] = _unzip(archive, member)
    return files


def _unzip(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        _allow(member.filename, member.file_size)
        return archive.read(member)

    return read


def _open_tar(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        _allow(member.name, member.size)
        stream = archive.extractfile(member)
        return stream.read() if stream else b""

    return read


def _allow(name: str, size: int) -> None:
    check_bytes(f"the member '{name}'", size, min(LIMIT, most_data()))
