"""Facts: what parts of a run need of each other, and what they break, in one small vocabulary.

Parts do not know each other. A part states facts in three class variables, and a run is refused if one part needs what
another breaks, in a sentence made of both parts' words (``config/compatibility.py`` has the table of a run's parts):

    needs = {Fact.ALL_ANSWER: "adds the updates of all clients that it asked"}
    breaks = {Fact.ALL_ANSWER: "lets clients withhold their update"}

A text says why, in a clause whose subject is the part; what follows a colon says what to use instead. What depends on a
part's settings is a property of the same name.

Some facts are promises about code, which only its author can make: that a server uses nothing of its clients' replies
but their mean, for instance. Such a fact counts as broken until a class states it in ``grants``, and the promise ends
with a subclass that overrides one of the functions that it is about. Each kind of part has its table of them
(``METHOD_PROMISES`` and those after it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Fact(Enum):
    """What may hold for a run; the value says it in words."""

    # what travels
    EXCHANGES = "clients and server exchange something"
    MODEL_DOWN = "the server sends a model down"
    UPDATES = "clients send models or their changes"
    CODABLE = "clients send models, their changes, or statistics that may be coded"
    TRAINED_MODELS = "clients send whole models that they trained"
    ONLY_UPDATES = "everything that clients send is an update"
    MODEL_PARTS = "an update is of the whole model, or of one of its parts"
    FROM_SERVER = "every model comes from the server"
    SAME_MODEL = "all clients get the same model"
    SAME_START = "all clients of a wave start from the same bytes"
    READABLE = "the server reads every model that clients send"
    PLAIN_MODEL = "one whole model goes down, is trained and comes back, and nothing else is sent or kept"
    SAME_WEIGHTS = "a client trains the same weights in every round"
    # what the server does with it
    ONE_MEAN = "a round makes one mean of all replies, by the run's aggregator"
    MEAN_EVERY_ROUND = "every round ends with a mean of models"
    ONE_OPTIMIZER = "the server has no optimiser yet"
    WHOLE_MODEL = "what clients share is a whole model"
    SHARED_MODEL = "the server holds one model that its clients share"
    FEDERATED_MODEL = "the server's model owes something to its clients"
    ONLY_MEANS = "the server uses nothing of the replies but their means"
    ONLY_SUMS = "the server uses nothing of the replies but sums over clients"
    ADDABLE = "what clients send can be added as it is"
    OWN_INFLUENCE = "how much a client counts does not depend on what others sent"
    # who takes part
    ALL_ANSWER = "every client that is asked answers"
    KNOWN_UNITS = "what a round draws from is known without clients' data"
    BLIND_DRAW = "who takes part does not depend on clients' data"
    HIDDEN_DRAWS = "nothing that a run writes depends on who was drawn"
    SINGLE_CLIENTS = "a round selects clients, and not groups of them"
    # what clients do
    OWN_DATA = "every client trains on its own data"
    TRAINS_LOCALLY = "clients train a model between a message and their reply"
    TRAINS_HEAD = "the model's head is trained"
    ONLY_TRAINING = "replies depend on clients' samples only through training by the task's loss"
    ONE_STEP = "clients take one optimiser step per batch"
    MEAN_GRADIENT = "a local step follows the gradient of its samples' mean loss"
    KNOWN_STEPS = "a local step is one of the library's own, with one batch"
    SHARED_PREDICTION = "clients predict with a model that they share"
    OWN_PREDICTION = "clients predict with something other than the model they receive"
    ANY_LENGTH = "a round does not depend on how many rounds there are"
    # the task and the place
    MIXED_MODELS = "clients may have different models"
    GRAPHS = "clients hold graphs"
    IMAGES = "samples are images"
    BATCHNORM = "the model has BatchNorm layers"
    SEPARATE_SAMPLES = "every sample has a gradient of its own"
    CONSTANT_DATA = "clients' data stay the same in all rounds"
    SCORES_STAY = "no score of a client's samples leaves it"


Facts = Mapping[Fact, str]
"""Facts, and why a part needs or breaks them."""

Promises = Mapping[Fact, tuple[frozenset[str], str]]
"""Promises about code: the functions that each is about, and why it counts as broken while nobody has made it."""

SERVER_HALF = frozenset({"aggregate", "play", "prelude", "sends"})
"""What decides what a server learns of single clients: what it does with replies, and what they are."""
CLIENT_HALF = frozenset({"client_update", "train", "weights_for", "prepare_cohort"})
METHOD_PROMISES: Promises = {
    Fact.ONLY_MEANS: (SERVER_HALF, "uses, with these settings, more of its clients' replies than their mean"),
    Fact.ONLY_SUMS: (SERVER_HALF, "needs, with these settings, the reply of each client"),
    Fact.ONLY_TRAINING: (
        CLIENT_HALF,
        "lets clients, with these settings, look at their samples in other ways than training on the task's loss",
    ),
}
AGGREGATOR_PROMISES: Promises = {
    Fact.ONLY_SUMS: (frozenset({"__call__"}), "needs single updates: leave out one of the two; mean takes sums"),
    Fact.OWN_INFLUENCE: (
        frozenset({"trust", "mix"}),
        "has a trust, or mixes rows, in a way of its own, which may depend on what others sent",
    ),
}
SELECTOR_PROMISES: Promises = {Fact.BLIND_DRAW: (frozenset({"__call__"}), "looks at what clients have")}
STEP_PROMISES: Promises = {
    Fact.ADDABLE: (
        frozenset({"encode", "decode", "width"}),
        "codes the rows that clients send: leave out one of the two",
    )
}
ATTACK_PROMISES: Promises = {
    Fact.ONLY_SUMS: (
        frozenset({"collude", "collude_against", "look_at_replies"}),
        "looks at single updates: leave out one of the two",
    ),
    Fact.HIDDEN_DRAWS: (frozenset({"collude", "collude_against", "look_at_replies"}), "looks at single updates"),
    Fact.SAME_START: (frozenset({"poison_message"}), "may send other bytes to each client: leave out one of the two"),
}
IMPLIED = {Fact.ONLY_MEANS: Fact.ONLY_SUMS}
"""What a promise includes: a mean is a sum."""


def broken_facts(part: object, promises: Promises | None = None) -> dict[Fact, str]:
    """What a part breaks, and why: what its classes state, the more derived ones last.

    Args:
        part: A method, a selector, a step of a channel, or any other part of a run.
        promises: The promises that can be made for this kind of part; those of its class by default.
    """
    about = getattr(part, "_promises", {}) if promises is None else promises
    found: dict[Fact, str] = dict(_derived(part)[1])
    for kind in reversed(type(part).__mro__):
        own = vars(kind)
        for fact, (functions, why) in about.items():
            if overridden := functions & own.keys():
                found[fact] = why if _is_ours(kind) else _remind(why, fact, kind, min(overridden))
        granted = set[Fact](_of_settings(own.get("grants", ()), part))
        for fact in granted | {IMPLIED[fact] for fact in granted & IMPLIED.keys()}:
            found.pop(fact, None)
        found |= _of_settings(own.get("breaks", {}), part)
    return found


def _is_ours(kind: type) -> bool:
    """Whether a class is one of the library, which has stated all that holds of it."""
    return kind.__module__.partition(".")[0] == __name__.partition(".")[0]


def _remind(why: str, fact: Fact, kind: type, function: str) -> str:
    """Why a promise counts as broken, with what the author of a class can do about it."""
    clause, _, instead = why.partition(": ")
    state = f"state `grants = (fl.Fact.{fact.name},)` in {kind.__name__}, whose {function} is its own, if {fact.value}"
    return f"{clause}: {state}{f', or {instead}' if instead else ''}"


def unkept_promises(part: object, promises: Promises) -> set[Fact]:
    """The promises about code that the classes of a part do not make, or made before a function was overridden.

    Args:
        part: Any part of a run.
        promises: The promises that can be made for this kind of part.
    """
    unkept = set[Fact]()
    for kind in reversed(type(part).__mro__):
        own = vars(kind)
        unkept |= {fact for fact, (functions, _) in promises.items() if functions & own.keys()}
        unkept -= set(_of_settings(own.get("grants", ()), part))
    return unkept


def needed_facts(part: object) -> dict[Fact, str]:
    """What a part needs, and why.

    Args:
        part: Any part of a run.
    """
    found: dict[Fact, str] = dict(_derived(part)[0])
    for kind in reversed(type(part).__mro__):
        found |= _of_settings(vars(kind).get("needs", {}), part)
    return found


def is_granted(fact: Fact, kind: type, part: object) -> bool:
    """Whether a class itself, and no parent of it, states a promise.

    Args:
        kind: The class.
        part: The part, which is of this class; what it promises may depend on its settings.
    """
    return fact in _of_settings(vars(kind).get("grants", ()), part)


def is_about(part: object, statement: str, function: str) -> bool:
    """Whether what a function states of another one still holds: nobody overrode the other one since.

    What a class says of its draws or its noise ends, as a promise does, with a subclass that draws or adds otherwise.

    Args:
        statement: The function that states something; its part has it.
        function: The function that it is about.
    """
    kinds = type(part).__mro__
    said = next(place for place, kind in enumerate(kinds) if statement in vars(kind))
    done, *older = [place for place, kind in enumerate(kinds) if function in vars(kind)]
    return said <= done or not older  # an abstract class may state what its first subclasses are to do


def holds(fact: Fact, part: object) -> bool:
    """Whether a part leaves a fact as it is."""
    return fact not in broken_facts(part)


def _derived(part: object) -> tuple[Facts, Facts]:
    """What follows from a part's declarations, if its base class derives anything."""
    derive = getattr(part, "_derived_facts", None)
    return ({}, {}) if derive is None else derive()


