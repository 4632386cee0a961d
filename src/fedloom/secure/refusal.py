"""What a participant of a secure sum raises when a message cannot be right."""

from __future__ import annotations

from fedloom.core.errors import FedloomError


class RefusedMessage(FedloomError, ValueError):  # noqa: N818
    """A message of a secure sum that cannot be what it claims to be."""
