"""The experiments of Tavakoli 2023 (Fed-GALA), each as one study: our mean ± std beside the document's tables.

The split is fixed and seeds are initial weights, as in the document. What it leaves open, and what that changes, is in
docs/graphs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from fedloom.reproduce.gala_study_runs import (
    AVG,
    AVG_SN,
    AVG_STAYS,
    CENTRAL,
    GALA,
    GALA_STAYS,
    GALAP,
    LOCAL,
    MAJORITY,
    MODES,
    MOST,
    MOST_P,
    NONE,
    NONE_P,
    NONE_STAYS,
    OWN_MAJORITY,
    PROX,
    PROX_SN,
    GalaPlan,
    GalaScores,
    StudyMethod,
    TrainingCase,
)  # fmt: skip
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import (
    Study,
    StudyFinding,
    StudyOutcome,
    StudyRequest,
    StudyTable,
    ahead_finding,
    gaps_of,
    mean_text,
)

EVERYBODY = (CENTRAL, LOCAL, AVG, AVG_SN, PROX, PROX_SN, NONE, MOST, GALA, GALAP)
ORDER = ((GALA, AVG), (GALAP, PROX), (PROX, AVG), (GALAP, GALA), (AVG_SN, AVG), (PROX_SN, PROX))
"""Who is above whom in the document, in every case and test (but for a few that its own tables contradict)."""
PARTS = ((NONE, AVG), (MOST, NONE), (GALA, MOST), (NONE_P, PROX), (MOST_P, NONE_P), (GALAP, MOST_P))
"""The same in its table 5.3, which takes Fed-GALA apart."""
HEADINGS = tuple(f"{mode}{of}" for mode in MODES for of in ("", ", document", ", shared model"))


def accuracy_tables(plan: GalaPlan, scores: GalaScores) -> list[StudyTable]:
    """Accuracy in points: ours, the document's, and that of the shared model."""
    return [
        StudyTable(
            f"{plan.graph}, {case.clients} clients: accuracy (%)",
            ("method", *HEADINGS, "rounds"),
            (*((one.name, *_cells(plan, scores, one, case)) for one in plan.methods), *_baseline_rows(scores, case)),
        )
        for case in plan.cases
    ]


def _baseline_rows(scores: GalaScores, case: TrainingCase) -> list[tuple[str, ...]]:
    """What answering the most frequent class scores, in the columns of a table of accuracies."""
    rows = []
    for baseline in (MAJORITY, OWN_MAJORITY):
        known = [scores.get((baseline, case, mode)) for mode in MODES]
        cells = [cell for found in known for cell in (mean_text(found) if found else "–", "–", "–")]
        rows.append((baseline.name, *cells, "–"))
    return rows


def _reported(graph: str, clients: int, mode: str) -> dict[str, float]:
    """The document's accuracies of a case, by method; one number for centralised training, which has no clients."""
    tables, case = published("gala").tables, f"{graph}, {clients}, {mode}"
    central = tables["centralised"].row(graph) if mode == "global" else {}
    return tables["accuracy"].row(case) | tables["parts"].row(case) | central


def _cells(plan: GalaPlan, scores: GalaScores, method: StudyMethod, case: TrainingCase) -> list[str]:
    cells = []
    for mode in MODES:
        reported = _reported(plan.graph, case.clients, mode).get(method.name)
        shared = scores.get((method, case, f"shared {mode}"))
        cells += [
            mean_text(scores[method, case, mode]),
            f"{100 * reported:.1f}" if reported else "–",
            mean_text(shared) if shared else "–",
        ]
    return [*cells, f"{fmean(scores[method, case, 'rounds']):.0f}"]


def orderings(
    plan: GalaPlan, scores: GalaScores, pairs: Sequence[tuple[StudyMethod, StudyMethod]]
) -> list[StudyFinding]:
    """The document's orderings: each first method above its second."""
    found = []
    for case in plan.cases:
        for mode in MODES:
            reported = _reported(plan.graph, case.clients, mode)
            for better, worse in pairs:
                known = better.name in reported and worse.name in reported
                gap = f" by {100 * (reported[better.name] - reported[worse.name]):.1f} points" if known else ""
                says = f"{plan.graph}, {case.clients} clients, {mode}: {better.name} is above {worse.name}{gap}."
                one, other = scores[better, case, mode], scores[worse, case, mode]
                found.append(ahead_finding(says, f"{mean_text(one)} and {mean_text(other)}", one, other))
    return found


