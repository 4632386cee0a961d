"""A synthetic corpus of action flows, one organisation per client, for studies of flows that nobody may see.

A thesis on personalised federated learning for action flows reports on 33 private corpora. This one has its class
frequencies and client sizes. Organisations differ in what a name stands for, in how often they use which action, and in
which subkind of it (see ``styles``); what follows from the roles of the actions before is the same for all (see
``grammar``). An organisation depends on the seed, the scale and its place among the 33, not on who else is there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fedloom.core.seeds import numpy_generator
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.rules import PLATFORM
from fedloom.tasks.flows.synthetic.client_sizes import SIZES, group, picked
from fedloom.tasks.flows.synthetic.grammar import TYPES, grammar
from fedloom.tasks.flows.synthetic.growth import grow
from fedloom.tasks.flows.synthetic.node_attributes import Described, describe
from fedloom.tasks.flows.synthetic.styles import Styles, styles

EXTRA_POINTS = 300
"""Small organisations get flows with so many points that are only for testing."""

FIRST_CHUNK, LARGEST_CHUNK = 64, 1_024
"""How many flows grow at a time: few at first, for who needs few."""


def generate(clients: int = len(SIZES), largest: int = 14_000, seed: int = 0) -> Corpus:
    """A corpus of so many organisations, of sizes spread evenly over the document's 33.

    Sizes (in data points) are the document's, scaled so that its largest client holds ``largest``.
    """
    places = picked(clients)
    made = styles(seed, largest)
    organisations = tuple(_organisation(made, place) for place in places)
    return Corpus(organisations, PLATFORM, title=f"{clients} synthetic organisations (seed {seed})")


def ceiling(organisation: int, largest: int = 14_000, seed: int = 0, points: int = 5_000) -> float:
    """The best accuracy that a model can have on the kinds of an organisation (its place among the 33, from 0).

    It is how often the likeliest kind came, under the chances that the actions were drawn with: the accuracy of who
    knows what role every name plays.
    """
    hits, seen = 0, 0
    for chunk in _chunks(styles(seed, largest), organisation, "ceiling"):
        hits, seen = hits + int(chunk.grown.hit.sum()), seen + int((chunk.grown.count - 1).sum())
        if seen >= points:
            break
    return hits / seen


def _organisation(made: Styles, number: int) -> Organisation:
    extra = EXTRA_POINTS if group(SIZES[number]) == "small" else 0
    return Organisation(
        f"organisation-{number + 1:02d}",
        _flows(made, number, "flows", int(made.size[number])),
        _flows(made, number, "extra flows", extra),
    )


def _flows(made: Styles, number: int, purpose: str, points: int) -> tuple[Flow, ...]:
    """Flows of an organisation with exactly so many points in all: as they come, but the last must fit."""
    flows: list[Flow] = []
    chunks = _chunks(made, number, purpose)
    while points:
        chunk = next(chunks)
        for i, length in enumerate((chunk.grown.count - 1).tolist()):
            if length <= points:
                points -= length
                flows.append(chunk.flow(i, f"flow-{len(flows) + 1:05d}"))
    return tuple(flows)


def _chunks(made: Styles, number: int, purpose: str) -> Iterator[Described]:
    """Endlessly many flows of an organisation."""
    shared = grammar(made.seed)
    for chunk in itertools.count():
        random = numpy_generator(made.seed, purpose, number, chunk)
        who = np.full(min(FIRST_CHUNK << chunk, LARGEST_CHUNK), number)
        types = random.integers(0, len(TYPES), len(who))
        grown = grow(shared, made.bias[who], types, made.speaker(who, random), random)
        yield describe(made, number, grown, types, random)
