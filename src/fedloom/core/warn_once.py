"""Warnings that are given once in a process: every run of a comparison or a sweep would repeat them."""

from __future__ import annotations

import logging
from functools import cache

log = logging.getLogger("fedloom")


@cache
def warn_once(sentence: str) -> None:
    """Log a sentence, the first time that it is given.

    Args:
        sentence: What is to be said, with its full stop.
    """
    log.warning("%s", sentence)
