"""Which user of this machine has made a connection, and what every user of it may read.

A loopback port is open to every user of the machine. So a page about something private is shown to the user who serves
it and to root, whom the kernel's table of connections names. Only Linux has that table: elsewhere a page is served only
about what every user may read anyway.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from pathlib import Path

from fedloom.core.errors import FedloomError

CONNECTIONS = Path("/proc/net")
"""Where Linux lists the connections of a machine with their users, in ``tcp`` and ``tcp6``."""


def is_own_connection(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection on this machine is known to be of this process's user, or of root.

    Args:
        client: The address and port that it comes from.
        server: The address and port that it came to.
    """
    return user_of_connection(client, server) in (0, os.getuid())


def names_owners() -> bool:
    """Whether this system says whose a connection is."""
    return (CONNECTIONS / "tcp").exists()


def refuse_unknown_visitors(place: Path) -> None:
    """Refuse to serve a page about something private where the system does not say whose a connection is.

    Args:
        place: What the page is about: a folder or a file.
    """
    if not names_owners() and not is_readable_by_all(place):
        raise FedloomError(
            f"this system does not say whose a connection is (it has no {CONNECTIONS / 'tcp'}), so every user of this "
            f"machine could see {place}, which not everybody may read: let all read it, or serve the page on Linux."
        )


def is_readable_by_all(place: Path) -> bool:
    """Whether every user of this machine may read a folder or a file: by its mode, and through all folders above it."""
    place = place.resolve()
    needed = stat.S_IROTH | (stat.S_IXOTH if place.is_dir() else 0)
    passable = all(above.stat().st_mode & stat.S_IXOTH for above in place.parents)
    return passable and place.stat().st_mode & needed == needed


def user_of_connection(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose process made a connection on this machine; None if the system does not say.

    Args:
        client: The address and port that it comes from.
        server: The address and port that it came to.
    """
    mine, theirs = _kernel_address(*client), _kernel_address(*server)
    for table in ("tcp", "tcp6"):
        try:
            lines = (CONNECTIONS / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, _, _, _, _, user, *_ = line.split()
            if (local, remote) == (mine, theirs):
                return int(user)
    return None


def _kernel_address(address: str, port: int) -> str:
    """An address as ``/proc/net/tcp`` writes it: words of four bytes in the machine's order, then the port."""
    packed = ipaddress.ip_address(address.partition("%")[0]).packed
    words = (int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"
