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
    FlippingCell,
    Results,
    Swap,
    global_of,
    swapped_of,
    unattacked,
)
from fedloom.reproduce.study import StudyFinding, ahead_finding, gaps_of, mean_text
from fedloom.reproduce.testability import claim_above, has_learnt

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


def swap_claim(
    results: Results, says: str, of: Measure, above: Sequence[FlippingCell], below: Sequence[FlippingCell]
) -> StudyFinding:
    """The finding that some cells are above others, or why this is not testable here: no model has learnt.

    Whether they have is told by their accuracy in all, since an attack may well leave nothing of the swapped classes.

    Args:
        says: The sentence.
        of: Which accuracy.
        above: The cells whose mean should be above.
        below: The others.
    """
    floor = global_of(results, BASELINE)
    whole = [global_of(results, *some) for some in (above, below)]
    if not any(has_learnt(some, floor) for some in whole):
        ours = " and ".join(map(mean_text, whole))
        reason = f"not testable here: {ours} in all, not told apart from the baseline ({mean_text(floor)})."
        return StudyFinding(says, reason, None)
    one, other = of(results, *above), of(results, *below)
    return ahead_finding(says, f"{mean_text(one)} and {mean_text(other)}", one, other)


def attacked(method: str, *swaps: Swap) -> list[FlippingCell]:
    """The cells of some swaps with every L.

    Args:
        method: Whose.
        swaps: What is swapped.
    """
    return [FlippingCell(method, share, swap) for swap in swaps for share in SHARES]


def _swap(data: str, name: str, pairing: str) -> Swap:
    return next(swap for swap in SWAPS[data] if (swap.name, swap.pairing) == (name, pairing))


def _swapped_below_global(results: Results, data: str) -> Iterator[StudyFinding]:
    """The claim, and whether the attack or the difficulty of its classes makes it."""
    for method in METHODS:
        for swap in SWAPS[data]:
            some, plain = attacked(method, swap), FlippingCell(method)
            whole, part = global_of(results, *some), swapped_of(results, *some)
            says = f"{method}, {swap.label}: swapped accuracy is below global."
            yield claim_above(says, whole, part, global_of(results, BASELINE))
            lost = gaps_of(unattacked(results, plain, swap), part)
            usual = gaps_of(global_of(results, plain), whole)
            says = f"Control, {method}, {swap.label}: swapped classes lose more than all classes."
            yield ahead_finding(says, f"{mean_text(lost)} and {mean_text(usual)} points", lost, usual)


def _more_classes(results: Results, data: str) -> Iterator[StudyFinding]:
    says = "the more classes are swapped, the lower is the global accuracy"
    if data != "cifar10":
        yield StudyFinding(f"{says.capitalize()}.", "not testable here: all lists have twenty classes.", None)
        return
    four = _swap(data, FOUR, FIXED)
    for method in METHODS:
        for swap in SWAPS[data][:2]:
            words = f"{method}: {says} ({swap.name} alone is above {FOUR}, fixed)."
            yield swap_claim(results, words, global_of, attacked(method, swap), attacked(method, four))


def _fixed_below_random(results: Results, data: str) -> Iterator[StudyFinding]:
    names = [swap.name for swap in SWAPS[data] if swap.pairing == RANDOM]
    for measure, of in MEASURES:
        fixed, random = ([_swap(data, name, pairing) for name in names] for pairing in (FIXED, RANDOM))
        one, other = ([cell for m in METHODS for cell in attacked(m, *swaps)] for swaps in (random, fixed))
        says = f"On average, fixed is more effective than random ({measure} accuracy: random is above)."
        yield swap_claim(results, says, of, one, other)
        for method in METHODS:
            for name in names:
                own, same = (attacked(method, _swap(data, name, how)) for how in (RANDOM, FIXED))
                says = f"{method}, {name}: fixed is more effective than random ({measure} accuracy: random is above)."
                yield swap_claim(results, says, of, own, same)


def _extra_below_intra(results: Results, data: str) -> Iterator[StudyFinding]:
    says = "extra_SC is more effective than intra_SC"
    if data != "cifar100":
        yield StudyFinding(f"{says}.", f"not testable here: {data} has no superclasses.", None)
        return
    for measure, of in MEASURES:
        for method in METHODS:
            for pairing in (FIXED, RANDOM):
                intra, extra = (_swap(data, name, pairing) for name in (INTRA, EXTRA))
                words = f"{method}, {pairing}: {says} ({measure} accuracy: intra_SC is above)."
                yield swap_claim(results, words, of, attacked(method, intra), attacked(method, extra))
    for method in METHODS:
        extra_lost, intra_lost = (
            gaps_of(
                unattacked(results, FlippingCell(method), _swap(data, name, FIXED)),
                swapped_of(results, *attacked(method, *(_swap(data, name, pairing) for pairing in (FIXED, RANDOM)))),
            )
            for name in (EXTRA, INTRA)
        )
        words = f"Control, {method}: classes of extra_SC lose more of their accuracy without an attack than intra_SC's."
        ours = f"{mean_text(extra_lost)} and {mean_text(intra_lost)} points"
        yield ahead_finding(words, ours, extra_lost, intra_lost)


def _fedseq_above_fedavg(results: Results, data: str) -> Iterator[StudyFinding]:
    swaps = SWAPS[data]
    says = "L = 0: FedSeq is above FedAvg (global accuracy)."
    yield swap_claim(results, says, global_of, [FlippingCell(FEDSEQ)], [FlippingCell(FEDAVG)])
    for share in SHARES:
        for measure, of in MEASURES:
            one, other = (_with_share(method, share, swaps) for method in (FEDSEQ, FEDAVG))
            says = f"L = {share:g}: FedSeq is above FedAvg ({measure} accuracy)."
            yield swap_claim(results, says, of, one, other)


def _with_share(method: str, share: float, swaps: Sequence[Swap]) -> list[FlippingCell]:
    """The cells of a method with one L; where nobody is hostile there is one."""
    return [FlippingCell(method, share, swap) for swap in swaps] if share else [FlippingCell(method)]


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
    for method in METHODS:
        for rule in DEFENCES[1:]:
            for share in (0.3, 0.5):
                cell = FlippingCell(method, share, swap, rule)
                if cell in results:
                    says = f"Control, {method}, {swap.label}, L = {share:g}: {rule.label} is above the mean (swapped)."
                    plain = FlippingCell(method, share, swap, MEAN)
                    yield swap_claim(results, says, swapped_of, [cell], [plain])
