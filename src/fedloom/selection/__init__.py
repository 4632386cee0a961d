"""Who takes part in a round. A selector sees a pool (``fedloom.core.selector``) and answers with a choice."""

from __future__ import annotations

from typing import Any

from fedloom.selection.oort import Oort
from fedloom.selection.power_of_choice import PowerOfChoice
from fedloom.selection.random import Random
from fedloom.selection.rawcs import RAWCS

SELECTORS: dict[str, Any] = {kind.__name__.lower(): kind for kind in (Random, PowerOfChoice, RAWCS, Oort)}
ALIASES = {"poc": "powerofchoice"}
