"""The state that a client keeps between rounds (personal heads, control variates), on its site's own disk.

Each update writes a state, named by the ticket of its request, before the answer is sent. Only the server knows whether
the answer was accepted: its next request names the state to build on and the one of the last finished round, and all
others are deleted. So client and server agree after a dropped answer, a repeated round, or a server that returned to
its last checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.runs.atomic_write import write_atomic


class StateLost(FedloomError):  # noqa: N818
    """The requested state is missing or damaged."""


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

    def read(self, ticket: str) -> dict[str, Tensor]:
        """The state under a ticket."""
        if ticket == NOTHING:
            return {}
        try:
            return dict(load_file(self._path(ticket)))
        except (OSError, SafetensorError):
            raise StateLost("the client state of this site is lost: it starts again without one") from None

    def has(self, ticket: str) -> bool:
        """Whether there is a state under a ticket."""
        return self._path(ticket).is_file()

    def write(self, ticket: str, state: Mapping[str, Tensor]) -> None:
        """Store a state under a ticket."""
        write_atomic(self._path(ticket), save({name: t.contiguous() for name, t in state.items()}))

    def discard_all_but(self, *tickets: str) -> None:
        """Delete every state except those under these tickets."""
        kept = {self._path(ticket) for ticket in tickets}
        for path in self.folder.iterdir():
            if path not in kept:
                path.unlink(missing_ok=True)

    def _path(self, ticket: str) -> Path:
        """The file of a ticket; a ticket comes from outside, so its hash is the name."""
        return self.folder / f"{hashlib.blake2b(ticket.encode(), digest_size=16).hexdigest()}.safetensors"
