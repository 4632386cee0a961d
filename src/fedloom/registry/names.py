"""Names of methods, tasks, selectors and stages as users spell them.

Case, hyphens, underscores and spaces do not matter: ``LG-FedAvg``, ``lg_fedavg`` and ``lgfedavg`` are one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def canonical_name(name: str, known: Iterable[str], aliases: Mapping[str, str] = NO_ALIASES) -> str:
    """The registered spelling of a name.

    Args:
        name: The name as a user wrote it. A user-defined class (``file.py:Class``) keeps its name.
        known: The registered names.
        aliases: Other names for registered ones, in lower case without separators.

    Returns:
        The registered name, or the name in lower case without separators if nothing of that name is registered.
    """
    if ":" in name:
        return name
    letters = _letters(name)
    letters = aliases.get(letters, letters)
    return next((registered for registered in known if _letters(registered) == letters), letters)


def _letters(name: str) -> str:
    """A name in lower case without separators."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