def _of_settings(value: Any, part: object) -> Any:
    """What a class states: as it is, or by a property of the part's settings."""
    return value.fget(part) if isinstance(value, property) and value.fget is not None else value


@dataclass(frozen=True)
class NamedPart:
    """A part of a run as it appears in sentences.

    Args:
        name: What users call it.
        needs: What it needs, and why.
        breaks: What it breaks, and why.
    """

    name: str
    needs: Facts
    breaks: Facts

    @staticmethod
    def of(part: object, name: str | None = None, promises: Promises | None = None) -> NamedPart:
        """A part under its name.

        Args:
            name: What users call it; its class in lower case by default.
            promises: The promises that can be made for this kind of part; those of its class by default.
        """
        return NamedPart(name or type(part).__name__.lower(), needed_facts(part), broken_facts(part, promises))


def conflict(one: NamedPart, other: NamedPart) -> str | None:
    """Why two parts, one and another, cannot be in one run, as a sentence; None if they can."""
    for needer, breaker in ((one, other), (other, one)):
        for fact, text in needer.needs.items():
            if fact in breaker.breaks:
                why, _, instead = text.partition(": ")
                how, _, hint = breaker.breaks[fact].partition(": ")
                advice = hint or instead or f"use only one of {needer.name} and {breaker.name}"
                return f"{needer.name} {why}, and {breaker.name} {how}: {advice}."
    return None
