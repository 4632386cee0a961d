"""FedHARM's experiments: clients with different networks that agree on descriptors, and what that saves.

``fedharm_study_runs.py`` has the runs. The document's own numbers are beside ours, and so are its rivals, and the
controls that it lacks (isolated clients, and the same clients without alignment). What clients predict with and what
they have after local training are two measures: of FedHARM's clients they are the same, a rival's first receive a mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedloom.reproduce.fedharm_ablations import ABLATION_STUDY
from fedloom.reproduce.fedharm_study_runs import (
    CLASSES,
    CLIENTS,
    COMMUNAL,
    COMMUNAL_EPOCHS,
    DATA,
    EPOCHS,
    FEDHARM_RES,
    ISOLATED,
    LRS,
    ROUNDS,
    SAMPLES,
    SCORE,
    TEST,
    TRAINED,
    UNALIGNED,
    VALID,
    Arm,
    Values,
    accuracies_of,
    arm_member,
    arms,
    data_of,
    fedharm_rem,
    kilobytes_sent,
    model_kilobytes,
    run_cells,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import (
    BASELINE,
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    baseline_score,
    mean_text,
)
from fedloom.reproduce.testability import claim_above
from fedloom.reproduce.tuning import TUNING_SEED, Candidates, choose_rates, tuning_members
from fedloom.runs.plans.members import Member


def _candidates(request: StudyRequest) -> Candidates:
    """The grids of learning rates."""
    data = data_of(request)
    return {arm.label: {f"{lr:g}": arm.config(data, arm.tuned(data), lr) for lr in LRS} for arm in arms(data)}


def _cells(request: StudyRequest, chosen: Mapping[str, str]) -> dict[tuple[str, int], Member]:
    """The runs of the tables; without chosen learning rates, with the first of the grid."""
    data = data_of(request)
    return {
        (arm.label, n): arm_member(data, arm, n, arm.config(data, n, float(chosen.get(arm.label, LRS[0]))))
        for arm in arms(data)
        for n in arm.counts(data)
    }


def _run(request: StudyRequest) -> StudyOutcome:
    data = data_of(request)
    chosen = choose_rates(request, _candidates(request))
    values = run_cells(request, _cells(request, chosen))
    tables = (accuracy_table(data, values, chosen), byte_table(data, values))
    plain = {f"{label}, {clients}": accuracies_of(runs) for (label, clients), runs in values.items()}
    title = f"FedHARM with 5, 10 and 20 clients on {data}"
    found = (*rival_findings(data, values), *findings(data, values))
    return StudyOutcome("fedharm-clients", title, tables, found, (_note(request),), {"values": plain})


def _note(request: StudyRequest) -> str:
    data = data_of(request)
    samples, train = SAMPLES[data], SAMPLES[data] * (1 - TEST - VALID)
    return (
        f"about {samples} samples of {CLASSES[data]} classes, {100 * TEST:.0f} % for tests and {100 * VALID:.0f} % for "
        f"validation; {train * COMMUNAL:.0f} of the others communal, or the server's (FedCon), or left to clients "
        f"(rivals); {ROUNDS} rounds of {EPOCHS} local epochs and {COMMUNAL_EPOCHS} on the communal set; Adam, its rate "
        f"by validation parts with seed {TUNING_SEED}; accuracy on clients' own tests, mean ± standard deviation "
        f"over {request.seeds} seeds."
    )


def accuracy_table(data: str, values: Values, chosen: Mapping[str, str]) -> StudyTable:
    """A row per arm: its learning rate, both measures per number of clients, the document's numbers; and the baseline.

    Clients that keep their own models have one measure.

    Args:
        chosen: The learning rates, in words.
    """
    rows, reported = [], published("fedharm").tables["accuracy"]
    for arm in arms(data):
        both = [
            mean_text(accuracies_of(values[arm.label, n], score)) if n in arm.counts(data) and counts else "–"
            for score, counts in ((SCORE, True), (TRAINED if arm.is_rival else SCORE, not arm.is_probed))
            for n in CLIENTS
        ]
        rows.append((arm.label, chosen[arm.label], *both, reported.text(f"{data}, {arm.label}")))
    pooled = [mean_text([baseline_score(run, SCORE) for run in values[ISOLATED.label, n]]) for n in CLIENTS]
    rows.append((BASELINE, "–", *pooled, *pooled, "–"))
    columns = (
        *("arm", "learning rate"),
        *(f"{n} clients" for n in CLIENTS),
        *(f"{n}, after local training" for n in CLIENTS),
        "the document's",
    )
    return StudyTable(f"{data}: mean client accuracy (%)", columns, tuple(rows))


def byte_table(data: str, values: Values) -> StudyTable:
    """What a client sends and gets per round, beside its model's own size."""
    rows = []
    for arm in arms(data):
        sent = [kilobytes_sent(values[arm.label, n]) if n in arm.counts(data) else ("–",) for n in CLIENTS]
        pool = next(iter(arm.pool.values()))
        size = model_kilobytes(Arm(arm.label, {"": pool}) if arm.is_rival else arm, data)
        rows.append((arm.label, *(" / ".join(both) for both in sent), f"{size:.0f}"))
    columns = ("arm", *(f"{clients} clients: up / down" for clients in CLIENTS), "a model")
    return StudyTable(f"{data}: kB per client and round", columns, tuple(rows))


