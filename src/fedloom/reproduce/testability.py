"""Claims are tested only where models have learnt: two methods that stay at chance say nothing of each other."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.reproduce.study import StudyFinding, ahead_finding, mean_text


def has_learnt(accuracies: Sequence[float], baseline: Sequence[float]) -> bool:
    """Whether accuracies are above those of answering without a model (Student's interval, paired over seeds).

    Args:
        accuracies: Those of the method, by seed.
        baseline: Those of the baseline.
    """
    return ahead_finding("", "", accuracies, baseline).holds is True


def claim_above(
    says: str,
    one: Sequence[float],
    other: Sequence[float],
    baseline: Sequence[float],
    other_baseline: Sequence[float] | None = None,
    by: float = 0.0,
) -> StudyFinding:
    """The finding that one method is above another, or why this is not testable here: neither has learnt.

    Args:
        says: The sentence.
        one: The accuracies of the method that should be above, by seed.
        other: Those of the other.
        baseline: What answering without a model scores.
        other_baseline: The same for the other method, where its clients have other data.
        by: How far it should be above, as a share.
    """
    ours = f"{mean_text(one)} and {mean_text(other)}"
    theirs = baseline if other_baseline is None else other_baseline
    if has_learnt(one, baseline) or has_learnt(other, theirs):
        return ahead_finding(says, ours, one, other, by)
    floors = mean_text(baseline) if other_baseline is None else f"{mean_text(baseline)} and {mean_text(theirs)}"
    return StudyFinding(
        says, f"not testable here: {ours}, and neither is told apart from its baseline ({floors}).", None
    )
