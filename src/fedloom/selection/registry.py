"""Client selectors by name (``--selection powerofchoice``)."""

from __future__ import annotations

from typing import Any

from fedloom.selection.oort import Oort
from fedloom.selection.power_of_choice import PowerOfChoice
from fedloom.selection.random import Random
from fedloom.selection.rawcs import RAWCS

SELECTORS: dict[str, Any] = {selector.__name__.lower(): selector for selector in (Random, PowerOfChoice, RAWCS, Oort)}
SELECTOR_ALIASES = {"poc": "powerofchoice"}
