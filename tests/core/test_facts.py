"""Facts: what parts need and break, how classes and settings state it, and the sentence of a conflict."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import fedloom as fl
from fedloom.config.compatibility import parts_of
from fedloom.config.composition_page import built_in_methods, built_in_parts
from fedloom.config.resolve import resolve
from fedloom.conformance.overlapping_task import overlapping_task
from fedloom.core.facts import (
    AGGREGATOR_PROMISES,
    ATTACK_PROMISES,
    CLIENT_HALF,
    IMPLIED,
    METHOD_PROMISES,
    SELECTOR_PROMISES,
    SERVER_HALF,
    STEP_PROMISES,
    Fact,
    Facts,
    NamedPart,
    broken_facts,
    conflict,
    holds,
    is_about,
    needed_facts,
)
from fedloom.registry.kinds import AGGREGATORS, ATTACKS, CHANNEL_STEPS, METHODS, SELECTORS
from support.synthetic import small_task

# -- what classes state


class Parent:
    needs: ClassVar[Facts] = {Fact.UPDATES: "reads updates", Fact.ADDABLE: "adds rows"}
    breaks: ClassVar[Facts] = {Fact.ALL_ANSWER: "lets clients sleep", Fact.GRAPHS: "has no graphs"}


class Child(Parent):
    needs: ClassVar[Facts] = {Fact.ADDABLE: "adds coded rows", Fact.IMAGES: "looks at images"}
    breaks: ClassVar[Facts] = {Fact.ALL_ANSWER: "lets clients leave"}


class Grandchild(Child):
    grants: ClassVar[Collection[Fact]] = (Fact.GRAPHS,)


def test_a_class_adds_to_what_its_parents_state_and_its_own_words_count():
    assert needed_facts(Child()) == {
        Fact.UPDATES: "reads updates",
        Fact.ADDABLE: "adds coded rows",
        Fact.IMAGES: "looks at images",
    }
    assert broken_facts(Child()) == {Fact.ALL_ANSWER: "lets clients leave", Fact.GRAPHS: "has no graphs"}
    assert (needed_facts(object()), broken_facts(object())) == ({}, {})


def test_a_subclass_may_grant_what_its_parent_breaks():
    assert broken_facts(Grandchild()) == {Fact.ALL_ANSWER: "lets clients leave"}
    assert holds(Fact.GRAPHS, Grandchild())
    assert not holds(Fact.GRAPHS, Child())


@dataclass(frozen=True)
class BySettings:
    silent: bool = False
    careful: bool = False

    @property
    def needs(self) -> Facts:
        return {Fact.ADDABLE: "adds rows"} if self.careful else {}

    @property
    def breaks(self) -> Facts:
        return {Fact.ALL_ANSWER: "lets clients sleep"} if self.silent else {}


@dataclass(frozen=True)
class PromisesBySettings(fl.FedAvg):
    peeks: bool = False

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]
        return () if self.peeks else (Fact.ONLY_MEANS,)

    def aggregate(self, server: fl.State, replies: fl.Replies) -> fl.State:
        return {**server, "row": replies["row"][0] if self.peeks else replies.mean("row")}


def test_what_depends_on_settings_is_a_property():
    assert (needed_facts(BySettings()), broken_facts(BySettings())) == ({}, {})
    assert needed_facts(BySettings(careful=True)).keys() == {Fact.ADDABLE}
    assert broken_facts(BySettings(silent=True)).keys() == {Fact.ALL_ANSWER}
    assert holds(Fact.ONLY_MEANS, PromisesBySettings())
    assert not holds(Fact.ONLY_MEANS, PromisesBySettings(peeks=True))


# -- promises


def test_a_promise_counts_as_broken_until_it_is_made():
    class Silent(fl.Algorithm): ...

    class Promising(fl.Algorithm):
        grants: ClassVar[Collection[Fact]] = tuple(METHOD_PROMISES)

    assert broken_facts(Silent()).keys() >= METHOD_PROMISES.keys()
    assert not broken_facts(Promising()).keys() & METHOD_PROMISES.keys()


@pytest.mark.parametrize("fact", METHOD_PROMISES)
@pytest.mark.parametrize("function", sorted(SERVER_HALF | CLIENT_HALF))
def test_a_promise_ends_with_a_subclass_that_overrides_what_it_is_about_and_can_be_made_again(fact, function):
    body: dict[str, Any] = {function: vars(fl.Algorithm).get(function, lambda *_: None)}
    ends = function in (SERVER_HALF if fact in (Fact.ONLY_MEANS, Fact.ONLY_SUMS) else CLIENT_HALF)
    overrides = type("Overrides", (fl.FedAvg,), body)
    below = type("Below", (overrides,), {})
    again = type("Again", (overrides,), {"grants": (fact,)})
    at_once = type("AtOnce", (fl.FedAvg,), {**body, "grants": (fact,)})
    assert holds(fact, fl.FedAvg())
    assert holds(fact, overrides()) is not ends
    assert holds(fact, below()) is not ends
    assert holds(fact, again())
    assert holds(fact, at_once())


def test_what_is_not_about_replies_or_samples_ends_no_promise():
    class Other(fl.FedAvg):
        def start(self, task):
            return super().start(task)

        def is_finished(self, server):
            return False

    assert not broken_facts(Other()).keys() & METHOD_PROMISES.keys()


def test_means_are_sums_but_sums_are_not_means():
    class Means(fl.Algorithm):
        grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)

    class Sums(fl.Algorithm):
        grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)

    assert IMPLIED == {Fact.ONLY_MEANS: Fact.ONLY_SUMS}
    assert holds(Fact.ONLY_SUMS, Means())
    assert not holds(Fact.ONLY_MEANS, Sums())


def test_a_selector_or_an_aggregator_that_overrides_a_promise_has_to_make_it_again():
    class Chooses(fl.Random):
        def __call__(self, pool):
            return fl.Choice([0])

    class First(fl.Mean):
        def __call__(self, rows, weights, context):
            return rows[0]

    class Sum(First):
        grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)

    assert Fact.BLIND_DRAW not in broken_facts(fl.Random(), SELECTOR_PROMISES)
    assert Fact.BLIND_DRAW in broken_facts(Chooses(), SELECTOR_PROMISES)
    assert Fact.BLIND_DRAW in broken_facts(lambda _: fl.Choice([0]), SELECTOR_PROMISES)
    assert [holds(Fact.ONLY_SUMS, kind()) for kind in (fl.Mean, First, Sum, fl.Median)] == [True, False, True, False]
    assert [bool(needed_facts(kind())) for kind in (fl.Mean, First, fl.Median)] == [False, True, True]


# -- the sentence


ADDS = NamedPart("sum", {Fact.ALL_ANSWER: "adds all updates: drop the sum"}, {})
ADDS_ONLY = NamedPart("sum", {Fact.ALL_ANSWER: "adds all updates"}, {})
NAPS = NamedPart("naps", {}, {Fact.ALL_ANSWER: "lets clients sleep"})
NAPS_WITH_ADVICE = NamedPart("naps", {}, {Fact.ALL_ANSWER: "lets clients sleep: wake them"})


@pytest.mark.parametrize(
    ("needer", "breaker", "sentence"),
    [
        (ADDS, NAPS, "sum adds all updates, and naps lets clients sleep: drop the sum."),
        (ADDS, NAPS_WITH_ADVICE, "sum adds all updates, and naps lets clients sleep: wake them."),
        (ADDS_ONLY, NAPS, "sum adds all updates, and naps lets clients sleep: use only one of sum and naps."),
    ],
)
def test_a_conflict_is_a_sentence_of_both_parts_words(needer, breaker, sentence):
    assert conflict(needer, breaker) == sentence
    assert conflict(breaker, needer) == sentence


def test_parts_that_leave_each_other_alone_have_no_conflict():
    assert conflict(ADDS, NamedPart("other", {}, {Fact.GRAPHS: "has no graphs"})) is None
    assert conflict(NAPS, NAPS) is None


def test_a_part_is_named_after_its_class_unless_users_call_it_otherwise():
    assert NamedPart.of(Child()) == NamedPart("child", needed_facts(Child()), broken_facts(Child()))
    assert NamedPart.of(Child(), "some part").name == "some part"


# -- the vocabulary


def every_part() -> Iterator[NamedPart]:
    """Every part that comes with the library, and what a run adds to them: its task, its place, its weights."""
    yield from (built_in_methods() | built_in_parts()).values()
    yield NamedPart.of(fl.FedSeq(chains=[[0, 1], [2, 3]], encrypt=True))
    task = small_task()
    drifts = replace(task, federation=replace(task.federation, later=((2, task.federation),)))
    mixed = fl.task("digits", clients=2, models={"mlp": [0], "logistic": [1]})
    config = resolve({"weight_by": "steps", "start_from": "model", "eval_every": 1})
    for some in (drifts, mixed, overlapping_task()):
        yield from parts_of(config, fl.FedAvgM(), some, "compiled", deployed=True)


BUILT_IN = list(every_part())
NEEDED = {fact for part in BUILT_IN for fact in part.needs}
BROKEN = {fact for part in BUILT_IN for fact in part.breaks}
USE = re.compile(r"holds\(Fact\.(\w+)|Fact\.(\w+) in (?:needed_facts|part\.breaks)")


def used_facts() -> set[Fact]:
    """The facts that the sources ask for themselves."""
    sources = [path.read_text() for path in Path(fl.__file__).parent.rglob("*.py")]
    return {Fact[one or other] for source in sources for one, other in USE.findall(source)}


def test_every_fact_is_needed_or_asked_for():
    assert set(Fact) - NEEDED - used_facts() == set()


def test_what_somebody_needs_or_asks_for_can_be_broken():
    assert (NEEDED | used_facts()) - BROKEN == set()


@pytest.mark.parametrize("fact", Fact)
def test_a_fact_says_in_words_what_holds(fact):
    assert re.fullmatch(r"[a-z'].*[a-z]", fact.value)


TEXTS = sorted({text for part in BUILT_IN for text in (*part.needs.values(), *part.breaks.values())})


@pytest.mark.parametrize("text", TEXTS)
def test_every_reason_reads_as_a_clause_behind_the_name_of_its_part(text):
    clause, _, advice = text.partition(": ")
    assert re.match(r"(with \w+ )?[a-z]+s\b", clause), "the part is its subject: it begins with a verb"
    assert ": " not in advice
    assert not re.search(r"\.( |$)", text), "conflict ends the sentence"
    assert not text.endswith(",")
    assert not advice or advice[0].islower()


# -- promises of every kind of part

KINDS = (
    (METHODS, METHOD_PROMISES),
    (SELECTORS, SELECTOR_PROMISES),
    (AGGREGATORS, AGGREGATOR_PROMISES),
    (CHANNEL_STEPS, STEP_PROMISES),
    (ATTACKS, ATTACK_PROMISES),
)
OVERRIDES = [
    pytest.param(registry[name], promises, fact, function, id=f"{name}-{fact.name}-{function}")
    for registry, promises in KINDS
    for name in registry.builtin
    for fact, (functions, _) in promises.items()
    for function in sorted(functions)
]


@pytest.mark.parametrize(("kind", "promises", "fact", "function"), OVERRIDES)
def test_no_promise_of_any_part_outlives_an_override_and_its_author_can_make_it_again(kind, promises, fact, function):
    body = {function: getattr(kind, function, None)}
    overrides = type("Overrides", (kind,), body)
    again = type("Again", (kind,), {**body, "grants": (fact,)})
    assert fact in broken_facts(overrides(), promises)
    assert fact not in broken_facts(again(), promises)


def test_a_part_that_overrides_nothing_breaks_no_promise_of_its_base():
    assert not broken_facts(type("Idle", (fl.Adversary,), {})()).keys() & ATTACK_PROMISES.keys()
    assert holds(Fact.OWN_INFLUENCE, type("Idle", (fl.Aggregator,), {"__call__": fl.Mean.__call__})())


def test_a_stage_that_keeps_what_clients_trained_needs_whole_models_without_saying_so():
    keeps = type("Keeps", (fl.PredictionStage,), {"after_update": lambda *_: None})
    assert (needed_facts(keeps()).keys(), needed_facts(fl.PredictionStage())) == ({Fact.SAME_WEIGHTS}, {})


def test_what_a_class_states_of_a_function_ends_with_an_override_of_it():
    blind = {"__call__": lambda *_: fl.Choice([0]), "grants": (Fact.BLIND_DRAW,)}
    assert is_about(fl.Poisson(), "draws", "__call__")
    assert is_about(fl.Random(), "draws", "__call__"), "its base states what subclasses do"
    assert not is_about(type("Own", (fl.Poisson,), blind)(), "draws", "__call__")
    assert not is_about(type("Own", (fl.Random,), blind)(), "draws", "__call__")
    assert is_about(type("Own", (fl.Poisson,), {**blind, "draws": fl.Poisson.draws})(), "draws", "__call__")


def test_a_refusal_for_a_promise_that_ended_says_what_its_author_can_do():
    from fedloom.audits.updates_of_run import LookingServer

    class Nearer(LookingServer):
        def look_at_replies(self, wave, replies):
            return super().look_at_replies(wave, replies)

    sums = NamedPart("sums", {Fact.ONLY_SUMS: "lets only sums leave"}, {})
    said = conflict(sums, NamedPart.of(Nearer()))
    assert said is not None
    assert "nearer looks at single updates: state `grants = (fl.Fact.ONLY_SUMS,)` in Nearer" in said
    assert "whose look_at_replies is its own" in said
    assert "or leave out one of the two." in said
    assert conflict(sums, NamedPart.of(LookingServer())) is None
    again = type("Again", (Nearer,), {"grants": (Fact.ONLY_SUMS, Fact.SAME_START)})
    assert conflict(sums, NamedPart.of(again())) is None


def test_classes_of_the_library_are_not_asked_to_promise_anything():
    median = NamedPart.of(AGGREGATORS.make("median"))
    assert "grants" not in median.breaks[Fact.ONLY_SUMS]
