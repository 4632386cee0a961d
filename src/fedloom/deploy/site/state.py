"""What a client keeps between rounds (personal heads, control variates), on its site's own disk.

Each piece of work leaves a state, named by its ticket, and is written before the answer is sent. Whether the work
counted is the server's to know: its next request names the state to build on and the one that the last finished round
left, and everything else is thrown away. So an answer that was dropped, a round that was tried again and a server that
went back to its last checkpoint all leave client and server in agreement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.runs.checkpoint import write_whole


class Lost(FedloomError):  # noqa: N818
    """A state that is no longer there."""


NOTHING = ""
"""The ticket of a client that has kept nothing yet."""


class SiteState:
    """States by ticket, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)

    def read(self, ticket: str) -> dict[str, Tensor]:
        """The state that a piece of work left."""
        if ticket == NOTHING:
            return {}
        try:
            return dict(load_file(self._path(ticket)))
        except (OSError, SafetensorError):
            raise Lost("the state this site kept is lost: it begins anew with the next message") from None

    def has(self, ticket: str) -> bool:
        """Whether a piece of work left a state."""
        return self._path(ticket).is_file()

    def write(self, ticket: str, state: Mapping[str, Tensor]) -> None:
        """Keep the state after a piece of work."""
        write_whole(self._path(ticket), save({name: t.contiguous() for name, t in state.items()}))

    def only(self, *tickets: str) -> None:
        """Throw away every state but some."""
        wanted = {self._path(ticket) for ticket in tickets}
        for path in self.folder.iterdir():
            if path not in wanted:
                path.unlink(missing_ok=True)

    def _path(self, ticket: str) -> Path:
        """A ticket comes from elsewhere, so it names no file by itself."""
        return self.folder / f"{hashlib.blake2b(ticket.encode(), digest_size=16).hexdigest()}.safetensors"
