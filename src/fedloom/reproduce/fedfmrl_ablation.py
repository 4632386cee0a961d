"""FedFMRL beside its document: what mixing outputs and multi-scale distillation are worth, and what they cost.

The document never compares mixing with the plain mean under equal terms, and reports the server's model without a model
that was trained on the communal labels alone. This study does both.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from fedloom.reproduce.fedfmrl_study_runs import (
    CLASSES,
    COMMUNAL,
    DISTILS,
    EARLIER,
    EPOCHS,
    IMAGES,
    MIXES,
    MIXING_STEPS,
    SENT,
    SERVER_EPOCHS,
    Results,
    accuracy_text,
    baseline_row,
    bytes_text,
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
)
from fedloom.reproduce.published_tables import published
from fedloom.reproduce.study import StudyFinding, StudyOutcome, StudyRequest, StudyTable, ahead_finding, mean_text
from fedloom.runs.plans.members import Member

ISOLATED, LABELS, FEDAVG, MEAN, MEAN_MS, MIX, MIX_RAW, MIX_LABEL, MIX_FAST, MIX_MS = (
    "isolated",
    "isolated, communal labels",
    "FedAvg",
    "mean (FLD)",
    "mean, multi-scale",
    "mix",
    "mix, raw outputs, drawn in every step",
    "mix, server's label",
    "mix, O_diff 1",
    "mix, multi-scale (FedFMRL)",
)
SERVER, PLAIN_SERVER = "server only", "server only, O_diff 1"
DOCUMENT_SAMPLES, RESNET_56, RESNET_56_STAGES = 10_000, 850_000, ((16, 32), (32, 16), (64, 8))
"""The document's communal samples, the parameters of its model, and maps and edge of each of its stages."""


def ablation_members(data: str) -> list[Member]:
    """The runs of ``fedfmrl-ablation``; the server that is alone trains as often as that of FedFMRL."""
    task = equal_clients(data)
    alone = {"name": "fedfmrl", "scheme": "mean", "server_epochs": MIXING_STEPS * SERVER_EPOCHS}
    methods: dict[str, dict[str, Any]] = {
        ISOLATED: {"name": "local"},
        LABELS: {"name": "local", "communal_epochs": DISTILS["epochs"]},
        FEDAVG: {"name": "fedavg"},
        MEAN: {"name": "fld", **DISTILS},
        MEAN_MS: {"name": "fld", "multi_loss": "B", **DISTILS},
        MIX: {"name": "fedfmrl", **MIXES},
        MIX_RAW: {"name": "fedfmrl", **EARLIER, **MIXES},
        MIX_LABEL: {"name": "fedfmrl", "alpha_loss": "server-label", **MIXES},
        MIX_FAST: {"name": "fedfmrl", "o_diff": 1.0, **MIXES},
        MIX_MS: {"name": "fedfmrl", "multi_loss": "B", **MIXES},
        SERVER: alone,
        PLAIN_SERVER: {**alone, "o_diff": 1.0},
    }
    idle = (SERVER, PLAIN_SERVER)
    return [fmrl_member(label, task, method, 0 if label in idle else EPOCHS) for label, method in methods.items()]


def ablation_table(data: str, results: Results) -> StudyTable:
    """A row per method: accuracy of clients and server, what the document prints, and bytes."""
    reported, rows = published("fedfmrl").tables[data], list[tuple[str, ...]]()
    for label, some in results.items():
        idle = label in (SERVER, PLAIN_SERVER)
        has_server = label not in (ISOLATED, LABELS, MEAN, MEAN_MS)
        rows.append(
            (
                label,
                "–" if idle else accuracy_text(some, clients_of(some)),
                accuracy_text(some, servers_of(some)) if has_server else "–",
                reported.text(label),
                "–" if idle else sent_text(some),
            )
        )
    columns = ("method", "clients", "server's model", "document: clients / global", SENT)
    rows.append(baseline_row([results[ISOLATED]] * 2, len(columns)))
    return StudyTable(f"{data}: accuracy (%) on the test set, and bytes up and down", columns, tuple(rows))


