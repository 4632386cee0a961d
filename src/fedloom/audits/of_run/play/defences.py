"""The defences that an audit holds attacks against: settings of the run, as ``--set`` takes them.

Without any named, there are three: a rule that withstands hostile clients, sums that hide single clients, and noise.
Of each the first that the run allows is taken.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from fedloom.audits.of_run.play.subject import Subject
from fedloom.config.resolve import override
from fedloom.core.arguments import argument_error, list_from
from fedloom.core.errors import FedloomError
from fedloom.runs.prepare import Prepared

CONFIGURED = "as configured"
USUAL: Mapping[str, tuple[str, ...]] = {
    "a rule that withstands some hostile clients": (
        "aggregation=trimmedmean:share=0.2",
        "aggregation=median",
        "aggregation=normbounding",
    ),
    "sums that hide what single clients send": ("channel=securesum",),
    "noise in what clients send": ("sample_privacy.noise=1.0", "channel=localnoise:noise=1.0"),
}
NOT_DEFENCES = ("task", "rounds", "seed", "adversary", "eval_every")


@dataclass(frozen=True)
class RunVariant:
    """The run as configured, or with a defence.

    Args:
        name: The defence, as it was named.
        values: The values that trials use; None for one that the run refuses.
        refused: Why.
        protects: What it protects with, in words.
    """

    name: str
    values: Mapping[str, Any] | None
    refused: str = ""
    protects: tuple[str, ...] = ()


def make_settings(subject: Subject, named: Sequence[str] | None) -> list[RunVariant]:
    """The run as configured, then with each defence.

    Args:
        named: The defences; None for the usual ones.
    """
    found = [_setting(subject, CONFIGURED, subject.values)]
    if named is None:
        has = found[0].protects
        return found + [_first_possible(subject, role, some, has) for role, some in USUAL.items()]
    given = list_from("defences", named, '"aggregation=median"')
    wrong = [one for one in given if not isinstance(one, str)]
    if wrong:
        raise argument_error("defences", wrong[0], 'give each as text, for instance "aggregation=median"')
    for text in dict.fromkeys(given):
        try:
            found.append(_setting(subject, text, _values_with(subject.values, text)))
        except FedloomError as reason:
            raise FedloomError(f"defence {text}: {reason}") from None
    return found


def _first_possible(subject: Subject, role: str, some: Sequence[str], has: Collection[str]) -> RunVariant:
    """The run with the first of some defences that it allows, if it has none of the kind."""
    if role in has:
        return RunVariant(role, None, "the run has it already.")
    reasons = list[str]()
    for text in some:
        try:
            found = _setting(subject, text, _values_with(subject.values, text))
        except FedloomError as reason:
            reasons.append(str(reason))
            continue
        if set(found.protects).difference(has):
            return found
        reasons.append("nothing is sent in this run that it acts on.")
    return RunVariant(role, None, reasons[0])


def _setting(subject: Subject, name: str, values: Mapping[str, Any]) -> RunVariant:
    made, prepared = subject.settings(values)
    return RunVariant(name, made, protects=protection_words(prepared))


def protection_words(prepared: Prepared) -> tuple[str, ...]:
    """What a run protects its clients and its model with, in words."""
    run, config = prepared.composition, prepared.config
    words = {
        "sums that hide what single clients send": run.sums is not None,
        "noise in what clients send": config.clients_add_noise,
    }
    rules = [rule.protects for rule in config.aggregation.members]
    return tuple(dict.fromkeys([*(word for word, there in words.items() if there), *filter(None, rules)]))


def _values_with(values: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The values with the settings of a defence."""
    try:
        parts = shlex.split(text)
    except ValueError:
        parts = []
    keys = [part.partition("=")[0].partition(".")[0].strip() for part in parts if "=" in part]
    if not parts or len(keys) < len(parts):
        raise FedloomError("write it as --set takes it, for instance aggregation=trimmedmean:share=0.2.")
    wrong = [key for key in keys if key in NOT_DEFENCES]
    if wrong:
        raise FedloomError(f"{wrong[0]} is no defence: with another one it would be another run.")
    return override(deepcopy(dict(values)), parts)
