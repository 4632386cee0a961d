"""What FedLID's document claims, on both measures, and what holds here.

The document scores clients' models after local training; the model that they received is the other measure. Claims that
the document prints are told apart from controls that it lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.reproduce.fedlid_study_runs import (
    FEDAVG,
    FEDCA,
    FEDLID,
    FEDSIMCLR,
    FEW_LABELS,
    SHARES,
    SKEWS,
    SUPERVISED_ALL,
    LidResult,
    Results,
)
from fedloom.reproduce.study import StudyFinding, ahead_finding, gaps_of, mean_text
from fedloom.reproduce.testability import claim_above, has_learnt

SUPERVISED = tuple(f"supervised {100 * share:.0f} %" for share in SHARES)
STARTS = ("random", "pre-trained")
MEASURES = {"after local training": "after", "received model": "received"}
"""The two measures of a claim, the document's first."""


def values_of(results: Sequence[LidResult], name: str) -> list[float]:
    """A number of each seed."""
    return [float(getattr(one, name)) for one in results]


def compare_runs(results: Results, says: str, one: str, other: str) -> list[StudyFinding]:
    """The finding that one run is above another, by each measure.

    A received model is held against the most frequent class of all clients, and one that was trained at its client
    against the client's own. Clients without labels receive an encoder that has no classifier, so their probe counts.

    Args:
        results: What the runs measured.
        says: The sentence.
        one: The label of the run that should be above.
        other: The label of the other.
    """
    found = []
    for words, name in MEASURES.items():
        probes = [label.endswith("probe") for label in (one, other)]
        if name == "received" and all(probes):
            continue  # there is no such model
        a, b = (
            values_of(results[label], "after" if is_probe else name)
            for label, is_probe in zip((one, other), probes, strict=True)
        )
        floor = "own" if name == "after" or any(probes) else "pooled"
        baseline, others = (values_of(results[label], floor) for label in (one, other))
        found.append(claim_above(f"{says[:-1]} ({words}).", a, b, baseline, None if others == baseline else others))
    return found


def server_findings(results: Results) -> list[StudyFinding]:
    """What the document says of the server, the control that it lacks, and what holds here."""
    found = []
    for skew in SKEWS:
        for share, label in zip(SHARES, SUPERVISED, strict=True):
            says = f"{skew}: a SimCLR server is above a server with {100 * share:.0f} % of its labels."
            found += compare_runs(results, says, f"{skew}, {FEDLID}", f"{skew}, {label}")
        says = f"Control, {skew}: a SimCLR server is above no server training at all (FedAvg)."
        found += compare_runs(results, says, f"{skew}, {FEDLID}", f"{skew}, {FEDAVG}")
    found += [_gain_finding(results, words, name) for words, name in MEASURES.items()]
    says = "FedLID is better non-IID than IID (the document's own anomaly)."
    return found + compare_runs(results, says, f"non-IID, {FEDLID}", f"IID, {FEDLID}")


def _gain_finding(results: Results, words: str, name: str) -> StudyFinding:
    """Whether FedLID is further above a server with a fifth of the labels where classes are skewed."""
    says = f"The gain over a supervised server (20 % of the labels) is larger when classes are skewed ({words})."
    gains = []
    for skew in ("non-IID", "IID"):
        ours, theirs = (results[f"{skew}, {label}"] for label in (FEDLID, SUPERVISED[0]))
        gains.append(gaps_of(values_of(ours, name), values_of(theirs, name)))
        baseline = values_of(ours, "own" if name == "after" else "pooled")
        if not any(has_learnt(values_of(some, name), baseline) for some in (ours, theirs)):
            return StudyFinding(says, f"not testable here: neither method is above its baseline where {skew}.", None)
    skewed, equal = gains
    return ahead_finding(says, f"{mean_text(skewed)} and {mean_text(equal)}", skewed, equal)


def label_findings(results: Results) -> list[StudyFinding]:
    """What the document says of scarce labels and of methods without them, and what holds here."""
    found = []
    for skew in SKEWS:
        few = f"{skew}, {FEW_LABELS}"
        for says, one, other in (
            (f"{skew}: FedCA is above FedSimCLR.", f"{skew}, {FEDCA}", f"{skew}, {FEDSIMCLR}"),
            (f"{skew}: FedLID is above FedSimCLR with all labels.", f"{skew}, {FEDLID}", f"{skew}, {FEDSIMCLR}"),
            (f"{skew}: FedLID is above FedCA with all labels.", f"{skew}, {FEDLID}", f"{skew}, {FEDCA}"),
            (f"{few}FedLID is above FedCA.", f"{few}{FEDLID}", f"{few}{FEDCA}"),
            (f"Control, {few}FedLID is above FedAvg.", f"{few}{FEDLID}", f"{few}{FEDAVG}"),
        ):
            found += compare_runs(results, says, one, other)
    return found


def pretraining_findings(results: Results) -> list[StudyFinding]:
    """Whether the comparison depends on where networks start, which the document does not vary."""
    found = []
    for how in STARTS:
        for label in (SUPERVISED_ALL, FEDAVG):
            says = f"{how} start: a SimCLR server is above {label}."
            found += compare_runs(results, says, f"{FEDLID}, {how}", f"{label}, {how}")
    says = "FedLID gains from a pre-trained start."
    return found + compare_runs(results, says, f"{FEDLID}, pre-trained", f"{FEDLID}, random")
