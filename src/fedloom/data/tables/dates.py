"""Dates in cells of text: how they are written, and what a model gets of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from fedloom.core.errors import FedloomError

CLOCK = r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
"""The time of day, if there is one. A zone is read over: times are those on the wall."""
FORMS = {
    "year-month-day": (r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})", (0, 1, 2)),
    "day.month.year": (r"(\d{1,2})\.(\d{1,2})\.(\d{4})", (2, 1, 0)),
    "day/month/year": (r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})", (2, 1, 0)),
    "month/day/year": (r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})", (2, 0, 1)),
}
"""How dates are written: a pattern, and which of its groups are year, month and day."""
DAY = 86_400
MARK = "%"
"""What a form that the user has given begins its parts with, as in ``%d/%m/%Y``."""


def date_form(texts: Sequence[str]) -> str:
    """How dates are written in some texts: a key of ``FORMS``.

    It is empty if they are not all dates, ``unclear`` if two forms fit, ``mixed`` if none fits all of them.
    """
    different = set(texts)
    if not different or not all(is_date(text) for text in different):
        return ""
    fitting = [form for form in FORMS if all(_seconds(text, form) is not None for text in different)]
    if len(fitting) == 2:
        same = all(_seconds(text, fitting[0]) == _seconds(text, fitting[1]) for text in different)
        return fitting[0] if same else "unclear"
    return fitting[0] if fitting else "mixed"


def is_date(text: str) -> bool:
    """Whether a text is a date in one of the forms."""
    return text[:1].isdigit() and any(_seconds(text, form) is not None for form in FORMS)


def check_form(form: str, column: str) -> None:
    """Raise an error if a form that a user gave cannot be read, or says no day.

    Args:
        form: A form of ``datetime.strptime``.
        column: The column that is written in this form, for the error.
    """
    shown = f"dates: the form '{form}' of the column '{column}'"
    probe = datetime(2003, 12, 31, 1, 2, 3, tzinfo=UTC)
    try:
        found = datetime.strptime(probe.strftime(form), form)
    except ValueError as error:
        raise FedloomError(f"{shown} cannot be read ({error}): write it as %d/%m/%Y or %m/%d/%Y %H:%M.") from None
    if (found.year, found.month, found.day) != (2003, 12, 31):
        raise FedloomError(f"{shown} does not say year, month and day: write it as %d/%m/%Y.")


def parse_dates(texts: np.ndarray, form: str, where: str) -> np.ndarray:
    """Texts as seconds since 1970, NaN where they are empty.

    Args:
        texts: The cells.
        form: How they are written, a key of ``FORMS``, or as ``datetime.strptime`` reads them (``%d/%m/%Y``).
        where: What an error calls the column.
    """
    known: dict[str, float] = {"": np.nan}
    for row, text in enumerate(texts, start=1):
        if text not in known:
            seconds = _seconds(text, form)
            if seconds is None:
                raise FedloomError(f"{where}, row {row}: '{text[:40]}' is not a date ({form}): correct it.")
            known[text] = seconds
    return np.array([known[text] for text in texts], dtype=np.float64)


def _seconds(text: str, form: str) -> float | None:
    if MARK in form:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            return None
    pattern, order = FORMS[form]
    found = re.fullmatch(pattern + CLOCK, text)
    if found is None:
        return None
    year, month, day = (int(found.group(place + 1)) for place in order)
    hour, minute, second = (int(found.group(place) or 0) for place in (4, 5, 6))
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def date_features(seconds: np.ndarray) -> np.ndarray:
    """Days since 1970, month (1 to 12), weekday (0 is Monday) and hour of each time: rows × 4."""
    days = np.floor(seconds / DAY)
    months = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1
    weekdays, hours = (days + 3) % 7, (seconds - days * DAY) / 3600  # 1970 began on a Thursday
    return np.stack([days, months, weekdays, hours], 1).astype(np.float32)
