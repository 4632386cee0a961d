"""What a setting may be, declared once in the type of its field: ``mu: Annotated[float, Ge(0)] = 0.01``.

``check_settings`` holds a part against its declaration when it is made, ``check_values`` holds the values of a config
against it, and both say what is wrong in one sentence: ``fedprox: mu=-1: it must be at least 0.`` A part writes a check
by hand only for what no single setting can say, such as two that exclude each other. A number is finite and not a
boolean.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from inspect import get_annotations
from math import inf
from numbers import Integral, Real
from os import PathLike
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AllowInfNan

from fedloom.core.errors import FedloomError

Count = Annotated[int, Ge(1)]
WholeNumber = Annotated[int, Ge(0)]
Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
PositiveShare = Annotated[float, Gt(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]
OpenShare = Annotated[float, Gt(0), Lt(1)]

Problem = str | None
"""What a value must be, as a clause (``it must be at least 0``); None if it is that."""
Check = Callable[[Any], Problem]
BOUNDS: Mapping[type, tuple[str, str, Callable[[Any, Any], bool]]] = {
    Ge: ("ge", "at least", lambda value, bound: value >= bound),
    Gt: ("gt", "above", lambda value, bound: value > bound),
    Le: ("le", "at most", lambda value, bound: value <= bound),
    Lt: ("lt", "less than", lambda value, bound: value < bound),
}
"""The bounds of a number: the attribute that has the bound, its words, and what it accepts."""


@dataclass(frozen=True)
class SettingRule:
    """What one alternative of a type accepts.

    Args:
        what: The kind of its values, for instance ``a whole number``; empty for None.
        is_kind: Whether a value is of that kind.
        problem: What is wrong with a value of that kind.
    """

    what: str
    is_kind: Callable[[Any], bool]
    problem: Check = lambda _: None


Rules = tuple[SettingRule, ...]
"""The alternatives of a type; none if only the owner of the type can judge a value."""


def check_settings(part: Any, name: str | None = None) -> None:
    """Refuse a part with a setting that its declaration does not allow.

    Args:
        part: A dataclass, whose fields are its settings. Its author chose the defaults: they are not checked again.
        name: What a user calls the part; by default, the name of its class in lower case.
    """
    kind: type = type(part)
    rules = setting_rules(kind)
    for setting in fields(part):
        value = getattr(part, setting.name)
        if value is not setting.default and (problem := _problem(rules[setting.name], value)):
            raise FedloomError(f"{name or kind.__name__.lower()}: {setting.name}={_shown(value)}: {problem}.")


def check_value(name: str, value: Any, kind: Any) -> None:
    """Refuse an argument of a function that its declaration does not allow: ``check_value("rate", rate, Share)``."""
    if problem := _problem(_rules(kind), value):
        raise FedloomError(f"{name}={_shown(value)}: {problem}.")


def check_values(kind: Any, values: Any, where: str, path: str = "") -> None:
    """Refuse values of a config that the declaration of their part, or of a section of them, does not allow.

    Args:
        kind: A dataclass or a pydantic model; other types declare no settings.
        values: The plain values.
        where: What an error calls the values, for instance the path of their file.
        path: What the keys of a section begin with.
    """
    hints = setting_types(kind) if isinstance(kind, type) and isinstance(values, Mapping) else {}
    for key, value in values.items() if hints else ():
        if problem := _problem(_rules(hints.get(key, Any)), value):
            raise FedloomError(f"{path}{key}={_shown(value)} in {where}: {problem}.")
        for section in _alternatives(hints.get(key, Any)):
            check_values(section, value, where, f"{path}{key}.")


@cache
def setting_types(kind: type) -> Mapping[str, Any]:
    """The types of the settings of a dataclass or a pydantic model, by name; nothing for other types."""
    if hasattr(kind, "model_fields"):
        declared = kind.model_fields.items()
        return {
            name: Annotated[one.annotation, *one.metadata] if one.metadata else one.annotation for name, one in declared
        }
    return {one.name: _type_of(kind, one.name) for one in fields(kind)} if is_dataclass(kind) else {}


@cache
def setting_rules(kind: type) -> Mapping[str, Rules]:
    """What the settings of a dataclass or a pydantic model accept, by name."""
    return {name: _rules(hint) for name, hint in setting_types(kind).items()}


def _type_of(kind: type, name: str) -> Any:
    """The type of a field, in the words of the module that declares it."""
    owner, hint = next((base, own[name]) for base in kind.__mro__ if name in (own := get_annotations(base)))
    field, module = SimpleNamespace(__annotations__={name: hint}), sys.modules.get(owner.__module__)
    words = {} if module is None else vars(module)  # code that was only executed has no module
    try:
        return get_type_hints(field, words, dict(vars(owner)), include_extras=True)[name]
    except NameError:  # the type is imported for type checkers only: no config can have it
        return Any


def _alternatives(hint: Any) -> list[Any]:
    hint = hint.__origin__ if get_origin(hint) is Annotated else hint
    return list(get_args(hint)) if get_origin(hint) in (Union, UnionType) else [hint]


def _rules(hint: Any) -> Rules:
    bounds = hint.__metadata__ if get_origin(hint) is Annotated else ()
    if any(type(one) not in (*BOUNDS, MinLen, AllowInfNan) for one in bounds):
        return ()  # its own validator may accept other values as well
    rules = [_rule(one, bounds) if get_origin(one) is not Annotated else _rules(one) for one in _alternatives(hint)]
    return tuple(rule for some in rules for rule in some) if all(rules) else ()


def _rule(kind: Any, bounds: Sequence[Any]) -> Rules:
    origin, args = get_origin(kind), get_args(kind)
    if kind is NoneType:
        return (SettingRule("", lambda value: value is None),)
    if origin is Literal:
        return (SettingRule(_joined([repr(one) for one in args]), lambda value: _is_choice(value, args)),)
    if kind is bool:
        return (SettingRule("true or false", _is_boolean),)
    if kind is int:
        return (SettingRule("a whole number", lambda value: _is_number(value, Integral), _range_check(bounds)),)
    if kind is float:
        return (SettingRule("a number", _is_number, _range_check(bounds)),)
    if kind is str:
        return (SettingRule("a text", lambda value: isinstance(value, str | PathLike)),)
    if origin in (list, tuple, Sequence) and (len(args) == 1 or args[-1] is ...):
        return (SettingRule("a list", _is_list, _entries_check(args[0], bounds, lambda value: value)),)
    if origin in (dict, Mapping):
        check = _entries_check(args[1], bounds, lambda value: value.values())
        return (SettingRule("a table", lambda value: isinstance(value, Mapping), check),)
    return ()


def _problem(rules: Rules, value: Any) -> Problem:
    fitting = [rule for rule in rules if rule.is_kind(value)]
    if not fitting:
        return f"it must be {_joined([rule.what for rule in rules if rule.what])}" if rules else None
    problems = [rule.problem(value) for rule in fitting]
    return None if None in problems else problems[0]


def _is_number(value: Any, kind: type = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_choice(value: Any, choices: Iterable[Any]) -> bool:
    return any(type(value) is type(one) and value == one for one in choices)  # True is not the choice 1


def _range_check(declared: Sequence[Any]) -> Check:
    bounds = [(getattr(one, BOUNDS[type(one)][0]), *BOUNDS[type(one)][1:]) for one in declared if type(one) in BOUNDS]
    words = " and ".join(f"{word} {_grouped(bound)}" for bound, word, _ in bounds)
    may_be_infinite = any(type(one) is AllowInfNan for one in declared)

    def problem(value: Any) -> Problem:
        if not (may_be_infinite or -inf < value < inf):
            return "it must be a finite number"
        return None if all(accepts(value, bound) for bound, _, accepts in bounds) else f"it must be {words}"

    return problem


def _entries_check(hint: Any, bounds: Sequence[Any], entries: Callable[[Any], Iterable[Any]]) -> Check:
    rules, least = _rules(hint), max((one.min_length for one in bounds if type(one) is MinLen), default=0)

    def problem(value: Any) -> Problem:
        if len(value) < least:
            return f"it must have at least {least} {'entry' if least == 1 else 'entries'}"
        wrong = next((found for one in entries(value) if (found := _problem(rules, one))), None)
        return wrong and wrong.replace("it must", "each entry must")

    return problem


def _joined(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _grouped(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() else f"{bound:g}"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Real) else " ".join(repr(value).split())[:60]


def _is_boolean(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # not imported here: the command line's help needs none of it
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))
