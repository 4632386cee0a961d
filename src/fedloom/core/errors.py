"""Errors for users: one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path


class FedloomError(Exception):
    """Bad input or an impossible request. The command line prints it as one sentence and exits with 2."""


class Stopped(FedloomError):  # noqa: N818
    """A run that cannot continue. What was measured so far is kept."""


class Diverged(Stopped):
    """A run whose numbers are no longer finite."""


class StoppedWarning(UserWarning):
    """A run that Python started ended before its last round: it diverged, or its method could not continue."""


class Abandoned(FedloomError):  # noqa: N818
    """A round that too few clients answered. Nothing has changed, and the round may be tried again."""


def unknown(kind: str, name: str, known: Iterable[str]) -> FedloomError:
    """The error for a name that is not in a list, with the nearest known name as a suggestion."""
    known = sorted(known)
    section = name[: name.rfind(".") + 1]  # what all of them begin with makes none of them alike
    shared = section if all(one.startswith(section) for one in known) else ""
    ends = [one.removeprefix(shared) for one in known]
    close = difflib.get_close_matches(name.removeprefix(shared).lower(), ends, n=1, cutoff=0.5)
    hint = f" Did you mean '{shared}{close[0]}'?" if close else ""
    listed = f"Known: {', '.join(known)}" if known else "There are none"
    return FedloomError(f"unknown {kind} '{name}'.{hint} {listed}.")


def unwritable(path: Path | str, error: OSError, otherwise: str) -> FedloomError:
    """The error for a file or a folder that cannot be written.

    Args:
        error: Why.
        otherwise: What to do if the reason is not a full disk.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return FedloomError(f"{path} cannot be written ({error.strerror}): {'make room' if full else otherwise}.")