def study_outcome(
    name: str,
    title: str,
    request: StudyRequest,
    parts: Sequence[StudyTable],
    found: Sequence[StudyFinding],
    scores: GalaScores,
) -> StudyOutcome:
    """The results of a study, with the numbers of every seed."""
    note = (
        f"Means ± standard deviations over {request.seeds} initialisations of one split; clients' own last models, "
        "averaged by the method's weights, as in the document; 'shared model' is the server's. Methods with two phases "
        "are trained once for each test, with the alpha_1 that the document chose for it."
    )
    values = {f"{method.name}, {case.label}, {what}": seeds for (method, case, what), seeds in scores.items()}
    return StudyOutcome(name, title, tuple(parts), tuple(found), (note,), values)


def _whole(graph: str) -> Study:
    plan = GalaPlan(graph, (TrainingCase(4), TrainingCase(8)), EVERYBODY)

    def run(request: StudyRequest) -> StudyOutcome:
        scores = plan.run(request)
        found = orderings(plan, scores, ORDER)
        few, many = (scores[AVG, case, "global"] for case in plan.cases)
        found.append(
            ahead_finding(f"{graph}, global: FedAvg falls from 4 to 8 clients.", "4 less 8 clients", few, many)
        )
        for case in plan.cases:
            best = max(EVERYBODY[1:], key=lambda method: fmean(scores[method, case, "global"]))
            says = f"{graph}, {case.clients} clients, global: no method is above centralised training."
            central = scores[CENTRAL, case, "shared global"]
            found.append(
                ahead_finding(says, f"centralised less the best ({best.name})", central, scores[best, case, "global"])
            )
        title = f"Fed-GALA on {graph} (tables 5.1 and 5.2)"
        return study_outcome(f"gala-{graph}", title, request, accuracy_tables(plan, scores), found, scores)

    about = f"Fed-GALA and its rivals on {graph} with 4 and 8 clients (tables 5.1 and 5.2)"
    return Study(f"gala-{graph}", about, run, lambda _: plan.members())


def _ablation() -> Study:
    plan = GalaPlan("cora", (TrainingCase(8),), (AVG, NONE, MOST, GALA, PROX, NONE_P, MOST_P, GALAP))

    def run(request: StudyRequest) -> StudyOutcome:
        scores = plan.run(request)
        title = "Which part of Fed-GALA helps: Cora, 8 clients (table 5.3)"
        found = orderings(plan, scores, PARTS)
        return study_outcome("gala-ablation", title, request, accuracy_tables(plan, scores), found, scores)

    return Study("gala-ablation", "Fed-GALA taken apart on Cora, 8 clients (table 5.3)", run, lambda _: plan.members())


def _case_table(plan: GalaPlan, scores: GalaScores, heading: str, names: Sequence[str]) -> StudyTable:
    """A row per case: accuracies and rounds of the plan's methods."""
    columns = (heading, *(f"{method.name}, {what}" for what in (*MODES, "rounds") for method in plan.methods))
    rows = tuple(
        (
            name,
            *(mean_text(scores[method, case, mode]) for mode in MODES for method in plan.methods),
            *(f"{fmean(scores[method, case, 'rounds']):.0f}" for method in plan.methods),
        )
        for name, case in zip(names, plan.cases, strict=True)
    )
    by_mode = ({mean_text(scores[MAJORITY, case, mode]) for case in plan.cases} for mode in MODES)
    answers = [" / ".join(sorted(found)) for found in by_mode for _ in plan.methods]
    last = (MAJORITY.name, *answers, *["–"] * len(plan.methods))
    return StudyTable(f"{plan.graph}: accuracy (%) by {heading}", columns, (*rows, last))


def _clients() -> Study:
    plan = GalaPlan("cora", tuple(TrainingCase(k) for k in range(2, 9)), (AVG, GALA))

    def run(request: StudyRequest) -> StudyOutcome:
        scores = plan.run(request)
        gains = [gaps_of(scores[GALA, case, "global"], scores[AVG, case, "global"]) for case in plan.cases]
        falls = [
            gaps_of(scores[method, plan.cases[0], "global"], scores[method, plan.cases[-1], "global"])
            for method in plan.methods
        ]
        nothing = [0.0] * request.seeds
        found = [
            ahead_finding(
                "Global: Fed-GALA's gain grows from 2 to 8 clients.", "growth of the gain", gains[-1], gains[0]
            ),
            ahead_finding(
                "Global: with 8 clients it is 15.5 points (at least 10 here for ✓).", "gain", gains[-1], nothing, 0.1
            ),
            ahead_finding(
                "Global: from 2 to 8 clients FedAvg falls by about 32 points (20).", "fall", falls[0], nothing, 0.2
            ),
            ahead_finding("Global: and Fed-GALA by less.", "FedAvg's fall less Fed-GALA's", falls[0], falls[1]),
        ]
        parts = [_case_table(plan, scores, "clients", [str(case.clients) for case in plan.cases])]
        return study_outcome("gala-clients", "Fed-GALA with 2 to 8 clients (Cora)", request, parts, found, scores)

    return Study("gala-clients", "Fed-GALA and FedAvg with 2 to 8 clients on Cora", run, lambda _: plan.members())


