"""The numbers of an audit as people read them."""

from __future__ import annotations

from fedloom.audits.of_run.conclude import ADDED
from fedloom.audits.of_run.result import Audit, Finding, Number

ONE_SEED = " (one seed)"
"""What is said of a number that has neither a spread over seeds nor an interval."""
BRIEF = {
    "rebuilt": "of samples rebuilt",
    "named": "of a list of words read",
    "classes": "of classes shown",
    "gained": "of marked images answered as the attacker wants",
    "lost": "of the score lost",
}
"""What a share is of, where a sentence has many of them."""
APPLIES_NOT, NO_TIME, BROKE = "does not apply", "no time", "broke"


def number_text(one: Finding, number: Number | None = None) -> str:
    """The number that a finding is read by, with its spread over seeds or its interval.

    Args:
        number: Another number of it.
    """
    found = one.number if number is None else number
    if one.unit == "share":
        shown = f"{100 * found.value:.1f}{_spread(found, 100, 1)} %".replace("-", "−")
        return f"{shown}{_interval(found, 100, 0)}"
    if one.unit == "epsilon":
        return f"≥ {found.value:.2g}{_spread(found, 1, 2)}{_interval(found, 1, 2)}"
    return f"{found.value:.2f}{_spread(found, 1, 2)}{_interval(found, 1, 2)}"


def _spread(found: Number, scale: float, digits: int) -> str:
    return "" if found.std is None else f" ± {scale * found.std:.{digits}f}"


def _interval(found: Number, scale: float, digits: int) -> str:
    """The interval of one seed; without one, that it is one. A lower bound (epsilon) is an end of its interval."""
    if found.std is not None or (found.least is not None and found.most is None):
        return ""
    if found.least is None or found.most is None:
        return ONE_SEED
    return f" ({scale * found.least:.{digits}f}–{scale * found.most:.{digits}f})"


def short(one: Finding, number: Number | None = None) -> str:
    """The number that a finding is read by, without its spread; what is below nothing is nothing.

    Args:
        number: Another number of it.
    """
    value = max((one.number if number is None else number).value, 0.0)
    return f"{100 * value:.{1 if abs(value) < 0.1 else 0}f} %" if one.unit == "share" else f"{value:.2f}"


def brief(one: Finding) -> str:
    """The number that makes a finding bad, with what it says, as part of a sentence."""
    return " ".join(filter(None, _parts(one)))


def change_text(before: Finding, after: Finding) -> str:
    """How the number of an attack changes, as part of a sentence; what it says is said once if it stays the same.

    Args:
        before: What it got without a defence.
        after: What it got with it.
    """
    old, new = _parts(before), _parts(after)
    if old == new:
        return f"stays at {brief(after)}"
    return f"goes from {old[0] if old[1] == new[1] else brief(before)} to {brief(after)}"


def _parts(one: Finding) -> tuple[str, str]:
    """The number that makes a finding bad, and what it says."""
    number = worst_number(one)
    if one.unit == "auc":
        return f"{100 * number.value:.0f} of 100", "pairs told apart, where guessing does 50"
    if number is not one.number:
        return short(one, number), BRIEF["lost"]
    says = one.words.removeprefix("is ") if one.words == ADDED else BRIEF.get(one.measure, "")
    return short(one, number), says


def worst_number(one: Finding) -> Number:
    """The number that makes a finding bad: of a backdoor that ruins the model what is lost, not how often it works."""
    lost = one.numbers.get("lost", one.number)
    return lost if lost.value > one.number.value else one.number


def sentence(one: Finding) -> str:
    """A finding as a clause for somebody who knows no measure."""
    value = one.number.value
    if one.unit == "auc":
        return (
            f"of two samples, one of which was trained on, this one is named in {100 * value:.0f} of 100 cases; a "
            "guess does in 50"
        )
    if one.unit == "epsilon":
        stated = one.numbers["stated"].value
        held = "which is within what is stated" if value <= stated else "MORE THAN IS STATED"
        return f"trials show an epsilon of at least {value:.2g}, {held} ({stated:.2g})"
    if worst_number(one) is not one.number:
        return f"{short(one)} {one.words}, and {short(one, worst_number(one))} of the score is lost"
    usual = one.numbers.get("usual")
    beside = "" if usual is None else f"; of as long a list of what is usual {100 * usual.value:.0f} %"
    return f"{short(one)} {one.words}{beside}"


def score_text(audit: Audit, number: Number) -> str:
    """A score, with its spread over seeds.

    Args:
        audit: Whose score it is.
        number: The score.
    """
    if audit.score_is_share:
        return f"{100 * number.value:.1f}{_spread(number, 100, 1)} %{_interval(number, 100, 0)}"
    return f"{number.value:.4g}{_spread(number, 1, 3)}{_interval(number, 1, 2)}"


def cost_text(audit: Audit, before: Number, after: Number) -> str:
    """What a defence costs in score; empty for nothing that is shown.

    Args:
        audit: Whose score it is.
        before: The score without it.
        after: The score with it.
    """
    gap = after.value - before.value
    if f"{before.value:.4g}" == f"{after.value:.4g}":  # as scores are shown
        return ""
    shown = f"{100 * gap:+.1f} points" if audit.score_is_share else f"{gap:+.3g}"
    return "" if float(shown.partition(" ")[0]) == 0 else shown.replace("-", "−")


def verdict_text(audit: Audit, cost: str) -> str:
    """A change of score as a clause: of an error, which sign is the better one is said.

    Args:
        audit: Whose score it is.
        cost: The change, as ``cost_text`` has it.
    """
    if not cost:
        return f"{audit.score_name} does not change"
    better = "" if audit.higher_is_better else " (an error: less is better)"
    return f"the model's {audit.score_name}{better} changes by {cost}"


def state_text(one: Finding) -> str:
    """Why a finding has no number, in a few words."""
    return {"no time": NO_TIME, "refused": APPLIES_NOT}.get(one.status, BROKE)


def bytes_text(megabytes: float) -> str:
    """An amount of data.

    Args:
        megabytes: How much.
    """
    return f"{megabytes:,.2f} MB" if megabytes < 10 else f"{megabytes:,.0f} MB"


def learning_warning(audit: Audit) -> str:
    """That the model has learnt next to nothing, so that little follows from its scores; empty if it has learnt."""
    plain = audit.plain
    if plain is None or plain.score is None or plain.guess is None or not audit.has_learnt_little:
        return ""
    score, guess = (
        f"{100 * one.value:.0f} %" if audit.score_is_share else f"{one.value:.3g}" for one in (plain.score, plain.guess)
    )
    return (
        f"The model's {audit.score_name} is {score}, and that of an answer that learns nothing is {guess}: it has "
        "learnt next to nothing here, so that what attacks ruin and what defences cost says little. Audit more rounds."
    )
