"""Declared settings: one check, one sentence, whether a part is made in Python or from a config."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Ge, Le, MinLen
from pydantic import AllowInfNan

from fedloom.config.resolve import resolve
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.settings import Count, Positive, PositiveShare, Share, check_settings, check_value, setting_rules
from fedloom.registry.kinds import METHODS, PARTS
from fedloom.registry.validation import validate

if TYPE_CHECKING:
    from decimal import Decimal


@dataclass(frozen=True)
class Tried:
    """A part with a setting of every kind."""

    share: Share = 0.5
    rate: PositiveShare | None = None
    bits: Annotated[int, Ge(1), Le(8)] = 4
    way: Literal["up", "down"] = "up"
    option: Literal[1, 2] = 1
    seeded: bool = False
    part: str | None = None
    most: Annotated[float, Ge(0), AllowInfNan()] | Literal["auto"] = "auto"
    sizes: Annotated[tuple[Count, ...], MinLen(1)] | None = None
    weights: dict[str, Positive] | None = None
    anything: Any = None
    python: Decimal | None = None

    def __post_init__(self) -> None:
        check_settings(self)


WRONG: list[tuple[str, Any, str]] = [
    ("share", 1.5, "share=1.5{}: it must be at least 0 and at most 1."),
    ("share", "x", "share='x'{}: it must be a number."),
    ("share", "0.5", "share='0.5'{}: it must be a number."),
    ("share", True, "share=True{}: it must be a number."),
    ("share", None, "share=None{}: it must be a number."),
    ("share", math.nan, "share=nan{}: it must be a finite number."),
    ("rate", math.inf, "rate=inf{}: it must be a finite number."),
    ("rate", 0, "rate=0{}: it must be above 0 and at most 1."),
    ("bits", 9, "bits=9{}: it must be at least 1 and at most 8."),
    ("bits", 2.0, "bits=2.0{}: it must be a whole number."),
    ("bits", False, "bits=False{}: it must be a whole number."),
    ("way", "left", "way='left'{}: it must be 'up' or 'down'."),
    ("option", True, "option=True{}: it must be 1 or 2."),
    ("seeded", 1, "seeded=1{}: it must be true or false."),
    ("part", 3, "part=3{}: it must be a text."),
    ("most", -1, "most=-1{}: it must be at least 0."),
    ("most", math.nan, "most=nan{}: it must be at least 0."),
    ("most", "some", "most='some'{}: it must be a number or 'auto'."),
    ("sizes", (), "sizes=(){}: it must have at least 1 entry."),
    ("sizes", (3, 0), "sizes=(3, 0){}: each entry must be at least 1."),
    ("sizes", "33", "sizes='33'{}: it must be a list."),
    ("weights", {"a": 0}, "weights={{'a': 0}}{}: each entry must be above 0."),
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
def test_a_wrong_value_is_the_same_sentence_in_python_and_from_a_config(name, value, sentence):
    with pytest.raises(FedloomError) as caught:
        Tried(**{name: value})
    assert str(caught.value) == "tried: " + sentence.format("")
    with pytest.raises(FedloomError) as caught:
        validate(Tried, {name: value}, "part tried")
    assert str(caught.value) == sentence.format(" in part tried")


@pytest.mark.parametrize(
    "settings",
    [
        {"share": 0, "rate": 1, "bits": 8},
        {"share": np.float32(0.5), "bits": np.int64(3), "seeded": np.True_},
        {"most": math.inf, "sizes": [1, 2], "weights": {"a": 0.1}},
        {"most": "auto", "rate": None, "anything": object(), "python": "not checked"},
    ],
)
def test_what_is_declared_is_accepted(settings):
    assert Tried(**settings) == Tried(**settings)


def test_a_section_is_named_by_its_path():
    with pytest.raises(FedloomError, match=r"^local\.lr=0 in run\.toml: it must be above 0\.$"):
        resolve({"local": {"lr": 0}}, "run.toml")
    with pytest.raises(FedloomError, match=r"^local: lr=0: it must be above 0\.$"):
        LocalWork(lr=0)


def test_an_argument_of_a_function_can_be_checked_too():
    check_value("share", 0.5, Share)
    with pytest.raises(FedloomError, match=r"^share=2: it must be at least 0 and at most 1\.$"):
        check_value("share", 2, Share)


def test_a_users_own_method_is_checked_and_a_default_is_its_authors_decision():
    @dataclass(frozen=True)
    class Mine(Algorithm):
        mu: Annotated[float, Ge(0)] = None  # type: ignore[assignment]

    assert Mine().mu is None
    with pytest.raises(FedloomError, match=r"^mine: mu=-1: it must be at least 0\.$"):
        Mine(mu=-1)


PART_KINDS = [*METHODS.values(), *(kind for parts in PARTS for kind in parts.values()), LocalWork]


@pytest.mark.parametrize("kind", PART_KINDS, ids=lambda kind: kind.__name__)
def test_every_setting_of_every_part_declares_what_it_accepts_and_its_default_is_that(kind):
    rules = setting_rules(kind)
    for setting in fields(kind):
        if setting.name == "inner":  # FedSeq's method, which the registry judges
            continue
        assert rules[setting.name], f"{setting.name}: {setting.type}"
        if setting.default is not MISSING:
            assert any(
                rule.is_kind(setting.default) and not rule.problem(setting.default) for rule in rules[setting.name]
            ), setting.name


def test_a_class_of_code_that_was_only_executed_is_checked_too():
    names = {"__name__": "no_such_module"}
    lines = ("from dataclasses import dataclass", "import fedloom as fl", "@dataclass(frozen=True)")
    code = "\n".join([*lines, "class Mine(fl.FedAvg):", "    mu: float = 0.1"])
    exec(compile(code, "a cell", "exec", dont_inherit=True), names)  # noqa: S102
    with pytest.raises(FedloomError, match="mine: mu='x': it must be a number"):
        names["Mine"](mu="x")
