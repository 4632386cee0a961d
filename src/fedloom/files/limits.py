"""How much a file may hold, checked before it is read: a file may claim more than this machine has.

Files come from anywhere: with a hole of many gigabytes, packed a thousand times smaller than they are, or with a header
that claims petabytes. Limits of data follow from the memory of the machine; those of settings do not, since settings
are small on every machine. Whatever is larger is refused in one sentence.
"""

from __future__ import annotations

import os
import zlib
from functools import cache
from pathlib import Path

from fedloom.core.errors import FedloomError

SETTINGS = 16 << 20
"""The most bytes of a file of settings, or of a small file of facts."""
DEEPEST = 64
"""How deeply tables and lists of settings may be nested."""
MOST_COLUMNS = 100_000
"""The most columns of a table."""
LONGEST_LINE = 1 << 26
"""The most characters of one line of a text file."""
PACKED, SMALL = 200, 1 << 28
"""A text that is this many times larger than its packed form, and larger than this many bytes, is no data."""
CGROUP = Path("/sys/fs/cgroup/memory.max")
"""Where a container's memory is written."""


class TooLarge(FedloomError):  # noqa: N818
    """A file that holds, or claims to hold, more than may be read."""


@cache
def memory() -> int:
    """The bytes of memory that this machine, or this container, has."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(found, int(CGROUP.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return found


def most_data() -> int:
    """The most bytes of data that are read at once: what is made of them needs memory, too."""
    return memory() // 2


def most_json() -> int:
    """The most bytes of a JSON text that are read at once: its values take several times the space of the text."""
    return memory() // 8


def check_bytes(where: object, count: int, most: int | None = None) -> None:
    """Refuse what has, or claims to have, too many bytes.

    Args:
        where: What an error calls it.
        count: How many bytes it has or claims.
        most: How many it may have; those that this machine can hold by default.
    """
    allowed = most_data() if most is None else most
    if count > allowed:
        why = "this machine's memory allows" if most is None else "such a file may have"
        raise TooLarge(f"{where} has {_words(count)}, and {why} {_words(allowed)}: give a smaller one.")


def check_size(path: Path, most: int | None = None, where: object = None) -> None:
    """Refuse a file that is too large, before it is opened; one that is not there is the reader's to name.

    Args:
        most: How many bytes it may have; those that this machine can hold by default.
        where: What an error calls the file; its path by default.
    """
    try:
        count = path.stat().st_size
    except OSError:
        return
    check_bytes(path if where is None else where, count, most)


def read_limited(path: Path, most: int | None = None) -> bytes:
    """The content of a file that is not too large.

    Args:
        most: How many bytes it may have; those that this machine can hold by default.
    """
    check_size(path, most)
    return path.read_bytes()


def gunzip(data: bytes, where: object) -> bytes:
    """What is packed in gzip, as far as it is no more than this machine can hold.

    Args:
        where: What an error calls it.
    """
    most, plain = min(2 << 30, most_data()), b""
    while data:  # a file may have several members, one after the other
        opener = zlib.decompressobj(wbits=31)
        plain += opener.decompress(data, most - len(plain) + 1)
        if len(plain) > most:
            raise TooLarge(f"{where} has more than {_words(most)} when it is unpacked: give a smaller one.")
        if not opener.eof:
            raise FedloomError(f"{where} ends too early: create or download it again.")
        data = opener.unused_data.lstrip(b"\0")
    return plain


def check_depth(value: object, where: object) -> None:
    """Refuse values that are nested more deeply than settings are: whatever walks them would fail later.

    Args:
        where: What an error calls them.
    """
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise TooLarge(f"{where} is nested more than {DEEPEST} levels deep, which no setting is: correct it.")
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]


def check_columns(where: object, count: int) -> None:
    """Refuse a table with too many columns.

    Args:
        where: What an error calls the table.
        count: How many columns it has.
    """
    if count > MOST_COLUMNS:
        raise TooLarge(
            f"{where} has {count:,} columns, and a table may have {MOST_COLUMNS:,}: save it as an .npz with one array "
            "x of all features."
        )


def _words(count: int) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,} bytes"
