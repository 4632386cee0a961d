"""Errors for users: one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from pathlib import Path

ALIKE, SHORT = 0.55, 3
"""How much of two names must agree for one to be suggested for the other: `adm` is `adam`, and `fast` is not `auto`.
Half is enough of short names: `nu` is `mu`."""


class FedloomError(Exception):
    """Bad input or an impossible request. The command line prints it as one sentence and exits with 2."""


class Stopped(FedloomError):  # noqa: N818
    """A run that cannot continue. What was measured so far is kept."""


class Diverged(Stopped):
    """A run whose numbers are no longer finite."""


class StopRun(Exception):  # noqa: N818
    """Raised by a callback, with the reason: the run ends after the round that is being played, and can be continued.

    ``history.stopped`` will say the reason.
    """


class StoppedWarning(UserWarning):
    """A run that Python started ended before its last round: it diverged, or its method could not continue."""


class Abandoned(FedloomError):  # noqa: N818
    """A round that too few clients answered. Nothing has changed, and the round may be tried again."""


def unknown(kind: str, name: str, known: Iterable[str]) -> FedloomError:
    """The error for a name that is not in a list, with the nearest known name as a suggestion."""
    known = sorted(known)
    listed = f"Known: {', '.join(known)}" if known else "There are none"
    return FedloomError(f"unknown {kind} '{name}'.{suggestion(name, known)} {listed}.")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Which known name was probably meant, as a question with a blank before it; empty if none is like it.

    Args:
        name: What the user wrote.
        known: The names that there are. Upper and lower case are alike.
    """
    known = list(known)
    section = name[: name.rfind(".") + 1]  # what all of them begin with makes none of them alike
    shared = section if all(one.startswith(section) for one in known) else ""
    ends = {one.removeprefix(shared).lower(): one for one in known}
    own = name.removeprefix(shared).lower()
    close = difflib.get_close_matches(own, ends, n=1, cutoff=ALIKE if len(own) > SHORT else 0.5)
    return f" Did you mean '{ends[close[0]]}'?" if close else ""


def no_path(path: Path, give: str) -> FedloomError:
    """The error for a file or folder that is not there, with the nearest name beside it as a suggestion.

    Args:
        path: What was looked for.
        give: What to give, as a phrase.
    """
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    return FedloomError(f"{path} does not exist: give {give}.{suggestion(path.name, beside)}")


def unwritable(path: Path | str, error: OSError, otherwise: str) -> FedloomError:
    """The error for a file or a folder that cannot be written.

    Args:
        error: Why.
        otherwise: What to do if the reason is not a full disk.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return FedloomError(f"{path} cannot be written ({error.strerror}): {'make room' if full else otherwise}.")
