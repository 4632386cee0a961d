"""What the document claims of label flipping, held against our runs.

All claims are about accuracies; a claim about an attack ("fixed is more effective than random") says whose accuracy is
above. Where a corpus cannot show a claim, the finding says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fedloom.reproduce.fedseq_flipping_runs import (
    BASELINE,
    DEFENCES,
    DEFENDED,
    EXTRA,
    FEDAVG,
    FEDSEQ,
    FIXED,
    FOUR,
    INTRA,
    MEAN,
    METHODS,
    RANDOM,
    SHARES,
    SWAPS,
    Cell,
    Results,
    Swap,
    global_of,
    swapped_of,
    unattacked,
)
from fedloom.reproduce.study import StudyFinding, ahead_finding, gaps_of, mean_text
from fedloom.reproduce.testability import claim_above

Measure = Callable[..., list[float]]
MEASURES: tuple[tuple[str, Measure], ...] = (("global", global_of), ("swapped", swapped_of))


def flipping_findings(results: Results, data: str) -> list[StudyFinding]:
    """All claims of tables 5.7 and 5.8, and controls.

    Args:
        data: The corpus.
    """
    claims = (_swapped_below_global, _more_classes, _fixed_below_random, _extra_below_intra, _fedseq_above_fedavg)
    found = [finding for claim in claims for finding in claim(results, data)]
    return [*found, *_gap_thins(results, data), *_rules_help(results, data)]


def floor_of(results: Results, measure: str, *swaps: Swap) -> list[float]:
    """What always answering one class scores, by seed.

    Args:
        measure: ``global`` or ``swapped``.
        swaps: Whose classes count.
    """
    return global_of(results, BASELINE) if measure == "global" else unattacked(results, BASELINE, *swaps)


def attacked(method: str, *swaps: Swap) -> list[Cell]:
    """The cells of some swaps with every L.

    Args:
        method: Whose.
        swaps: What is swapped.
    """
    return [Cell(method, share, swap) for swap in swaps for share in SHARES]


def _swap(data: str, name: str, pairing: str) -> Swap:
    return next(swap for swap in SWAPS[data] if (swap.name, swap.pairing) == (name, pairing))


def _swapped_below_global(results: Results, data: str) -> Iterator[StudyFinding]:
    """The claim, and whether the attack or the difficulty of its classes makes it."""
    for method in METHODS:
        for swap in SWAPS[data]:
            some, plain = attacked(method, swap), Cell(method)
            whole, part = global_of(results, *some), swapped_of(results, *some)
            floor = floor_of(results, "global")
            says = f"{method}, {swap.label}: swapped accuracy is below global."
            yield claim_above(says, whole, part, floor, floor_of(results, "swapped", swap))
            lost = gaps_of(unattacked(results, plain, swap), part)
            usual = gaps_of(global_of(results, plain), whole)
            says = f"Control, {method}, {swap.label}: swapped classes lose more than all classes."
            yield ahead_finding(says, f"{mean_text(lost)} and {mean_text(usual)} points", lost, usual)


def _more_classes(results: Results, data: str) -> Iterator[StudyFinding]:
    says = "the more classes are swapped, the lower is the global accuracy"
    if data != "cifar10":
        yield StudyFinding(f"{says.capitalize()}.", "not testable here: all lists have twenty classes.", None)
        return
    floor, four = floor_of(results, "global"), _swap(data, FOUR, FIXED)
    for method in METHODS:
        for swap in SWAPS[data][:2]:
            words = f"{method}: {says} ({swap.name} alone is above {FOUR}, fixed)."
            few, many = (global_of(results, *attacked(method, one)) for one in (swap, four))
            yield claim_above(words, few, many, floor)


def _fixed_below_random(results: Results, data: str) -> Iterator[StudyFinding]:
    names = [swap.name for swap in SWAPS[data] if swap.pairing == RANDOM]
    for measure, of in MEASURES:
        fixed, random = ([_swap(data, name, pairing) for name in names] for pairing in (FIXED, RANDOM))
        floor = floor_of(results, measure, *fixed)
        one, other = ([cell for m in METHODS for cell in attacked(m, *swaps)] for swaps in (random, fixed))
        says = f"On average, fixed is more effective than random ({measure} accuracy: random is above)."
        yield claim_above(says, of(results, *one), of(results, *other), floor)
        for method in METHODS:
            for name in names:
                own, same = (of(results, *attacked(method, _swap(data, name, how))) for how in (RANDOM, FIXED))
                says = f"{method}, {name}: fixed is more effective than random ({measure} accuracy: random is above)."
                floor = floor_of(results, measure, _swap(data, name, FIXED))
                yield claim_above(says, own, same, floor)


def _extra_below_intra(results: Results, data: str) -> Iterator[StudyFinding]:
    says = "extra_SC is more effective than intra_SC"
    if data != "cifar100":
        yield StudyFinding(f"{says}.", f"not testable here: {data} has no superclasses.", None)
        return
    for measure, of in MEASURES:
        for method in METHODS:
            for pairing in (FIXED, RANDOM):
                intra, extra = (_swap(data, name, pairing) for name in (INTRA, EXTRA))
                yield claim_above(
                    f"{method}, {pairing}: {says} ({measure} accuracy: intra_SC is above).",
                    of(results, *attacked(method, intra)),
                    of(results, *attacked(method, extra)),
                    floor_of(results, measure, intra),
                    floor_of(results, measure, extra),
                )
    for method in METHODS:
        extra_lost, intra_lost = (
            gaps_of(
                unattacked(results, Cell(method), _swap(data, name, FIXED)),
                swapped_of(results, *attacked(method, *(_swap(data, name, pairing) for pairing in (FIXED, RANDOM)))),
            )
            for name in (EXTRA, INTRA)
        )
        words = f"Control, {method}: classes of extra_SC lose more of their accuracy without an attack than intra_SC's."
        ours = f"{mean_text(extra_lost)} and {mean_text(intra_lost)} points"
        yield ahead_finding(words, ours, extra_lost, intra_lost)


def _fedseq_above_fedavg(results: Results, data: str) -> Iterator[StudyFinding]:
    swaps = SWAPS[data]
    floor = floor_of(results, "global")
    one, other = (global_of(results, Cell(method)) for method in (FEDSEQ, FEDAVG))
    yield claim_above("L = 0: FedSeq is above FedAvg (global accuracy).", one, other, floor)
    for share in SHARES:
        for measure, of in MEASURES:
            one, other = (of(results, *_with_share(method, share, swaps)) for method in (FEDSEQ, FEDAVG))
            says = f"L = {share:g}: FedSeq is above FedAvg ({measure} accuracy)."
            yield claim_above(says, one, other, floor_of(results, measure, *swaps))


def _with_share(method: str, share: float, swaps: Sequence[Swap]) -> list[Cell]:
    """The cells of a method with one L; where nobody is hostile there is one."""
    return [Cell(method, share, swap) for swap in swaps] if share else [Cell(method)]


def _gap_thins(results: Results, data: str) -> Iterator[StudyFinding]:
    swaps = SWAPS[data]

    def gap(share: float, of: Measure) -> list[float]:
        one, other = (of(results, *_with_share(method, share, swaps)) for method in (FEDSEQ, FEDAVG))
        return gaps_of(one, other)

    pairs = [(0.0, 0.1, global_of), (0.1, 0.3, global_of), (0.3, 0.5, global_of), (0.0, 0.5, global_of)]
    for less, more, of in [*pairs, (0.1, 0.5, swapped_of)]:
        wide, thin = gap(less, of), gap(more, of)
        measure = "global" if of is global_of else "swapped"
        says = f"The gap of FedSeq thins with L ({measure} accuracy): it is wider at {less:g} than at {more:g}."
        yield ahead_finding(says, f"{mean_text(wide)} and {mean_text(thin)} points", wide, thin)


def _rules_help(results: Results, data: str) -> Iterator[StudyFinding]:
    """Not the document's: whether a robust rule saves the swapped classes, where it can be had."""
    swap = DEFENDED[data]
    floor = floor_of(results, "swapped", swap)
    for method in METHODS:
        for rule in DEFENCES[1:]:
            for share in (0.3, 0.5):
                cell = Cell(method, share, swap, rule)
                if cell in results:
                    says = f"Control, {method}, {swap.label}, L = {share:g}: {rule.label} is above the mean (swapped)."
                    plain = Cell(method, share, swap, MEAN)
                    yield claim_above(says, swapped_of(results, cell), swapped_of(results, plain), floor)
