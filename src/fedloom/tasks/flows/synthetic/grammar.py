"""The grammar that all organisations of the synthetic corpus share: which kind of action comes next.

Every action plays one of 40 hidden roles, four to each of ten themes. The next action's kind depends on the roles of
the two actions before it, on the label of the way out (``True``, ``Condition 1``, ...) and on the type of the flow:

    logits = W1[role of previous] + W2[role before that] + label + flow type + length + the organisation's bias

The longer a flow is already, the sooner it ends and the less it branches (the length term), or a few endless flows
would hold most of the actions. The design is ours: the flows of the thesis are private. All organisations share the
meaning of roles, but not the names of actions that play them (see ``styles``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedloom.core.seeds import numpy_generator
from fedloom.tasks.flows.platform_kinds import ENDS, TARGETS

Array = np.ndarray

ROLES, THEMES = 40, 10
PER_THEME = ROLES // THEMES
NO_ROLE = ROLES
"""The role of a missing action: the one before the start."""

TYPES = ("ScreenAction", "ServerAction", "ClientAction", "DataAction", "Preparation", "Timer")
LABELS = ("", "True", "False", "Condition 1", "Condition 2", "Condition 3", "Otherwise", "Cycle", "Exit")

TERMINAL = np.isin(TARGETS, ENDS)
BRANCHING = np.isin(TARGETS, ("If", "Switch", "ForEach"))

PREVIOUS, BEFORE, LABEL, TYPE = 3.0, 1.2, 0.7, 0.7
"""The strength of each term: the standard deviation of its logits."""
OF_THEME = 0.75
"""The share of a role's term (of its variance) that is its theme's: coarse habits are learnt before fine ones."""
ENDING, BRANCHING_ON = 1.0, -0.5
USUAL, SPAN = 4, 3
"""A flow of four actions is neither short nor long; three more, and the length term has grown by these amounts."""
_LENGTH = np.where(np.isin(TARGETS, "End"), ENDING, np.where(BRANCHING, BRANCHING_ON, 0.0))


@dataclass(frozen=True)
class Grammar:
    """The shared terms of the logits, one column per kind; rows are roles (the last: none), labels and flow types."""

    previous: Array
    before: Array
    label: Array
    type: Array

    def logits(self, previous: Array, before: Array, label: Array, flow_type: Array, length: Array) -> Array:
        """The logits of every next kind without a bias, one row per open branch.

        ``previous`` and ``before`` are roles, ``length`` is the number of actions in the flow so far.
        """
        scores: Array = self.previous[previous] + self.before[before] + self.label[label] + self.type[flow_type]
        age = ((length - USUAL) / SPAN).clip(-1, 4)
        scores += age[:, None] * _LENGTH
        return scores


def grammar(seed: int) -> Grammar:
    """The grammar of one seed."""
    random = numpy_generator(seed, "grammar")

    def term(rows: int, strength: float) -> Array:
        return random.normal(0.0, strength, (rows, len(TARGETS)))

    def of_roles(strength: float) -> Array:
        of_theme = np.repeat(term(THEMES, strength * OF_THEME**0.5), PER_THEME, axis=0)
        own = term(ROLES, strength * (1 - OF_THEME) ** 0.5)
        return np.concatenate([of_theme + own, np.zeros((1, len(TARGETS)))])

    return Grammar(of_roles(PREVIOUS), of_roles(BEFORE), term(len(LABELS), LABEL), term(len(TYPES), TYPE))
