"""The keys with which the sites of a chain encrypt for each other: X25519, vouched for by the sites' certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedloom.deploy.introductions import identifier, introduce
from fedloom.secure.primitives import ExchangeKey
from fedloom.secure.sum_step import Identify

_PURPOSE = b"fedloom key for chains"


@dataclass(frozen=True)
class RelayKeys:
    """What a site has to encrypt for others.

    Args:
        own: What it opens and seals with, derived from the key of its certificate.
        introduction: By what others know it.
        identify: Finds the public key of a client in its introduction; None if the authority does not stand behind it.
    """

    own: ExchangeKey
    introduction: bytes
    identify: Identify


def relay_keys(folder: Path, sites: Sequence[str]) -> RelayKeys:
    """The keys of a site.

    Args:
        folder: The site's folder.
        sites: The names of the training sites, by client number.
    """
    private, introduction = introduce(folder, _PURPOSE, lambda private: ExchangeKey(private).public)
    return RelayKeys(ExchangeKey(private), introduction, identifier(folder, sites, _PURPOSE))
