"""The experiments of Tavakoli 2023 (Fed-GALA), each as one study: our mean ± std beside the document's tables.

The split is fixed and seeds are initial weights, as in the document. What it leaves open, and what that changes, is in
docs/graphs.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from fedloom.reproduce.overlapping import (
    AVG,
    AVG_SN,
    CENTRAL,
    GALA,
    GALAP,
    LOCAL,
    MODES,
    MOST,
    MOST_P,
    NONE,
    NONE_P,
    PROX,
    PROX_SN,
    Case,
    Plan,
    Scores,
    Way,
)  # fmt: skip
from fedloom.reproduce.study import Asked, Finding, Outcome, Study, Table, ahead, spread
from fedloom.reproduce.tavakoli import CENTRALISED, REPORTED

EVERYBODY = (CENTRAL, LOCAL, AVG, AVG_SN, PROX, PROX_SN, NONE, MOST, GALA, GALAP)
ORDER = ((GALA, AVG), (GALAP, PROX), (PROX, AVG), (GALAP, GALA), (AVG_SN, AVG), (PROX_SN, PROX))
"""Who is above whom in the document, in every case and test (but for a few that its own tables contradict)."""
PARTS = ((NONE, AVG), (MOST, NONE), (GALA, MOST), (NONE_P, PROX), (MOST_P, NONE_P), (GALAP, MOST_P))
"""The same in its table 5.3, which takes Fed-GALA apart."""
HEADINGS = tuple(f"{mode}{of}" for mode in MODES for of in ("", ", document", ", shared model"))


def tables(plan: Plan, scores: Scores) -> list[Table]:
    """Accuracy in points: ours, the document's, and that of the shared model."""
    return [
        Table(
            f"{plan.graph}, {case.clients} clients: accuracy (%)",
            ("method", *HEADINGS, "rounds"),
            tuple((way.name, *_cells(plan, scores, way, case)) for way in plan.ways),
        )
        for case in plan.cases
    ]


def _cells(plan: Plan, scores: Scores, way: Way, case: Case) -> list[str]:
    cells = []
    for mode in MODES:
        told = REPORTED.get((plan.graph, case.clients, mode), {}).get(way.name)
        told = CENTRALISED[plan.graph] if way is CENTRAL and mode == "global" else told
        shared = scores.get((way, case, f"shared {mode}"))
        cells += [
            spread(scores[way, case, mode]),
            f"{100 * told:.1f}" if told else "–",
            spread(shared) if shared else "–",
        ]
    return [*cells, f"{fmean(scores[way, case, 'rounds']):.0f}"]


def orderings(plan: Plan, scores: Scores, pairs: Sequence[tuple[Way, Way]]) -> list[Finding]:
    """The document's orderings: each first method above its second."""
    found = []
    for case in plan.cases:
        for mode in MODES:
            told = REPORTED.get((plan.graph, case.clients, mode), {})
            for better, worse in pairs:
                known = better.name in told and worse.name in told
                gap = f" by {100 * (told[better.name] - told[worse.name]):.1f} points" if known else ""
                says = f"{plan.graph}, {case.clients} clients, {mode}: {better.name} is above {worse.name}{gap}."
                one, other = scores[better, case, mode], scores[worse, case, mode]
                found.append(ahead(says, f"{spread(one)} and {spread(other)}", one, other))
    return found


def outcome(
    name: str, title: str, asked: Asked, parts: Sequence[Table], found: Sequence[Finding], scores: Scores
) -> Outcome:
    """What a study found, with the numbers of every seed."""
    note = (
        f"Means ± standard deviations over {asked.seeds} initialisations of one split; clients' own last models, "
        "averaged by the method's weights, as in the document; 'shared model' is the server's."
    )
    values = {f"{way.name}, {case.label}, {what}": seeds for (way, case, what), seeds in scores.items()}
    return Outcome(name, title, tuple(parts), tuple(found), (note,), values)


def _whole(graph: str) -> Study:
    plan = Plan(graph, (Case(4), Case(8)), EVERYBODY)

    def run(asked: Asked) -> Outcome:
        scores = plan.play(asked)
        found = orderings(plan, scores, ORDER)
        few, many = (scores[AVG, case, "global"] for case in plan.cases)
        found.append(ahead(f"{graph}, global: FedAvg falls from 4 to 8 clients.", "4 less 8 clients", few, many))
        for case in plan.cases:
            best = max(EVERYBODY[1:], key=lambda way: fmean(scores[way, case, "global"]))
            says = f"{graph}, {case.clients} clients, global: no method is above centralised training."
            central = scores[CENTRAL, case, "shared global"]
            found.append(ahead(says, f"centralised less the best ({best.name})", central, scores[best, case, "global"]))
        title = f"Fed-GALA on {graph} (tables 5.1 and 5.2)"
        return outcome(f"gala-{graph}", title, asked, tables(plan, scores), found, scores)

    about = f"Fed-GALA and its rivals on {graph} with 4 and 8 clients (tables 5.1 and 5.2)"
    return Study(f"gala-{graph}", about, run, lambda _: plan.members())


def _ablation() -> Study:
    plan = Plan("cora", (Case(8),), (AVG, NONE, MOST, GALA, PROX, NONE_P, MOST_P, GALAP))

    def run(asked: Asked) -> Outcome:
        scores = plan.play(asked)
        title = "Which part of Fed-GALA helps: Cora, 8 clients (table 5.3)"
        found = orderings(plan, scores, PARTS)
        return outcome("gala-ablation", title, asked, tables(plan, scores), found, scores)

    return Study("gala-ablation", "Fed-GALA taken apart on Cora, 8 clients (table 5.3)", run, lambda _: plan.members())