def compare_arms(values: Values, says: str, one: str, other: str, clients: int, score: str = SCORE) -> StudyFinding:
    """The finding that one arm is above another with a number of clients, or that neither has learnt.

    Args:
        says: The sentence.
        one: The arm that should be above.
        other: The other arm.
        score: What is compared.
    """
    some, others = values[one, clients], values[other, clients]
    baseline = [baseline_score(run, SCORE) for run in some]
    return claim_above(says, accuracies_of(some, score), accuracies_of(others, score), baseline)


def rival_findings(data: str, values: Values) -> list[StudyFinding]:
    """Whether FedHARM and each rival stand as in the document's table, at each number of clients that it prints."""
    found, reported = [], published("fedharm").tables["accuracy"]
    for arm in (arm for arm in arms(data) if arm.is_rival):
        for n in arm.counts(data):
            for own in (FEDHARM_RES.label, fedharm_rem(data).label):
                ours, theirs = (reported.row(f"{data}, {label}")[str(n)] for label in (own, arm.label))
                one, other = (own, arm.label) if ours > theirs else (arm.label, own)
                says = f"{n} clients: {one} is above {other}"
                if arm.is_probed:
                    found.append(compare_arms(values, f"{says}.", one, other, n))
                    continue
                found.append(compare_arms(values, f"{says} (received).", one, other, n))
                found.append(compare_arms(values, f"{says} (after local training).", one, other, n, TRAINED))
    return found


def findings(data: str, values: Values) -> list[StudyFinding]:
    """What the document says of FedHARM itself, its missing controls, and what holds here."""
    res, rem = FEDHARM_RES.label, fedharm_rem(data).label
    found = [
        compare_arms(
            values, f"{n} clients: rem is above the same clients without alignment (T10).", rem, UNALIGNED.label, n
        )
        for n in CLIENTS
    ]
    found += [_every_client(values, n) for n in CLIENTS]
    for n in CLIENTS:
        a, b = (accuracies_of(values[label, n]) for label in (rem, res))
        baseline = [baseline_score(run, SCORE) for run in values[rem, n]]
        says = f"{n} clients: rem is not below res (by half a point at most)."
        found.append(claim_above(says, a, b, baseline, by=-0.005))
    for label in (res, rem):
        for few, many in ((5, 10), (10, 20)):
            a, b = (accuracies_of(values[label, n]) for n in (few, many))
            baseline = [baseline_score(run, SCORE) for run in values[label, few]]
            found.append(claim_above(f"{label}: {few} clients are above {many}.", a, b, baseline))
    sent = float(kilobytes_sent(values[rem, CLIENTS[0]])[0])
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


STUDIES = (
    Study(
        "fedharm-clients",
        "FedHARM res and rem, its rivals, no alignment and isolated, with 5, 10 and 20 clients (54 to 90 runs)",
        _run,
        lambda request: [*tuning_members(_candidates(request)), *_cells(request, {}).values()],
        data=DATA,
    ),
    ABLATION_STUDY,
)