def document_bytes() -> StudyTable:
    """What one client sends in a round at the document's own sizes, by arithmetic."""
    weights = 4 * RESNET_56
    strips = 4 * DOCUMENT_SAMPLES * sum(maps * 2 * edge for maps, edge in RESNET_56_STAGES)
    rows = []
    for data, classes in CLASSES.items():
        outputs = 4 * DOCUMENT_SAMPLES * classes
        for what, number in (("outputs", outputs), ("outputs and strips", outputs + strips)):
            rows.append((data, what, bytes_text(number), f"{number / weights:.1f}"))
    title = f"the document's sizes: bytes that a client sends in a round (ResNet-56 itself: {bytes_text(weights)})"
    return StudyTable(title, ("data", "what is sent", "bytes", "times the model"), tuple(rows))


def ablation_findings(results: Results) -> list[StudyFinding]:
    """The document's claims, the controls that it lacks, and what holds here."""

    found = [
        client_finding(results, "FedFMRL is above FedAvg.", MIX_MS, FEDAVG),
        client_finding(results, "FedAvg is above FLD.", FEDAVG, MEAN),
        client_finding(results, "FLD is above isolated clients.", MEAN, ISOLATED),
        client_finding(results, "FedFMRL is above FLD.", MIX_MS, MEAN),
        client_finding(results, "Multi-scale distillation is above plain FLD (chapter 7).", MEAN_MS, MEAN),
        client_finding(results, "Control: mixing is above the plain mean, without multi-scale.", MIX, MEAN),
        client_finding(results, "Control: mixing is above the plain mean, with multi-scale.", MIX_MS, MEAN_MS),
        client_finding(results, "Control: mixing is above the earlier reading of equation 6.6.", MIX, MIX_RAW),
        client_finding(results, "Control: the server's label is above the earlier reading.", MIX_LABEL, MIX_RAW),
        client_finding(results, "Control: FedFMRL is above communal labels without any exchange.", MIX_MS, LABELS),
    ]
    ours, alone = servers_of(results[MIX_MS]), servers_of(results[SERVER])
    clients = clients_of(results[MIX_MS])
    same = " (equal to the last digit)" if list(ours) == list(alone) else ""
    found.append(
        ahead_finding(
            "The server's model is above the clients' models.",
            f"{mean_text(ours)} and {mean_text(clients)}",
            ours,
            clients,
        )
    )
    found.append(
        StudyFinding(
            "Control: the server's model gains from clients.",
            f"{mean_text(ours)} with them, {mean_text(alone)} without any{same}.",
            fmean(ours) > fmean(alone),
        )
    )
    found += difference_findings(results)
    for label in (MIX, MIX_MS):
        sent, model = (fmean(one.bytes for one in results[name]) for name in (label, FEDAVG))
        found.append(
            StudyFinding(
                f"{label} sends fewer bytes per round than FedAvg.",
                f"{bytes_text(sent)} and {bytes_text(model)} per client: {sent / model:.1f} times.",
                sent < model,
            )
        )
    return found


def difference_findings(results: Results) -> list[StudyFinding]:
    """What the document says of O_diff, by which the server divides its gradients."""
    divided, plain = servers_of(results[SERVER]), servers_of(results[PLAIN_SERVER])
    ours = f"{mean_text(divided)} and {mean_text(plain)}"
    server = ahead_finding("The server's model is better with O_diff 20 than with O_diff 1.", ours, divided, plain)
    divided, plain = clients_of(results[MIX]), clients_of(results[MIX_FAST])
    ours = f"{mean_text(divided)} with O_diff 20, {mean_text(plain)} with O_diff 1."
    same = abs(fmean(divided) - fmean(plain)) < 0.01
    return [server, StudyFinding("Clients are not sensitive to O_diff (their means are within a point).", ours, same)]


def run_ablation(request: StudyRequest) -> StudyOutcome:
    """Run the study."""
    data = data_of(request)
    results = run_results(request, ablation_members(data))
    note = setting_text(request, f"{IMAGES[data]} images each", COMMUNAL)
    tables = (ablation_table(data, results), document_bytes())
    title = "FedFMRL: mixing and multi-scale distillation apart, and the server alone"
    return StudyOutcome(
        "fedfmrl-ablation", title, tables, tuple(ablation_findings(results)), (note,), plain_results(results)
    )
