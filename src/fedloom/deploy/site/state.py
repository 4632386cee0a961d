"""The state that a client keeps between rounds (personal heads, control variates), on its site's own disk.

Each update writes a state, named by the ticket of its request, before the answer is sent. Only the server knows whether
the answer was accepted: its next request names the state to build on and the one of the last finished round, and all
others are deleted. So client and server agree after a dropped answer, a repeated round, or a server that returned to
its last checkpoint. A state is written twice, and each file has its digest in its name: a damaged one is not read, and
nobody else has another copy.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load, save

from fedloom.core.errors import FedloomError
from fedloom.core.kept_rows import KeptRows, pack_kept, unpack_kept
from fedloom.files.atomic_write import write_atomic


class StateLost(FedloomError):  # noqa: N818
    """The requested state is missing or damaged."""


log = logging.getLogger("fedloom")
COPIES = "ab"
NOTHING = ""
"""The ticket of a client without a state."""


class SiteState:
    """States by ticket, one file each.

    Args:
        folder: Where the files are; only the owner may read it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)

    def read(self, ticket: str) -> dict[str, KeptRows]:
        """The state under a ticket."""
        if ticket == NOTHING:
            return {}
        for path in self._files(ticket):
            content = path.read_bytes()
            if path.name == _file_name(ticket, content, path.name[0]):
                return unpack_kept(load(content))
            log.warning("%s is damaged (its digest differs): the other copy of the state is read", path)
        raise StateLost("the client state of this site is lost: it starts again without one")

    def has(self, ticket: str) -> bool:
        """Whether there is a state under a ticket."""
        return bool(self._files(ticket))

    @property
    def has_any(self) -> bool:
        """Whether there is a state under any ticket."""
        return any(self.folder.glob("?-*.safetensors"))

    def write(self, ticket: str, state: Mapping[str, KeptRows]) -> None:
        """Store a state under a ticket."""
        content = save({name: tensor.contiguous() for name, tensor in pack_kept(state).items()})
        for copy in COPIES:
            write_atomic(self.folder / _file_name(ticket, content, copy), content)

    def discard_all_but(self, *tickets: str) -> None:
        """Delete every state except those under these tickets."""
        kept = {path for ticket in tickets for path in self._files(ticket)}
        for path in self.folder.iterdir():
            if path not in kept:
                path.unlink(missing_ok=True)

    def _files(self, ticket: str) -> list[Path]:
        return sorted(self.folder.glob(f"?-{_hash(ticket.encode())}-*.safetensors"))


def _file_name(ticket: str, content: bytes, copy: str) -> str:
    """The name of a copy of a state; a ticket comes from outside, so its hash stands for it."""
    return f"{copy}-{_hash(ticket.encode())}-{_hash(content)}.safetensors"


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
