"""What a method is: the names that a user may override or call, and what follows from its declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest
from torch import Tensor

import fedloom as fl
from fedloom.core.algorithm import exchanges, groups_of
from fedloom.core.declarations import Declared
from fedloom.core.facts import Fact, broken_facts, holds, needed_facts

FUNCTIONS = {"start", "broadcast", "client_update", "aggregate", "weights_for"}
HOOKS = {"check", "adapt_task", "prelude", "play", "is_finished", "prepare_cohort", "server"}
STATEMENTS = {"turns", "steps_per_turn", "receives", "sends", "keeps", "needs", "breaks", "grants"}


def test_a_method_has_few_names():
    public = {name for name in dir(fl.Algorithm) if not name.startswith("_")}
    assert public == FUNCTIONS | HOOKS | STATEMENTS
    assert len(public) <= 20


@dataclass(frozen=True)
class Plain(fl.Algorithm):
    """A method that only trains."""

    def client_update(self, cohort: fl.Cohort, message: fl.Message) -> fl.Reply:
        return fl.Reply({"row": cohort.train(cohort.spread(message["row"]))})


class Counts(Plain):
    sends: ClassVar[Declared] = {"counts": fl.Statistic("samples of each class")}


class Outputs(Plain):
    sends: ClassVar[Declared] = {"logits": fl.Statistic("outputs", coded=True)}


class Beside(Plain):
    sends: ClassVar[Declared] = {**Plain.sends, "counts": fl.Statistic("samples of each class")}


class Changes(Plain):
    sends: ClassVar[Declared] = {"row": fl.Update("how the model changed")}


class Nothing(Plain):
    receives: ClassVar[Declared] = {}


class OneEach(Plain):
    receives: ClassVar[Declared] = {"row": fl.Model("its model", each=True)}


class Keeps(Plain):
    keeps: ClassVar[Mapping[str, str]] = {"row": "its model"}


class PredictsItself(Plain):
    def weights_for(self, message: fl.Message, cohort: fl.Cohort) -> Tensor:
        return cohort.kept_rows("row", cohort.spread(message["row"]))


class Steps(Plain):
    @property
    def server(self):  # type: ignore[no-untyped-def]
        return lambda _, mean, state: (mean, state)


class Pairs(Plain):
    def groups(self, server: fl.State) -> list[list[int]]:
        return [[0, 1], [2, 3]]


OF_ANY = {Fact.MIXED_MODELS, Fact.OWN_PREDICTION, Fact.ONLY_MEANS, Fact.ONLY_SUMS, Fact.ONLY_TRAINING}
"""What a method that averages rows breaks while it promises nothing."""


@pytest.mark.parametrize(
    ("kind", "more", "less"),
    [
        (Plain, set(), set()),
        (
            Counts,
            {Fact.UPDATES, Fact.CODABLE, Fact.ONLY_UPDATES, Fact.TRAINED_MODELS, Fact.PLAIN_MODEL},
            set(),
        ),
        (Outputs, {Fact.UPDATES, Fact.ONLY_UPDATES, Fact.TRAINED_MODELS, Fact.PLAIN_MODEL}, set()),
        (Beside, {Fact.ONLY_UPDATES}, set()),
        (Changes, {Fact.TRAINED_MODELS}, set()),
        (Nothing, {Fact.MODEL_DOWN, Fact.PLAIN_MODEL}, set()),
        (OneEach, {Fact.SAME_MODEL}, set()),
        (Keeps, {Fact.PLAIN_MODEL}, set()),
        (PredictsItself, set(), {Fact.OWN_PREDICTION}),
        (Steps, {Fact.ONE_OPTIMIZER}, set()),
        (Pairs, {Fact.FROM_SERVER, Fact.SINGLE_CLIENTS, Fact.KNOWN_UNITS}, set()),
    ],
)
def test_what_follows_from_declarations(kind, more, less):
    assert broken_facts(kind()).keys() == (OF_ANY | more) - less


def test_a_method_without_any_row_of_weights_may_have_different_models():
    class Numbers(Counts):
        receives: ClassVar[Declared] = {}

    assert holds(Fact.MIXED_MODELS, Numbers())
    assert not holds(Fact.MIXED_MODELS, Counts())


def test_groups_need_the_replies_of_all_their_clients():
    assert Fact.ALL_ANSWER in needed_facts(Pairs())
    assert needed_facts(Plain()) == {}
    assert groups_of(Pairs(), {}) == [[0, 1], [2, 3]]
    assert groups_of(Plain(), {}) is None


def test_a_method_exchanges_something_unless_it_says_that_it_does_not():
    assert exchanges(Plain())
    assert not exchanges(fl.Local())
    assert not exchanges(fl.Centralised())
