"""From grown arrays to flows with attributes: the vocabulary of the synthetic corpus.

An action's name stands for its role, in a way that depends on the organisation (see ``styles``); its module groups
names. Its subkind depends on its kind and on the role of the action before it. Data type and flags depend on the kind
or on nothing: real files have them too, and they carry little information.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.platform_kinds import SPLIT, START, TARGETS
from fedloom.tasks.flows.synthetic.grammar import LABELS, PER_THEME, TYPES, Array
from fedloom.tasks.flows.synthetic.growth import MOST_NODES, GrownFlows
from fedloom.tasks.flows.synthetic.styles import NAMED, PRIVATE_MODULES, PRIVATE_TOKENS, Styles

MODULES = ("System", "Users", "Text", "Records", "Lists", "Dates", "Http", "Widgets", "Email", "Files")
_VERBS = ("Get", "Set", "Check", "Find", "Apply", "Close")
DATA_TYPES = ("Boolean", "Currency", "Date", "Entity", "Integer", "List", "Structure", "Text")
FLAGS = ("none", "public", "function", "public function")


def _hashes(what: str, count: int) -> tuple[str, ...]:
    return tuple(hashlib.blake2b(f"{what}/{i}".encode(), digest_size=3).hexdigest() for i in range(count))


PLATFORM_NAMES = tuple(f"{module}.{verb}" for module in MODULES for verb in _VERBS)
NAMES = (*PLATFORM_NAMES, *_hashes("name", PRIVATE_TOKENS))
"""All names of actions: the platform's, then private ones, which are hashes."""
_PRIVATE_MODULES = _hashes("module", PRIVATE_MODULES)
_IDS = tuple(f"n{i}" for i in range(MOST_NODES))


@dataclass(frozen=True)
class DescribedFlows:
    """Grown flows of one organisation, and the numbers of the words of all their attributes."""

    grown: GrownFlows
    types: Array
    subkind: Array
    data_type: Array
    flags: Array
    modules: tuple[str, ...]
    platform: str

    def flow(self, number: int, name: str) -> Flow:
        """One of the flows."""
        grown, length = self.grown, int(self.grown.count[number])
        kinds, tokens, subkinds, data_types, flags = (
            column[number, :length].tolist()
            for column in (grown.kind, grown.token, self.subkind, self.data_type, self.flags)
        )
        nodes = [Node(_IDS[0], START, {"subkind": START, **self._name_and_module(tokens[0])})]
        for i in range(1, length):
            kind = TARGETS[kinds[i]]
            attributes = {"subkind": NAMED[kind][subkinds[i]] if kind in NAMED else kind}
            if kind != "End":
                attributes |= self._name_and_module(tokens[i])
                attributes |= {"type": DATA_TYPES[data_types[i]], "flags": FLAGS[flags[i]]}
            nodes.append(Node(_IDS[i], kind, attributes))
        first, last = np.searchsorted(grown.edges[:, 0], (number, number + 1))
        edges = [Edge(_IDS[a], _IDS[b], LABELS[label]) for _, a, b, label in grown.edges[first:last].tolist()]
        about = {"type": TYPES[self.types[number]], "platform": self.platform}
        return Flow(tuple(nodes), tuple(edges), about, name)

    def _name_and_module(self, token: int) -> dict[str, str]:
        return {"name": NAMES[token], "module": self.modules[token]}


def draw_attributes(
    made: Styles, number: int, grown: GrownFlows, types: Array, random: np.random.Generator
) -> DescribedFlows:
    """Draw the attributes of grown flows of one organisation and of their actions."""
    shape = grown.kind.shape
    own = made.modules[number, made.roles[number, -PRIVATE_TOKENS:] // PER_THEME]
    return DescribedFlows(
        grown,
        types,
        _subkinds(made, number, grown, random),
        (grown.kind * 3 + random.choice(3, shape, p=(0.6, 0.3, 0.1))) % len(DATA_TYPES),
        random.choice(len(FLAGS), shape, p=(0.6, 0.2, 0.15, 0.05)),
        (*np.repeat(MODULES, len(_VERBS)).tolist(), *(_PRIVATE_MODULES[i] for i in own.tolist())),
        "mobile" if made.mobile[number] else "web",
    )


def _subkinds(made: Styles, number: int, grown: GrownFlows, random: np.random.Generator) -> Array:
    """The number of every action's subkind among those that its kind has."""
    subkind = np.zeros(grown.kind.shape, np.int64)
    before = np.take_along_axis(grown.role, grown.parent.astype(np.int64), 1)
    for kind in SPLIT:
        where = grown.kind == TARGETS.index(kind)
        chances = made.subkinds[kind][number, before[where]].cumsum(1)
        subkind[where] = (chances < random.random(len(chances))[:, None]).sum(1).clip(max=len(NAMED[kind]) - 1)
    return subkind
