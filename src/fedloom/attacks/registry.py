"""Attacks by name (``[adversary]`` in a config)."""

from __future__ import annotations

from fedloom.attacks.alie import ALIE
from fedloom.attacks.sign_flipping import SignFlipping
from fedloom.core.adversary import Adversary

ATTACKS: dict[str, type[Adversary]] = {"signflipping": SignFlipping, "alie": ALIE}
