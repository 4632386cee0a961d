"""The one error type that is meant for a person: a sentence that says what, where and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedloomError(Exception):
    """Bad input or an impossible request. The command line prints it as one sentence and exits with 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> FedloomError:
    """The error for a name that is not in a list, with the nearest known name as a suggestion."""
    known = sorted(known)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return FedloomError(f"unknown {kind} '{name}'.{hint} Known: {', '.join(known)}.")
