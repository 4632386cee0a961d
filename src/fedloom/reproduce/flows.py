"""The six experiments of a thesis on personalised federated learning for action flows, each as one study.

The document's curves are figures: what is held against our numbers are its findings, group by group. Corpus, clients,
model, batches, rounds and learning rate are of a scale of minutes (docs/reproduce.md); everything else is as in the
document: SGD, one local epoch, everybody takes part, the mean over the last five rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from fedloom.reproduce.flow_runs import (
    GROUPS,
    SETTINGS,
    Values,
    above,
    by_group,
    member,
    setting,
    slope,
    table,
    withheld,
)
from fedloom.reproduce.study import Asked, Finding, Outcome, Study, Table, ahead, spread
from fedloom.runs.history import History
from fedloom.runs.plans.plan import Member

ALL = ("Local", "Central", "FedAvg", "FedBABU", "FedRep", "LG-FedAvg", "AvgLG", "Dual")
NEAR = -0.005
"""Half a point: what the document calls equal."""
CORPORA = tuple(SETTINGS)


def _outcome(
    name: str, title: str, asked: Asked, parts: Sequence[Table], found: Sequence[Finding], values: object
) -> Outcome:
    note = (
        f"Corpus {_corpus(asked)}; mean ± standard deviation over {asked.seeds} seeds of the mean over a group's "
        "clients and the last five rounds, each client on its own test flows."
    )
    return Outcome(name, title, tuple(parts), tuple(found), (note,), {"values": values})


def _corpus(asked: Asked) -> str:
    return asked.data or CORPORA[0]


# -- E1: kinds


def _kind_members(asked: Asked) -> list[Member]:
    return [member(_corpus(asked), name) for name in ALL]


def _kind(asked: Asked) -> Outcome:
    runs = asked.play(_kind_members(asked))
    values = by_group(runs)
    found = [
        *(
            above(values, "small", better, worse)
            for better in ("FedAvg", "Dual")
            for worse in ("FedRep", "LG-FedAvg", "Local")
        ),
        above(values, "small", "FedRep", "LG-FedAvg"),
        above(values, "small", "FedAvg", "Central", NEAR),
        above(values, "small", "FedAvg", "AvgLG"),
        _decays(runs),
        *(above(values, "intermediate", better, "Local") for better in ("LG-FedAvg", "Dual", "FedRep")),
        above(values, "intermediate", "Local", "Central"),
        above(values, "intermediate", "LG-FedAvg", "FedAvg"),
        *(above(values, "big", better, "Local", NEAR) for better in ("LG-FedAvg", "Dual")),
        *(above(values, "big", better, "FedAvg") for better in ("LG-FedAvg", "Dual", "FedRep", "Local")),
        above(values, "big", "LG-FedAvg", "FedRep"),
        above(values, "big", "LG-FedAvg", "Central", 0.05),
        above(values, "big", "AvgLG", "LG-FedAvg", -0.01),
        *(_near_best(values, group) for group in GROUPS),
    ]
    title = "Kinds of the next action, by client size"
    return _outcome("flows-kind", title, asked, [table("accuracy (%)", values)], found, values)


def _decays(runs: dict[str, list[History]]) -> Finding:
    """FedHybridAvgLG averages private bodies: its small clients lose where FedAvg's gain."""
    hybrid, fedavg = ([slope(history, "small") for history in runs[name]] for name in ("AvgLG", "FedAvg"))
    says = "small: AvgLG falls from round to round, or gains less than FedAvg, whose curve does not fall."
    return ahead(says, f"late change {spread(fedavg)} (FedAvg) and {spread(hybrid)} (AvgLG)", fedavg, hybrid)


def _near_best(values: Values, group: str) -> Finding:
    best = max(values, key=lambda name: fmean(values[name][group]))
    says = f"{group}: Dual is within 2 points of the best."
    return above(values, group, "Dual", best, -0.02, says) if best != "Dual" else Finding(says, "it is the best.", True)


# -- E2: fine-tuning


TUNED = ("FedAvg", "FedBABU", "FedRep", "LG-FedAvg", "Dual")


def _tuned_members(asked: Asked) -> list[Member]:
    return [member(_corpus(asked), name, tuned=tuned) for name in TUNED for tuned in (False, True)]


def _tuned(asked: Asked) -> Outcome:
    values = by_group(asked.play(_tuned_members(asked)))
    found = [above(values, "small", f"{name}+FT", name) for name in ("FedAvg", "FedRep", "FedBABU", "Dual")]
    for group in ("intermediate", "big"):
        for name in ("LG-FedAvg", "Dual"):
            says = f"{group}: {name} gains nothing from fine-tuning (half a point at most)."
            found.append(above(values, group, name, f"{name}+FT", NEAR, says))
        found.append(above(values, group, "FedAvg+FT", "FedAvg"))
        found.append(above(values, group, "FedAvg+FT", "FedBABU+FT"))
    found.append(above(values, "intermediate", "FedAvg+FT", "LG-FedAvg+FT"))
    found.append(above(values, "big", "LG-FedAvg+FT", "FedAvg+FT"))
    title = "Kinds, with one epoch of fine-tuning before clients are scored"
    return _outcome("flows-finetune", title, asked, [table("accuracy (%)", values)], found, values)


# -- E3: subkinds


SUBKIND = {"name": "flows-subkind"}
COMPARED = ("Local", "Central", "FedAvg", "FedBABU", "FedRep", "LG-FedAvg", "Dual")


