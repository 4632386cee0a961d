"""An audit in the words of an impact assessment: who could learn what about whom, how likely, and what reduces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from fedloom.audits.of_run.page.words import brief, change_text, cost_text, learning_warning, sentence, verdict_text
from fedloom.audits.of_run.play.defences import CONFIGURED
from fedloom.audits.of_run.probes.all_probes import FIFTH
from fedloom.audits.of_run.result import LEVELS, Audit, Finding, Paragraph, ProtectedRun

NOTHING = LEVELS[-1][1]
LIKELY = {
    "severe": "Likely: this succeeded without special effort.",
    "serious": "Possible: this succeeded for a part of what was tried.",
    "some": "Possible in single cases.",
}
WORST = {
    "severe": "The worst that was found is severe.",
    "serious": "The worst that was found is serious.",
    "some": "Something was found, and nothing of it is serious.",
}
HIDES = ("sums", "noise")
"""How the protections begin that act on what clients send."""


def paragraphs(audit: Audit) -> tuple[Paragraph, ...]:
    """The paragraphs for a data-protection officer.

    Args:
        audit: What was found.
    """
    parts = {
        "What was assessed": _scope(audit),
        "Who could learn what about whom, and how likely": list(_leaks(audit)),
        "Who could make the model wrong": list(_breaks(audit)),
        "What reduces it": list(_remedies(audit)),
    }
    return tuple(Paragraph(about, tuple(sentences)) for about, sentences in parts.items() if sentences)


def _scope(audit: Audit) -> list[str]:
    """What was assessed, and what protects it already."""
    cut = "" if audit.rounds_played == audit.rounds else f"the first {audit.rounds_played} of "
    rounds = f"{cut}{audit.rounds} round{'s' * (audit.rounds > 1)}"
    words = audit.protections[0].words
    own = [f"The run is protected by {' and '.join(words)}."] if words else []
    if not any(word.startswith(HIDES) for word in words):
        own.append("Nothing hides or blurs what clients send.")
    if cut:
        own.append("A model is attacked as it is after these rounds: later rounds may leak and break more.")
    found = [
        f"{audit.clients} clients train a model together ({audit.method} on {audit.task}, {rounds}). Their data stay "
        f"with them; what they send, and the model, were attacked in a simulation. {' '.join(own)}"
    ]
    if {one.seeds for one in audit.findings if one.measured} == {1}:
        found.append("Each attack was played once (one seed): played again, its numbers would differ somewhat.")
    return [*found, *filter(None, [learning_warning(audit)])]


def _leaks(audit: Audit) -> Iterator[str]:
    """Who could learn what about whom."""
    found = [one for one in audit.of() if one.kind == "leak" and one.measured]
    learned = [one for one in found if one.unit != "epsilon"]
    if not learned:
        yield "Nothing was measured: no attack applies, or there was no time. That does not say that nothing leaks."
        return
    told = list(_worst_of_each(learned))
    silent = {one.who for one in learned} - {one.who for one in told}
    levels = sorted({one.level for one in told}, key=list(LIKELY).index)
    yield WORST[levels[0]] if levels else "Little or nothing was found of single people."
    for one in told:
        yield f"{one.who} {one.what}: {sentence(one)}{_whose(one)}. {LIKELY[one.level]}"
    for who in sorted(silent) if told else ():
        yield f"{who} was found to learn little or nothing of single people."
    for one in found:
        if one.unit == "epsilon":
            yield f"The noise was held against canaries: {sentence(one)}."


def _breaks(audit: Audit) -> Iterator[str]:
    """Who could ruin what."""
    found = [one for one in audit.of() if one.kind == "break" and one.measured]
    told = [one for one in found if one.level != NOTHING][:3]
    if found:
        yield WORST[told[0].level] if told else "Hostile clients changed little or nothing."
    for one in told:
        yield f"{one.who} {one.what}: {sentence(one)}."
    if any(one.who == FIFTH for one in told):
        yield f"A fifth of the clients, rounded up, is {ceil(audit.clients / 5)} of {audit.clients} here."


def _remedies(audit: Audit) -> Iterator[str]:
    """What each defence changes, and what it costs."""
    played = [one for one in audit.protections if one.score is not None]
    if not played or played[0].name != CONFIGURED:
        return
    others = played[1:]
    if not others:
        yield "No defence was measured."
        return
    yield (
        "Each of these was set in the run, one at a time. The worst is taken over the attacks that were played both "
        "with and without it; with it, another attack may be the worst."
    )
    for one in others:
        yield _effect(audit, played[0], one)


def _effect(audit: Audit, before: ProtectedRun, after: ProtectedRun) -> str:
    """What one defence changes of the worst leak and the worst damage, and what it costs."""
    changes, none_played = [], True
    for kind, what in (("leak", "the worst leak"), ("break", "the worst damage")):
        both = [(one, audit.find(one.probe, after.name)) for one in audit.of() if one.kind == kind and one.measured]
        compared = [(one, now) for one, now in both if now is not None and now.measured and one.unit != "epsilon"]
        if compared:
            old, new = (_worst([pair[place] for pair in compared]) for place in (0, 1))
            if (old.level, new.level) != (NOTHING, NOTHING):
                changes.append(f"{what} {_change(old, new)}")
        none_played = none_played and not compared
    if none_played:
        changes.append("there was no time for an attack, or none applies")
    if before.score is not None and after.score is not None:
        changes.append(verdict_text(audit, cost_text(audit, before.score, after.score)))
    name = f"{' and '.join(after.words)} ({after.name})" if after.words else after.name
    gone = [word for word in before.words if word not in after.words]
    instead = f", instead of {' and '.join(gone)}" if gone else ""
    return f"With {name}{instead}: {', '.join(changes)}."


def _worst(some: Sequence[Finding]) -> Finding:
    """The worst of some findings; what guessing would get is not bad."""
    return max(some, key=lambda one: (one.level != NOTHING, one.badness, one.number.value))


def _change(before: Finding, after: Finding) -> str:
    """The worst without a defence and with it, each by the attack that it is of."""
    if before.probe == after.probe and NOTHING not in (before.level, after.level):
        return f"{change_text(before, after)} ({after.probe})"
    old, new = (f"{brief(one)} ({one.probe})" if one.level != NOTHING else NOTHING for one in (before, after))
    return f"stays at {new}" if old == new else f"goes from {old} to {new}"


def _worst_of_each(found: Sequence[Finding]) -> Iterator[Finding]:
    """The worst finding of each attacker of each kind, of those that are more than nothing."""
    seen = set[tuple[str, str]]()
    for one in found:
        if one.level != NOTHING and (one.who, one.words) not in seen:
            seen.add((one.who, one.words))
            yield one


def _whose(one: Finding) -> str:
    """Whether the attacker knows whose samples it has."""
    return ", and it cannot say whose they are" if one.note.startswith("of the sum") else ""
