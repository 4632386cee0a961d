"""The numbers of an audit as people read them."""

from __future__ import annotations

from fedloom.audits.of_run.result import Audit, Finding, Number

APPLIES_NOT, NO_TIME, BROKE = "does not apply", "no time", "broke"


def number_text(one: Finding, number: Number | None = None) -> str:
    """The number that a finding is read by, with its spread over seeds or its interval.

    Args:
        number: Another number of it.
    """
    found = one.number if number is None else number
    if one.unit == "share":
        shown = f"{100 * found.value:.1f}{_spread(found, 100, 1)} %".replace("-", "−")
        return (
            shown
            if found.least is None or found.most is None
            else f"{shown} ({100 * found.least:.0f}–{100 * found.most:.0f})"
        )
    if one.unit == "epsilon":
        return f"≥ {found.value:.2g}{_spread(found, 1, 2)}"
    shown = f"{found.value:.2f}{_spread(found, 1, 2)}"
    return shown if found.least is None or found.most is None else f"{shown} ({found.least:.2f}–{found.most:.2f})"


def _spread(found: Number, scale: float, digits: int) -> str:
    return "" if found.std is None else f" ± {scale * found.std:.{digits}f}"


def short(one: Finding, number: Number | None = None) -> str:
    """The number that a finding is read by, without its spread; what is below nothing is nothing.

    Args:
        number: Another number of it.
    """
    value = max((one.number if number is None else number).value, 0.0)
    return f"{100 * value:.{1 if abs(value) < 0.1 else 0}f} %" if one.unit == "share" else f"{value:.2f}"


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
        return f"{100 * number.value:.1f}{_spread(number, 100, 1)} %"
    return f"{number.value:.4g}{_spread(number, 1, 3)}"


def cost_text(audit: Audit, before: Number, after: Number) -> str:
    """What a defence costs in score; empty for nothing that is shown.

    Args:
        audit: Whose score it is.
        before: The score without it.
        after: The score with it.
    """
    gap = after.value - before.value
    shown = f"{100 * gap:+.1f} points" if audit.score_is_share else f"{gap:+.3g}"
    return "" if float(shown.partition(" ")[0]) == 0 else shown.replace("-", "−")


def state_text(one: Finding) -> str:
    """Why a finding has no number, in a few words."""
    return {"no time": NO_TIME, "refused": APPLIES_NOT}.get(one.status, BROKE)


def bytes_text(megabytes: float) -> str:
    """An amount of data.

    Args:
        megabytes: How much.
    """
    return f"{megabytes:,.2f} MB" if megabytes < 10 else f"{megabytes:,.0f} MB"