def _curve(plan: Plan, scores: Scores, heading: str, names: Sequence[str]) -> Table:
    """A row per case: accuracies and rounds of the plan's methods."""
    columns = (heading, *(f"{way.name}, {what}" for what in (*MODES, "rounds") for way in plan.ways))
    rows = tuple(
        (
            name,
            *(spread(scores[way, case, mode]) for mode in MODES for way in plan.ways),
            *(f"{fmean(scores[way, case, 'rounds']):.0f}" for way in plan.ways),
        )
        for name, case in zip(names, plan.cases, strict=True)
    )
    return Table(f"{plan.graph}: accuracy (%) by {heading}", columns, rows)


def _gap(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(one, other, strict=True)]


def _clients() -> Study:
    plan = Plan("cora", tuple(Case(k) for k in range(2, 9)), (AVG, GALA))

    def run(asked: Asked) -> Outcome:
        scores = plan.play(asked)
        gains = [_gap(scores[GALA, case, "global"], scores[AVG, case, "global"]) for case in plan.cases]
        falls = [_gap(scores[way, plan.cases[0], "global"], scores[way, plan.cases[-1], "global"]) for way in plan.ways]
        nothing = [0.0] * asked.seeds
        found = [
            ahead("Global: Fed-GALA's gain grows from 2 to 8 clients.", "growth of the gain", gains[-1], gains[0]),
            ahead(
                "Global: with 8 clients it is 15.5 points (at least 10 here for ✓).", "gain", gains[-1], nothing, 0.1
            ),
            ahead("Global: from 2 to 8 clients FedAvg falls by about 32 points (20).", "fall", falls[0], nothing, 0.2),
            ahead("Global: and Fed-GALA by less.", "FedAvg's fall less Fed-GALA's", falls[0], falls[1]),
        ]
        parts = [_curve(plan, scores, "clients", [str(case.clients) for case in plan.cases])]
        return outcome("gala-clients", "Fed-GALA with 2 to 8 clients (Cora)", asked, parts, found, scores)

    return Study("gala-clients", "Fed-GALA and FedAvg with 2 to 8 clients on Cora", run, lambda _: plan.members())


def _epochs() -> Study:
    plan = Plan("cora", tuple(Case(4, epochs) for epochs in range(2, 7)), (AVG, GALA))

    def run(asked: Asked) -> Outcome:
        scores, (first, last) = plan.play(asked), (plan.cases[0], plan.cases[-1])
        found = []
        for way in plan.ways:
            for mode in MODES:
                says = f"{mode}: {way.name} falls as local epochs go from 2 to 6."
                found.append(ahead(says, "2 less 6 epochs", scores[way, first, mode], scores[way, last, mode]))
            rounds = [fmean(scores[way, case, "rounds"]) for case in (first, last)]
            told = f"{rounds[0]:.0f} and {rounds[1]:.0f} rounds."
            found.append(
                Finding(f"{way.name} needs fewer rounds with 6 epochs than with 2.", told, rounds[1] < rounds[0])
            )
        for case in plan.cases:
            gala, avg = (fmean(scores[way, case, "rounds"]) for way in (GALA, AVG))
            says = f"{case.epochs} epochs: Fed-GALA needs no more rounds than FedAvg."
            found.append(Finding(says, f"{gala:.0f} and {avg:.0f}.", gala <= avg))
        parts = [_curve(plan, scores, "local epochs", [str(case.epochs) for case in plan.cases])]
        return outcome("gala-epochs", "Local epochs 2 to 6 (Cora, 4 clients)", asked, parts, found, scores)

    return Study("gala-epochs", "Fed-GALA and FedAvg with 2 to 6 local epochs on Cora", run, lambda _: plan.members())


READINGS = {
    "Adam 0.01, 3 epochs": Case(8),
    "Adam 0.03, 3 epochs": Case(8, lr=0.03),
    "Adam 0.01, 10 epochs": Case(8, epochs=10),
    "SGD 1.0, momentum 0.9": Case(8, lr=1.0, momentum=0.9),
}
"""Optimiser, learning rate and epochs are not stated in the document: the usual ones, and others."""


def _readings() -> Study:
    plan = Plan("cora", tuple(READINGS.values()), (AVG, NONE, GALA))

    def run(asked: Asked) -> Outcome:
        scores, found, nothing = plan.play(asked), [], [0.0] * asked.seeds
        for name, case in READINGS.items():
            avg, none, gala = (scores[way, case, "global"] for way in plan.ways)
            says = f"{name}: Fed-GALA is 15.4 points above FedAvg on the whole graph (at least 10 here for ✓)."
            found.append(ahead(says, "gain", _gap(gala, avg), nothing, by=0.1))
            says = f"{name}: most of it is the autoencoder's (No-Augment is 12.8 points above FedAvg; 5 here for ✓)."
            found.append(ahead(says, "gain", _gap(none, avg), nothing, by=0.05))
        parts = [_curve(plan, scores, "reading", list(READINGS))]
        title = "What the document leaves open: Cora, 8 clients, four readings"
        return outcome("gala-readings", title, asked, parts, found, scores)

    about = "Cora, 8 clients, with other optimisers and learning rates than the usual ones"
    return Study("gala-readings", about, run, lambda _: plan.members())


STUDIES = (
    *map(_whole, ("cora", "citeseer", "pubmed")),
    *(_ablation(), _clients(), _epochs(), _readings()),
)
