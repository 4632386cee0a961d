"""FedHARM's experiments: clients with different networks that agree on descriptors, and what that saves.

``fedharm_study_runs.py`` has the runs. The document's own numbers are beside ours, and its missing controls (isolated
clients, and the same clients without alignment) are here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from fedloom.reproduce.fedharm_study_runs import (
    ABLATED,
    CLIENTS,
    COMMUNAL,
    DATA,
    EPOCHS,
    FEDHARM_RES,
    ISOLATED,
    REM,
    RES,
    ROUNDS,
    SAMPLES,
    UNALIGNED,
    Arm,
    ablations,
    arms,
    document_blocks,
    fedharm_rem,
    model_kilobytes,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    mean_text,
)
from fedloom.runs.plans.plan import Member, folder_name
from fedloom.runs.results.history import History

SCORE = "client_model/own_test/accuracy/mean"
Values = Mapping[tuple[str, int], Sequence[History]]
"""The runs of each arm and number of clients, one per seed."""


def _member(data: str, arm: Arm, clients: int) -> Member:
    label = f"{data}, {clients} clients, {arm.label}"
    return Member(label, folder_name(label), arm.config(data, clients))


def _cells(request: StudyRequest) -> dict[tuple[str, int], Member]:
    data = request.data or DATA[0]
    return {(arm.label, clients): _member(data, arm, clients) for clients in CLIENTS for arm in arms(data)}


def _ablation_cells(request: StudyRequest) -> dict[tuple[str, int], Member]:
    data = request.data or DATA[0]
    return {(arm.label, ABLATED): _member(data, arm, ABLATED) for arm in ablations(data)}


def _histories(request: StudyRequest, cells: Mapping[tuple[str, int], Member]) -> Values:
    found = request.run(list(cells.values()))
    return {cell: found[member.label] for cell, member in cells.items()}


def _accuracies(runs: Sequence[History]) -> list[float]:
    return [run.series(SCORE)[1][-1] for run in runs]


def _run(request: StudyRequest) -> StudyOutcome:
    data = request.data or DATA[0]
    values = _histories(request, _cells(request))
    tables = (accuracy_table(data, values), byte_table(data, values))
    plain = {f"{label}, {clients}": _accuracies(runs) for (label, clients), runs in values.items()}
    title = f"FedHARM with 5, 10 and 20 clients on {data}"
    return StudyOutcome(
        "fedharm-clients", title, tables, tuple(findings(data, values)), (_note(request),), {"values": plain}
    )


def _run_ablations(request: StudyRequest) -> StudyOutcome:
    data = request.data or DATA[0]
    values = _histories(request, _ablation_cells(request))
    rows = tuple((label, mean_text(_accuracies(runs)), _bytes(runs)[0]) for (label, _), runs in values.items())
    columns = ("arm", "accuracy (%)", "kB up per client and round")
    maps = [run.server_state()["blocks"].tolist() for run in values["rem, blocks by KL", ABLATED]]
    tables = (StudyTable(f"{data}, {ABLATED} clients", columns, rows), block_table(data, maps))
    plain = {label: _accuracies(runs) for (label, _), runs in values.items()}
    title = f"What FedHARM's parts are worth, on {data}"
    return StudyOutcome(
        "fedharm-ablations",
        title,
        tables,
        tuple(ablation_findings(data, values)),
        (_note(request),),
        {"values": plain, "blocks": maps},
    )


def _note(request: StudyRequest) -> str:
    data = request.data or DATA[0]
    samples = SAMPLES[data] / 2
    return (
        f"{samples * (1 - COMMUNAL):.0f} private samples of all clients together, {samples * COMMUNAL:.0f} communal "
        f"ones, {ROUNDS[data]} rounds of {EPOCHS} local epochs and one on the communal set, Adam with learning rate "
        f"0.005: mean accuracy of clients on their own tests ({samples:.0f} samples in all), mean ± standard deviation "
        f"over {request.seeds} seeds."
    )


def accuracy_table(data: str, values: Values) -> StudyTable:
    """Mean client accuracies beside the document's: a row per arm, a column per number of clients."""
    rows, reported = [], published("fedharm").tables["accuracy"]
    for arm in arms(data):
        ours = [mean_text(_accuracies(values[arm.label, clients])) for clients in CLIENTS]
        rows.append((arm.label, *ours, reported.text(f"{data}, {arm.label}")))
    columns = ("arm", *(f"{clients} clients" for clients in CLIENTS), "the document's")
    return StudyTable(f"{data}: mean client accuracy (%)", columns, tuple(rows))


