"""An audit in the words of an impact assessment: who could learn what about whom, how likely, and what reduces it."""

from __future__ import annotations

from collections.abc import Iterator

from fedloom.audit.of_run.defences import CONFIGURED
from fedloom.audit.of_run.result import LEVELS, Audit, Finding, Protection
from fedloom.audit.of_run.words import cost_text, number_text, sentence

NOTHING = LEVELS[-1][1]
LIKELY = {
    "severe": "Likely: this succeeded without special effort.",
    "serious": "Possible: this succeeded for a good part of what was tried.",
    "some": "Possible in single cases.",
}


def paragraphs(audit: Audit) -> tuple[str, ...]:
    """The paragraphs for a data-protection officer.

    Args:
        audit: What was found.
    """
    parts = (_scope(audit), _learned(audit), _ruined(audit), _reduced(audit))
    return tuple(part for part in parts if part)


def _scope(audit: Audit) -> str:
    """What was assessed, and what protects it already."""
    cut = "" if audit.rounds_played == audit.rounds else f"the first {audit.rounds_played} of "
    rounds = f"{cut}{audit.rounds} round{'s' * (audit.rounds > 1)}"
    words = audit.protections[0].words
    own = f"The run is protected by {' and '.join(words)}." if words else ""
    if not any(word.startswith(("sums", "noise")) for word in words):
        own = f"{own} Nothing hides or blurs what clients send.".strip()
    return (
        f"What was assessed: {audit.clients} clients train a model together ({audit.method} on {audit.task}, {rounds}); "
        f"their data stay with them, and what they send was attacked in a simulation. {own}"
    )


def _learned(audit: Audit) -> str:
    """Who could learn what about whom."""
    found = [one for one in audit.of() if one.kind == "leak" and one.measured and one.unit != "epsilon"]
    told = list(_worst_of_each(found))
    if not found:
        return "Who could learn what: nothing was measured, for lack of time or because no attack applies."
    sentences = [f"{one.who} {one.what}: {sentence(one)}{_whose(one)}. {LIKELY[one.level]}" for one in told]
    silent = [one for one in found if one.level == NOTHING and one.who not in {other.who for other in told}]
    sentences += [f"{who} was found to learn little or nothing of single people." for who in dict.fromkeys(one.who.rstrip(",") for one in silent)]
    sentences += [f"The noise was held against canaries: {sentence(one)}." for one in audit.of() if one.unit == "epsilon" and one.measured]
    return f"Who could learn what about whom: {' '.join(sentences)}"


def _ruined(audit: Audit) -> str:
    """Who could ruin what."""
    found = [one for one in audit.of() if one.kind == "break" and one.measured]
    if not found:
        return ""
    told = [one for one in found if one.level != NOTHING][:3]
    sentences = [f"{one.who} {one.what}: {sentence(one)}." for one in told]
    if not told:
        sentences = ["hostile clients were found to change little or nothing of what the model answers."]
    return f"Who could make the model wrong: {' '.join(sentences)}"


def _reduced(audit: Audit) -> str:
    """What each defence changes, and what it costs."""
    before = next((one for one in audit.protections if one.name == CONFIGURED and one.score is not None), None)
    if before is None:
        return ""
    sentences = [_effect(audit, before, one) for one in audit.protections if one.score is not None and one is not before]
    if not sentences:
        return "What reduces it: no defence was measured."
    return f"What reduces it: {' '.join(sentences)}"


def _effect(audit: Audit, before: Protection, after: Protection) -> str:
    """What one defence changes of the worst leak and the worst ruin."""
    changes = []
    for kind, what in (("leak", "the worst leak"), ("break", "the worst damage")):
        worst = next((one for one in audit.of() if one.kind == kind and one.measured and one.unit != "epsilon"), None)
        now = None if worst is None else audit.find(worst.probe, after.name)
        if worst is not None and worst.level != NOTHING and now is not None and now.measured:
            changes.append(f"{what} ({worst.probe}) goes from {number_text(worst)} to {number_text(now)}")
    assert before.score is not None and after.score is not None
    cost = f"the model scores {cost_text(audit, before.score, after.score)}"
    name = f"{' and '.join(after.words)} ({after.name})" if after.words else after.name
    return f"With {name}, {', '.join([*changes, cost])}."


def _worst_of_each(found: list[Finding]) -> Iterator[Finding]:
    """The worst finding of each attacker, of those that are more than nothing."""
    seen = set[str]()
    for one in found:
        if one.level != NOTHING and one.who not in seen:
            seen.add(one.who)
            yield one


def _whose(one: Finding) -> str:
    """Whether the attacker knows whose samples it has."""
    return ", and it cannot say whose they are" if one.note.startswith("of the sum") else ""
