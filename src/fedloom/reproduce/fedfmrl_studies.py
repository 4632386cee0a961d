"""The studies of FedFMRL beside its document: schemes, sources of alpha and a_cap, and clients whose classes differ.

What mixing and multi-scale distillation are worth, and what the server's model owes to clients, is in
``fedfmrl_ablation``.
"""

from __future__ import annotations

from typing import Any

from fedloom.reproduce.fedfmrl_ablation import LABELS, MEAN, MEAN_MS, MIX_MS, ablation_members, run_ablation
from fedloom.reproduce.fedfmrl_readings import reading_members, run_readings
from fedloom.reproduce.fedfmrl_study_runs import (
    CLASSES,
    COMMUNAL,
    DISTILS,
    EARLIER,
    IMAGES,
    MIXES,
    SENT,
    SKEWED_COMMUNAL,
    Results,
    accuracy_text,
    baseline_row,
    client_finding,
    clients_of,
    data_of,
    equal_clients,
    fmrl_member,
    plain_results,
    run_results,
    sent_text,
    servers_of,
    setting_text,
    skewed_clients,
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import Study, StudyFinding, StudyOutcome, StudyRequest, StudyTable
from fedloom.runs.plans.members import Member

SCHEMES = ("A", "A-normalised", "B", "C", "mean")
ALPHAS = ("closed-form", "gaussian", "learned")
READINGS: dict[str, dict[str, Any]] = {
    "learned, drawn in every step": {"alpha_drawn": "every-step"},
    "learned, raw outputs": {"alpha_loss": "raw"},
    "learned, raw outputs, drawn in every step": EARLIER,
}
"""Other readings of equation 6.6 and algorithm 9; the last is the earlier one."""
CAPS = (0.1, 0.4, 0.8)
SMALL_CAP = 0.1
SKEWS = (0.25, 1.0)
MIX_MS_EARLIER = "mix, multi-scale, raw outputs, drawn in every step"


def mixing_members(data: str) -> list[Member]:
    """The runs of ``fedfmrl-mixing``, all without multi-scale distillation."""
    task = equal_clients(data)
    settings: dict[str, dict[str, Any]] = {f"scheme {one}": {"scheme": one} for one in SCHEMES if one != "mean"}
    settings |= {f"alpha {source}": {"alpha": source} for source in ALPHAS if source != "learned"}
    settings |= {f"alpha {label}": reading for label, reading in READINGS.items()}
    settings |= {f"a_cap {cap:g}": {"a_cap": cap} for cap in CAPS if cap != 0.8}
    settings[f"scheme A, a_cap {SMALL_CAP:g}"] = {"scheme": "A", "a_cap": SMALL_CAP}
    methods = {label: {"name": "fedfmrl", **MIXES, **one} for label, one in settings.items()}
    methods["scheme mean"] = {"name": "fld", **DISTILS}
    return [fmrl_member(label, task, method) for label, method in methods.items()]


def skew_members(data: str) -> list[Member]:
    """The runs of ``fedfmrl-skew``."""
    methods: dict[str, dict[str, Any]] = {
        MEAN: {"name": "fld", **DISTILS},
        MEAN_MS: {"name": "fld", "multi_loss": "B", **DISTILS},
        MIX_MS: {"name": "fedfmrl", "multi_loss": "B", **MIXES},
        MIX_MS_EARLIER: {"name": "fedfmrl", "multi_loss": "B", **EARLIER, **MIXES},
        LABELS: {"name": "local", "communal_epochs": DISTILS["epochs"]},
    }
    return [
        fmrl_member(f"beta {beta:g}, {label}", skewed_clients(data, beta), method)
        for beta in SKEWS
        for label, method in methods.items()
    ]


def mixing_tables(results: Results) -> list[StudyTable]:
    """The document's tables of schemes, alphas and a_caps, with ours beside them."""
    learned = results["scheme C"]
    schemes = {scheme: results[f"scheme {scheme}"] for scheme in SCHEMES}
    schemes[f"A, a_cap {SMALL_CAP:g}"] = results[f"scheme A, a_cap {SMALL_CAP:g}"]
    alphas = {one: results.get(f"alpha {one}", learned) for one in (*ALPHAS, *READINGS)}
    caps = {f"{cap:g}": results.get(f"a_cap {cap:g}", learned) for cap in CAPS}
    tables = []
    for name, cells in (("scheme", schemes), ("alpha", alphas), ("a_cap", caps)):
        reported = published("fedfmrl").tables[name]
        rows: list[tuple[str, ...]] = [
            (
                label,
                accuracy_text(some, clients_of(some)),
                accuracy_text(some, servers_of(some)),
                reported.text(label),
                sent_text(some),
            )
            for label, some in cells.items()
        ]
        columns = (name, "clients", "server's model", "document", SENT)
        rows.append(baseline_row([learned] * 2, len(columns)))
        tables.append(StudyTable(f"{name}: accuracy (%), and bytes up and down", columns, tuple(rows)))
    return tables


def mixing_findings(results: Results, classes: int) -> list[StudyFinding]:
    """What the document says of schemes, alphas and a_cap, and what holds here."""

    found = [
        client_finding(results, "Scheme C is above scheme B.", "scheme C", "scheme B"),
        client_finding(results, "Scheme B is above scheme A.", "scheme B", "scheme A"),
        client_finding(results, "Control: scheme C is above the plain mean.", "scheme C", "scheme mean"),
        client_finding(results, "Learned alpha is above Gaussian alpha.", "scheme C", "alpha gaussian"),
        *(
            client_finding(results, f"Control: learned alpha is above {label}.", "scheme C", f"alpha {label}")
            for label in READINGS
        ),
        client_finding(results, "Gaussian alpha is above the closed form.", "alpha gaussian", "alpha closed-form"),
        client_finding(results, "a_cap 0.8 is above a_cap 0.1.", "scheme C", "a_cap 0.1"),
        client_finding(results, "a_cap 0.8 is above a_cap 0.4.", "scheme C", "a_cap 0.4"),
    ]
    for label in ("scheme A", f"scheme A, a_cap {SMALL_CAP:g}"):
        some = results[label]
        at_chance = all(one.diverged or one.clients < 1.5 / classes for one in some)
        ours = f"{accuracy_text(some, clients_of(some))}, chance is {100 / classes:.1f}."
        found.append(StudyFinding(f"{label} as printed ends at chance.", ours, at_chance))
    return found


def skew_table(results: Results) -> StudyTable:
    """A row per method: our accuracy and the document's for each beta."""
    rows, reported = [], published("fedfmrl").tables["beta"]
    for label in (MEAN, MEAN_MS, MIX_MS, MIX_MS_EARLIER, LABELS):
        cells = [results[f"beta {beta:g}, {label}"] for beta in SKEWS]
        ours = [accuracy_text(some, clients_of(some)) for some in cells]
        said = [reported.text(f"{beta:g}", label) for beta in SKEWS]
        rows.append((label, *ours, *said, sent_text(cells[0])))
    columns = ("method", *(f"beta {b:g}" for b in SKEWS), *(f"document, {b:g}" for b in SKEWS), SENT)
    rows.append(baseline_row([results[f"beta {beta:g}, {MEAN}"] for beta in SKEWS], len(columns)))
    return StudyTable("clients' accuracy (%), and bytes up and down", columns, tuple(rows))


def skew_findings(results: Results) -> list[StudyFinding]:
    """What the document says of unequal clients, and what holds here."""

    least, most = f"beta {min(SKEWS):g}", f"beta {max(SKEWS):g}"
    found = []
    for beta in (least, most):
        found.append(client_finding(results, f"{beta}: FedFMRL is above FLD.", f"{beta}, {MIX_MS}", f"{beta}, {MEAN}"))
        found.append(
            client_finding(
                results,
                f"Control, {beta}: mixing is above the plain mean, with multi-scale.",
                f"{beta}, {MIX_MS}",
                f"{beta}, {MEAN_MS}",
            )
        )
        for says, other in (("the earlier reading", MIX_MS_EARLIER), ("communal labels without any exchange", LABELS)):
            sentence = f"Control, {beta}: FedFMRL is above {says}."
            found.append(client_finding(results, sentence, f"{beta}, {MIX_MS}", f"{beta}, {other}"))
    for label in (MEAN, MIX_MS):
        found.append(client_finding(results, f"{label} rises with beta.", f"{most}, {label}", f"{least}, {label}"))
    return found


def _run_mixing(request: StudyRequest) -> StudyOutcome:
    data = data_of(request)
    results = run_results(request, mixing_members(data))
    note = setting_text(request, f"{IMAGES[data]} images each", COMMUNAL) + " Without multi-scale distillation."
    found = tuple(mixing_findings(results, CLASSES[data]))
    title = "FedFMRL: schemes, sources of alpha, and a_cap"
    return StudyOutcome("fedfmrl-mixing", title, tuple(mixing_tables(results)), found, (note,), plain_results(results))


def _run_skew(request: StudyRequest) -> StudyOutcome:
    results = run_results(request, skew_members(data_of(request)))
    note = setting_text(request, "all images, divided by Dir(beta)", SKEWED_COMMUNAL)
    title = "FedFMRL where clients' classes differ"
    found = tuple(skew_findings(results))
    return StudyOutcome("fedfmrl-skew", title, (skew_table(results),), found, (note,), plain_results(results))


STUDIES = (
    Study(
        "fedfmrl-readings",
        "equation 6.6 read as softmax, server's label and raw outputs, and communal labels alone, on digits (66 runs)",
        run_readings,
        reading_members,
    ),
    Study(
        "fedfmrl-ablation",
        "mean or mix, multi-scale or not, communal labels and the server alone, on CIFAR (36 runs)",
        run_ablation,
        lambda request: ablation_members(data_of(request)),
        data=tuple(CLASSES),
    ),
    Study(
        "fedfmrl-mixing",
        "FedFMRL's schemes, sources of alpha and a_cap, on CIFAR (39 runs)",
        _run_mixing,
        lambda request: mixing_members(data_of(request)),
        data=tuple(CLASSES),
    ),
    Study(
        "fedfmrl-skew",
        "FedFMRL and FLD where clients' classes differ, on CIFAR (30 runs)",
        _run_skew,
        lambda request: skew_members(data_of(request)),
        data=tuple(CLASSES),
    ),
)