def _subkind_members(asked: Asked) -> list[Member]:
    task = SUBKIND if _corpus(asked) == "synthetic" else {}
    return [member(_corpus(asked), name, task=task) for name in COMPARED]


def _subkind(asked: Asked) -> Outcome:
    values = by_group(asked.play(_subkind_members(asked)))
    found = [
        *(above(values, "small", "Dual", worse, 0.08) for worse in ("LG-FedAvg", "FedRep", "Local")),
        above(values, "small", "Dual", "Central", NEAR),
        above(values, "intermediate", "FedRep", "Local"),
        above(values, "intermediate", "Local", "Dual"),
        *(above(values, "intermediate", "LG-FedAvg", worse) for worse in ("FedAvg", "Central")),
        above(values, "big", "Local", "Dual", NEAR),
        above(values, "big", "Dual", "FedRep"),
        above(values, "big", "FedRep", "FedAvg"),
    ]
    title = "Subkinds of the next action, by client size"
    return _outcome("flows-subkind", title, asked, [table("accuracy (%)", values)], found, values)


# -- E4: an action that some clients never trained on


PERSONAL, SHARED = ("Local", "LG-FedAvg", "FedRep", "Dual"), ("FedAvg", "FedBABU", "Central")


def _new_members(asked: Asked) -> list[Member]:
    without = {"withhold": withheld(_corpus(asked))}
    return [member(_corpus(asked), name, task=without) for name in (*PERSONAL, *SHARED)]


def _new(asked: Asked) -> Outcome:
    runs = asked.play(_new_members(asked))
    metric = "client_model/own_test/withheld_recall/mean"
    recall = {name: [fmean(history.series(metric)[1][-5:]) for history in some] for name, some in runs.items()}
    found = [
        Finding(
            f"{name} hardly ever predicts the withheld action (recall below 2 %).",
            f"{spread(recall[name])}.",
            fmean(recall[name]) < 0.02,
        )
        for name in PERSONAL
    ]
    found += [
        Finding(f"{name} predicts it (recall above 5 %).", f"{spread(recall[name])}.", fmean(recall[name]) > 0.05)
        for name in SHARED
    ]
    rows = tuple((name, spread(values)) for name, values in recall.items())
    part = Table("recall (%) of a withheld action at one intermediate and one big client", ("method", "recall"), rows)
    return _outcome("flows-new-action", "An action that a client never trained on", asked, [part], found, recall)


# -- E5 and E6: local epochs and learning rates


THREE = ("FedAvg", "LG-FedAvg", "Dual")
FACTORS = (100.0, 10.0, 1.0, 0.1)


def _epoch_members(asked: Asked) -> list[Member]:
    return [member(_corpus(asked), name, epochs=epochs) for name in THREE for epochs in (1, 5)]


def _epochs(asked: Asked) -> Outcome:
    values = by_group(asked.play(_epoch_members(asked)))
    found = [
        above(values, "small", "LG-FedAvg E=5", "LG-FedAvg"),
        above(values, "small", "Dual", "Dual E=5"),
        *(above(values, group, "FedAvg", "FedAvg E=5") for group in ("intermediate", "big")),
        *(above(values, "big", f"{name} E=5", name, NEAR) for name in ("LG-FedAvg", "Dual")),
    ]
    title = "Five local epochs in the place of one"
    return _outcome("flows-epochs", title, asked, [table("accuracy (%)", values)], found, values)


def _rates(asked: Asked) -> list[float]:
    return [setting(_corpus(asked)).lr * factor for factor in FACTORS]


def _rate_members(asked: Asked) -> list[Member]:
    return [member(_corpus(asked), name, lr=rate) for name in THREE for rate in _rates(asked)]


def _lr(asked: Asked) -> Outcome:
    runs = asked.play(_rate_members(asked), may_stop=True)  # the largest rate may diverge
    values = by_group(runs)
    worst, _, usual, _ = _rates(asked)
    found = []
    for name in THREE:
        for group in GROUPS:
            says = f"{group}: {name} is best with the usual rate, and worst with one a hundred times as large."
            found.append(above(values, group, f"{name} lr={usual:g}", f"{name} lr={worst:g}", 0.0, says))
    gaps = {
        name: [
            a - b
            for a, b in zip(
                values[f"{name} lr={usual:g}"]["small"], values[f"{name} lr={worst:g}"]["small"], strict=True
            )
        ]
        for name in ("Dual", "FedAvg")
    }
    found.append(ahead("small: the large rate hurts Dual more than FedAvg.", "gap", gaps["Dual"], gaps["FedAvg"]))
    return _outcome("flows-lr", "Four learning rates", asked, [table("accuracy (%)", values)], found, values)


def _study(
    name: str, about: str, run: Callable[[Asked], Outcome], members: Callable[[Asked], Sequence[Member]]
) -> Study:
    return Study(name, about, run, members, data=CORPORA)


STUDIES = (
    _study("flows-kind", "next action's kind: who serves small, intermediate and big clients", _kind, _kind_members),
    _study("flows-finetune", "the same with fine-tuning before clients are scored", _tuned, _tuned_members),
    _study("flows-subkind", "next action's subkind", _subkind, _subkind_members),
    _study("flows-new-action", "recall of an action that some clients never trained on", _new, _new_members),
    _study("flows-epochs", "five local epochs in the place of one", _epochs, _epoch_members),
    _study("flows-lr", "four learning rates", _lr, _rate_members),
)
