"""What FedHARM's parts are worth: descriptors, blocks and alignment apart, with ten clients and one learning rate."""

from __future__ import annotations

from collections.abc import Sequence

from fedloom.reproduce.fedharm_study_runs import (
    ABLATED,
    ABLATED_LR,
    ABLATED_ROUNDS,
    ABLATED_SAMPLES,
    COMMUNAL,
    DATA,
    EPOCHS,
    FEDHARM_RES,
    REM,
    RES,
    SCORE,
    UNALIGNED,
    Values,
    ablations,
    accuracies_of,
    arm_member,
    data_of,
    document_blocks,
    kilobytes_sent,
    run_cells,
)
from fedloom.reproduce.study import (
    BASELINE,
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    baseline_score,
    mean_text,
)
from fedloom.runs.plans.members import Member


def _ablation_cells(request: StudyRequest) -> dict[tuple[str, int], Member]:
    data = data_of(request)
    return {(arm.label, ABLATED): arm_member(data, arm, ABLATED, arm.ablated(data)) for arm in ablations(data)}


def _run_ablations(request: StudyRequest) -> StudyOutcome:
    data = data_of(request)
    values = run_cells(request, _ablation_cells(request))
    maps = [run.server_state()["blocks"].tolist() for run in values["rem, blocks by KL", ABLATED]]
    tables = (ablation_table(data, values), block_table(data, maps))
    plain = {label: accuracies_of(runs) for (label, _), runs in values.items()}
    note = (
        f"{ABLATED_SAMPLES[data]} samples, half of them for tests, {100 * COMMUNAL:.0f} % of the others communal; "
        f"{ABLATED_ROUNDS[data]} rounds of {EPOCHS} local epochs and one on the communal set, Adam with learning rate "
        f"{ABLATED_LR:g} for all; mean ± standard deviation over {request.seeds} seeds."
    )
    return StudyOutcome(
        "fedharm-ablations",
        f"What FedHARM's parts are worth, on {data}",
        tables,
        tuple(ablation_findings(data, values)),
        (note,),
        {"values": plain, "blocks": maps},
    )


def ablation_table(data: str, values: Values) -> StudyTable:
    """A row per arm, and one of the baseline."""
    rows = [(label, mean_text(accuracies_of(runs)), kilobytes_sent(runs)[0]) for (label, _), runs in values.items()]
    rows.append((BASELINE, mean_text([baseline_score(run, SCORE) for run in next(iter(values.values()))]), "–"))
    return StudyTable(f"{data}, {ABLATED} clients", ("arm", "accuracy (%)", "kB up per client and round"), tuple(rows))


def block_table(data: str, maps: Sequence[Sequence[Sequence[int]]]) -> StudyTable:
    """The blocks that KL divergences align, beside the document's.

    Args:
        maps: The blocks of each network of the pool, by seed.
    """
    rows = []
    for number, name in enumerate(REM):
        ours = ["–".join(map(str, seed[number])) for seed in maps]
        theirs = (1, 2, 3, 4) if name in RES else document_blocks(data)
        by_rule = theirs if name in RES else document_blocks(data, "blocks_by_rule")
        rows.append((name, ", ".join(ours), *("–".join(map(str, blocks)) for blocks in (theirs, by_rule))))
    columns = ("network", "ours, by seed", "the document's", "by the document's rule and divergences")
    return StudyTable(f"{data}: blocks for the four of a ResNet", columns, tuple(rows))


def ablation_findings(data: str, values: Values) -> list[StudyFinding]:
    """What the document says of FedHARM's parts, and what holds here."""

    def above(says: str, one: str, other: str) -> StudyFinding:
        first, second = accuracies_of(values[one, ABLATED]), accuracies_of(values[other, ABLATED])
        return ahead_finding(says, f"{mean_text(first)} and {mean_text(second)}", first, second)

    last, maps, res = "rem, only the last block", "res, raw maps", FEDHARM_RES.label
    return [
        above("Alignment helps networks of all families (T10).", "FedHARM rem", UNALIGNED.label),
        above("Alignment helps networks of different depths.", res, "res, no alignment"),
        above("Descriptors are above raw maps.", res, maps),
        above("All blocks are above the last one alone.", "FedHARM rem", last),
        above("Descriptors are above pooling and cropping.", "FedHARM rem", "rem, pool and crop"),
        above(
            f"The document's blocks of {data} are above those that KL divergences align.",
            "FedHARM rem",
            "rem, blocks by KL",
        ),
    ]


ABLATION_STUDY = Study(
    "fedharm-ablations",
    "descriptors, blocks and alignment of FedHARM apart, with 10 clients (24 runs)",
    _run_ablations,
    lambda request: list(_ablation_cells(request).values()),
    data=DATA,
)