def byte_table(data: str, values: Values) -> StudyTable:
    """What a client sends and gets per round, beside its model's own size."""
    rows = []
    for arm in arms(data):
        sent = [_bytes(values[arm.label, clients]) for clients in CLIENTS]
        rows.append((arm.label, *(" / ".join(both) for both in sent), f"{model_kilobytes(arm, data):.0f}"))
    columns = ("arm", *(f"{clients} clients: up / down" for clients in CLIENTS), "a model")
    return StudyTable(f"{data}: kB per client and round", columns, tuple(rows))


def _bytes(runs: Sequence[History]) -> tuple[str, str]:
    """Kilobytes per client and round, up and down."""
    clients = len(runs[0].clients)
    means = (
        fmean(record[way] for run in runs for record in run.records if record["round"])
        for way in ("bytes_up", "bytes_down")
    )
    up, down = (f"{mean / clients / 1000:.1f}" for mean in means)
    return up, down


def findings(data: str, values: Values) -> list[StudyFinding]:
    """What the document says of FedHARM, its missing controls, and what holds here."""

    def above(says: str, one: tuple[str, int], other: tuple[str, int], by: float = 0.0) -> StudyFinding:
        first, second = _accuracies(values[one]), _accuracies(values[other])
        return ahead_finding(says, f"{mean_text(first)} and {mean_text(second)}", first, second, by)

    res, rem = FEDHARM_RES.label, "FedHARM rem"
    found = [
        above(f"{n} clients: rem is above the same clients without alignment (T10).", (rem, n), (UNALIGNED.label, n))
        for n in CLIENTS
    ]
    found += [_every_client(values, n) for n in CLIENTS]
    for n in CLIENTS:
        says = f"{n} clients: rem is not below res (by half a point at most)."
        found.append(above(says, (rem, n), (res, n), by=-0.005))
    for label in (res, rem):
        found += [above(f"{label}: {a} clients are above {b}.", (label, a), (label, b)) for a, b in ((5, 10), (10, 20))]
    sent = float(_bytes(values[rem, CLIENTS[0]])[0])
    own = model_kilobytes(fedharm_rem(data), data)
    here = f"{sent:.1f} kB of descriptors up per client and round, a model has {own:.0f} kB on average."
    found.append(StudyFinding("FedHARM sends fewer bytes per round than models would cost.", here, sent < own))
    return found


def _every_client(values: Values, clients: int) -> StudyFinding:
    """Whether every client is better off than alone."""
    gains = [
        one["accuracy"] - alone["accuracy"]
        for run, isolated in zip(values["FedHARM rem", clients], values[ISOLATED.label, clients], strict=True)
        for one, alone in zip(run.clients, isolated.clients, strict=True)
    ]
    better = sum(gain > 0 for gain in gains)
    ours = f"{better} of {len(gains)}, from {100 * min(gains):+.1f} to {100 * max(gains):+.1f} points."
    return StudyFinding(f"{clients} clients: rem makes every client better than alone.", ours, better == len(gains))


def block_table(data: str, maps: Sequence[Sequence[Sequence[int]]]) -> StudyTable:
    """The blocks that KL divergences align, beside the document's.

    Args:
        maps: The blocks of each network of the pool, by seed.
    """
    rows = []
    for number, name in enumerate(REM):
        ours = ["–".join(map(str, seed[number])) for seed in maps]
        theirs = (1, 2, 3, 4) if name in RES else document_blocks(data)
        rows.append((name, ", ".join(ours), "–".join(map(str, theirs))))
    columns = ("network", "ours, by seed", "the document's")
    return StudyTable(f"{data}: blocks for the four of a ResNet", columns, tuple(rows))


def ablation_findings(data: str, values: Values) -> list[StudyFinding]:
    """What the document says of FedHARM's parts, and what holds here."""

    def above(says: str, one: str, other: str) -> StudyFinding:
        first, second = _accuracies(values[one, ABLATED]), _accuracies(values[other, ABLATED])
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


STUDIES = (
    Study(
        "fedharm-clients",
        "FedHARM res and rem, no alignment and isolated, with 5, 10 and 20 clients (36 runs)",
        _run,
        lambda request: list(_cells(request).values()),
        data=DATA,
    ),
    Study(
        "fedharm-ablations",
        "descriptors, blocks and alignment of FedHARM apart, with 10 clients (24 runs)",
        _run_ablations,
        lambda request: list(_ablation_cells(request).values()),
        data=DATA,
    ),
)
