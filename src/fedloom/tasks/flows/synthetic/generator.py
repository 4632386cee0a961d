"""A synthetic corpus of action flows, one organisation per client, in place of the private flows of the thesis.

The thesis reports on 33 private corpora. This one has their class frequencies and client sizes. Organisations differ in
the meaning of names, in how often they use each kind of action, and in its subkinds (see ``styles``); how the next kind
follows from the roles of the actions before is the same for all (see ``grammar``). An organisation depends on the seed,
the scale and its place among the 33, not on which other organisations are generated.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fedloom.core.seeds import numpy_generator
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.rules import PLATFORM
from fedloom.tasks.flows.synthetic.client_sizes import SIZES, group, spread_places
from fedloom.tasks.flows.synthetic.grammar import TYPES, grammar
from fedloom.tasks.flows.synthetic.growth import grow
from fedloom.tasks.flows.synthetic.node_attributes import DescribedFlows, draw_attributes
from fedloom.tasks.flows.synthetic.styles import Styles, styles

EXTRA_POINTS = 300
"""Points of the extra flows that small organisations get for testing."""

FIRST_CHUNK, LARGEST_CHUNK = 64, 1_024
"""The number of flows that grow at a time: few at first, in case few are needed."""


def generate(clients: int = len(SIZES), largest: int = 14_000, seed: int = 0) -> Corpus:
    """A synthetic corpus.

    Args:
        clients: the number of organisations; their sizes are spread evenly over the 33 of the thesis.
        largest: the data points of the largest of the 33; the other sizes are scaled with it.
        seed: the same seed gives the same flows.
    """
    places = spread_places(clients)
    made = styles(seed, largest)
    organisations = tuple(_organisation(made, place) for place in places)
    return Corpus(organisations, PLATFORM, title=f"{clients} synthetic organisations (seed {seed})")


def ceiling(organisation: int, largest: int = 14_000, seed: int = 0, points: int = 5_000) -> float:
    """The best possible accuracy for the kinds of an organisation (its place among the 33, from 0).

    It is the accuracy of a predictor that knows the role of every name: how often the drawn kind was the most probable
    one.
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
    """Flows of an organisation with exactly ``points`` points in all; flows too long for the rest are skipped."""
    flows: list[Flow] = []
    chunks = _chunks(made, number, purpose)
    while points:
        chunk = next(chunks)
        for i, length in enumerate((chunk.grown.count - 1).tolist()):
            if length <= points:
                points -= length
                flows.append(chunk.flow(i, f"flow-{len(flows) + 1:05d}"))
    return tuple(flows)


def _chunks(made: Styles, number: int, purpose: str) -> Iterator[DescribedFlows]:
    """An endless sequence of flows of an organisation, in chunks."""
    shared = grammar(made.seed)
    for chunk in itertools.count():
        random = numpy_generator(made.seed, purpose, number, chunk)
        who = np.full(min(FIRST_CHUNK << chunk, LARGEST_CHUNK), number)
        types = random.integers(0, len(TYPES), len(who))
        grown = grow(shared, made.bias[who], types, made.name_actions(who, random), random)
        yield draw_attributes(made, number, grown, types, random)
