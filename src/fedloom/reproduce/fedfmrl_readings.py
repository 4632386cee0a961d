"""The readings of FedFMRL's equation 6.6 side by side, on digits, with the control that needs no client's outputs.

The loss of alpha can be read as a cross-entropy of distributions (softmax), against the server's label (as in the
authors' code), or with raw outputs (the letters of the equation). All of them train on communal labels by way of the
server's model. The control gives these labels to clients at once, and no client hears of another.
"""

from __future__ import annotations

from typing import Any

from fedloom.reproduce.fedfmrl_study_runs import (
    CLIENTS,
    FmrlResult,
    Results,
    accuracy_text,
    baseline_row,
    client_finding,
    clients_of,
    plain_results,
    run_results,
    servers_of,
)
from fedloom.reproduce.study import StudyFinding, StudyOutcome, StudyRequest, StudyTable, ahead_finding, mean_text
from fedloom.runs.plans.members import Member, folder_name

SKEWS = (0.3, 100.0)
ROUNDS, EPOCHS, DISTILLATION_EPOCHS = 6, 3, 1
MEAN, GAUSSIAN, RAW, SOFTMAX, LABEL, GAUSSIAN_ALL, RAW_ALL, SOFTMAX_ALL, LABEL_ALL, ISOLATED, LABELS = (
    "plain mean (FLD)",
    "drawn once, not learned",
    "drawn once, raw outputs",
    "drawn once, softmax",
    "drawn once, server's label",
    "drawn in every step, not learned",
    "drawn in every step, raw outputs",
    "drawn in every step, softmax",
    "drawn in every step, server's label",
    "isolated",
    "isolated, communal labels",
)
MIXES: dict[str, Any] = {"name": "fedfmrl", "epochs": DISTILLATION_EPOCHS}
EVERY: dict[str, Any] = {**MIXES, "alpha_drawn": "every-step"}
METHODS: dict[str, dict[str, Any]] = {
    MEAN: {"name": "fld", "epochs": DISTILLATION_EPOCHS},
    GAUSSIAN: {**MIXES, "alpha": "gaussian"},
    RAW: {**MIXES, "alpha_loss": "raw"},
    SOFTMAX: MIXES,
    LABEL: {**MIXES, "alpha_loss": "server-label"},
    GAUSSIAN_ALL: {**EVERY, "alpha": "gaussian"},
    RAW_ALL: {**EVERY, "alpha_loss": "raw"},
    SOFTMAX_ALL: EVERY,
    LABEL_ALL: {**EVERY, "alpha_loss": "server-label"},
    ISOLATED: {"name": "local"},
    LABELS: {"name": "local", "communal_epochs": DISTILLATION_EPOCHS},
}


def reading_members(_: StudyRequest) -> list[Member]:
    """The runs of ``fedfmrl-readings``."""
    members = []
    for beta in SKEWS:
        for label, method in METHODS.items():
            values: dict[str, Any] = {
                "task": {
                    "name": "digits",
                    "clients": CLIENTS,
                    "partition": {"name": "dirichlet", "alpha": beta},
                    "communal": 0.2,
                },
                "method": dict(method),
                "local": {"epochs": EPOCHS, "batch_size": 16, "lr": 0.1},
                "weight_by": "uniform",
                "rounds": ROUNDS,
                "eval_every": ROUNDS,
                "checkpoint_every": ROUNDS,
                "clients_on_global": True,
            }
            name = f"beta {beta:g}, {label}"
            members.append(Member(name, folder_name(name), values))
    return members


def reading_table(results: Results) -> StudyTable:
    """A row per reading: accuracy of clients for each beta, and of the server's model."""
    rows: list[tuple[str, ...]] = []
    for label in METHODS:
        cells: list[list[FmrlResult]] = [list(results[f"beta {beta:g}, {label}"]) for beta in SKEWS]
        has_server = METHODS[label]["name"] == "fedfmrl"
        clients = [accuracy_text(some, clients_of(some)) for some in cells]
        servers = [accuracy_text(some, servers_of(some)) if has_server else "–" for some in cells]
        rows.append((label, *clients, *servers))
    betas = [f"beta {beta:g}" for beta in SKEWS]
    columns = ("reading", *(f"clients, {beta}" for beta in betas), *(f"server, {beta}" for beta in betas))
    rows.append(baseline_row([results[f"{beta}, {ISOLATED}"] for beta in betas] * 2, len(columns)))
    return StudyTable("digits: accuracy (%) on the test set", columns, tuple(rows))


def reading_findings(results: Results) -> list[StudyFinding]:
    """What learning alpha is worth in each reading, and what communal labels alone are worth."""
    found = []
    for beta in (f"beta {one:g}" for one in SKEWS):
        pairs = [
            ("learned alpha is above drawn alpha (drawn once).", SOFTMAX, GAUSSIAN),
            ("learned alpha is above drawn alpha (in every step).", SOFTMAX_ALL, GAUSSIAN_ALL),
            ("softmax is above raw outputs (drawn once).", SOFTMAX, RAW),
            ("softmax is above raw outputs (in every step).", SOFTMAX_ALL, RAW_ALL),
            ("the server's label is above raw outputs (drawn once).", LABEL, RAW),
            ("alpha drawn in every step is above alpha drawn once (softmax).", SOFTMAX_ALL, SOFTMAX),
            ("learned alpha is above the plain mean (drawn once).", SOFTMAX, MEAN),
            ("learned alpha is above the plain mean (in every step).", SOFTMAX_ALL, MEAN),
            ("Control: learned alpha (in every step) is above communal labels alone.", SOFTMAX_ALL, LABELS),
        ]
        found += [client_finding(results, f"{beta}: {says}", f"{beta}, {a}", f"{beta}, {b}") for says, a, b in pairs]
        server, clients = servers_of(results[f"{beta}, {SOFTMAX}"]), clients_of(results[f"{beta}, {SOFTMAX}"])
        says = f"{beta}: Control: clients (softmax) are above the server's model, which communal labels alone train."
        found.append(ahead_finding(says, f"{mean_text(clients)} and {mean_text(server)}", clients, server))
    return found


def run_readings(request: StudyRequest) -> StudyOutcome:
    """Run the study."""
    results = run_results(request, reading_members(request))
    note = (
        f"digits, {CLIENTS} clients by Dir(beta), a fifth of the training images communal; {ROUNDS} rounds of {EPOCHS} "
        f"epochs, {DISTILLATION_EPOCHS} of distillation; mean ± standard deviation over {request.seeds} seeds."
    )
    title = "FedFMRL: readings of equation 6.6"
    found = tuple(reading_findings(results))
    return StudyOutcome("fedfmrl-readings", title, (reading_table(results),), found, (note,), plain_results(results))
