"""Client selectors by name (``--selection powerofchoice``)."""

from __future__ import annotations

from typing import Any

from fedloom.selection.oort import Oort
from fedloom.selection.poisson import Poisson
from fedloom.selection.power_of_choice import PowerOfChoice
from fedloom.selection.random import Random
from fedloom.selection.rawcs import RAWCS

_ALL = (Random, Poisson, PowerOfChoice, RAWCS, Oort)
SELECTORS: dict[str, Any] = {selector.__name__.lower(): selector for selector in _ALL}
SELECTOR_ALIASES = {"poc": "powerofchoice"}