def _epochs() -> Study:
    plan = GalaPlan("cora", tuple(TrainingCase(4, epochs) for epochs in range(2, 7)), (AVG, GALA))

    def run(request: StudyRequest) -> StudyOutcome:
        scores, (first, last) = plan.run(request), (plan.cases[0], plan.cases[-1])
        found = []
        for method in plan.methods:
            for mode in MODES:
                says = f"{mode}: {method.name} falls as local epochs go from 2 to 6."
                found.append(
                    ahead_finding(says, "2 less 6 epochs", scores[method, first, mode], scores[method, last, mode])
                )
            rounds = [fmean(scores[method, case, "rounds"]) for case in (first, last)]
            ours = f"{rounds[0]:.0f} and {rounds[1]:.0f} rounds."
            found.append(
                StudyFinding(
                    f"{method.name} needs fewer rounds with 6 epochs than with 2.", ours, rounds[1] < rounds[0]
                )
            )
        for case in plan.cases:
            gala, avg = (fmean(scores[method, case, "rounds"]) for method in (GALA, AVG))
            says = f"{case.epochs} epochs: Fed-GALA needs no more rounds than FedAvg."
            found.append(StudyFinding(says, f"{gala:.0f} and {avg:.0f}.", gala <= avg))
        parts = [_case_table(plan, scores, "local epochs", [str(case.epochs) for case in plan.cases])]
        return study_outcome("gala-epochs", "Local epochs 2 to 6 (Cora, 4 clients)", request, parts, found, scores)

    return Study("gala-epochs", "Fed-GALA and FedAvg with 2 to 6 local epochs on Cora", run, lambda _: plan.members())


READINGS = {
    "Adam 0.01, 3 epochs": TrainingCase(8),
    "Adam 0.03, 3 epochs": TrainingCase(8, lr=0.03),
    "Adam 0.01, 10 epochs": TrainingCase(8, epochs=10),
    "SGD 1.0, momentum 0.9": TrainingCase(8, lr=1.0, momentum=0.9),
}
"""Optimiser, learning rate and epochs are not stated in the document: the usual ones, and others."""


def _readings() -> Study:
    plan = GalaPlan("cora", tuple(READINGS.values()), (AVG, NONE, GALA))

    def run(request: StudyRequest) -> StudyOutcome:
        scores, found, nothing = plan.run(request), [], [0.0] * request.seeds
        for name, case in READINGS.items():
            avg, none, gala = (scores[method, case, "global"] for method in plan.methods)
            says = f"{name}: Fed-GALA is 15.4 points above FedAvg on the whole graph (at least 10 here for ✓)."
            found.append(ahead_finding(says, "gain", gaps_of(gala, avg), nothing, by=0.1))
            says = f"{name}: most of it is the autoencoder's (No-Augment is 12.8 points above FedAvg; 5 here for ✓)."
            found.append(ahead_finding(says, "gain", gaps_of(none, avg), nothing, by=0.05))
        parts = [_case_table(plan, scores, "reading", list(READINGS))]
        title = "What the document leaves open: Cora, 8 clients, four readings"
        return study_outcome("gala-readings", title, request, parts, found, scores)

    about = "Cora, 8 clients, with other optimisers and learning rates than the usual ones"
    return Study("gala-readings", about, run, lambda _: plan.members())


def _exits() -> Study:
    plan = GalaPlan("cora", (TrainingCase(8),), (AVG, AVG_STAYS, NONE_STAYS, GALA, GALA_STAYS))

    def run(request: StudyRequest) -> StudyOutcome:
        scores = plan.run(request)
        found = orderings(plan, scores, ((GALA, AVG), (GALA_STAYS, AVG), (GALA_STAYS, AVG_STAYS)))
        title = "Whether clients leave in phase 3: Cora, 8 clients"
        return study_outcome("gala-exits", title, request, accuracy_tables(plan, scores), found, scores)

    about = "Fed-GALA on Cora, 8 clients, with and without exits in phase 3, which the document leaves open"
    return Study("gala-exits", about, run, lambda _: plan.members())


STUDIES = (
    *map(_whole, ("cora", "citeseer", "pubmed")),
    *(_ablation(), _clients(), _epochs(), _readings(), _exits()),
)
