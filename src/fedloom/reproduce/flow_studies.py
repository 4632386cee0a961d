"""The six experiments of a thesis on personalised federated learning for action flows, each as one study.

The document shows curves as figures, so we compare its findings, group by group. Corpus, clients, model, batches,
rounds and learning rate are scaled down to minutes (docs/reproduce.md). Everything else is as in the document: SGD, one
local epoch, all clients take part, the mean over the last five rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from fedloom.reproduce.flow_study_runs import (
    GROUPS,
    SETTINGS,
    Values,
    above_finding,
    by_group,
    corpus_setting,
    group_table,
    member,
    round_changes,
    share_of_rounds_above,
    withheld_action,
)
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
from fedloom.runs.plans.members import Member
from fedloom.runs.results.history import History

ALL = ("Local", "Central", "FedAvg", "FedBABU", "FedRep", "LG-FedAvg", "AvgLG", "Dual")
NEAR = -0.005
"""Half a point: what the document calls equal."""
CORPORA = tuple(SETTINGS)


def _outcome(
    name: str,
    title: str,
    request: StudyRequest,
    parts: Sequence[StudyTable],
    found: Sequence[StudyFinding],
    values: object,
) -> StudyOutcome:
    note = (
        f"Corpus {_corpus(request)}; mean ± standard deviation over {request.seeds} seeds of the mean over a group's "
        "clients and the last five rounds, each client on its own test flows."
    )
    return StudyOutcome(name, title, tuple(parts), tuple(found), (note,), {"values": values})


def _corpus(request: StudyRequest) -> str:
    return request.data or CORPORA[0]


# -- E1: kinds


def _kind_members(request: StudyRequest) -> list[Member]:
    return [member(_corpus(request), name) for name in ALL]


def _kind(request: StudyRequest) -> StudyOutcome:
    runs = request.run(_kind_members(request))
    values = by_group(runs)
    found = [
        *(
            above_finding(values, "small", better, worse)
            for better in ("FedAvg", "Dual")
            for worse in ("FedRep", "LG-FedAvg", "Local")
        ),
        above_finding(values, "small", "FedRep", "LG-FedAvg"),
        above_finding(values, "small", "FedAvg", "Central", NEAR),
        _worst_finding(values, "small", "AvgLG"),
        _falling_finding(runs, "small", "AvgLG"),
        _rounds_finding(runs, "small", "FedAvg", "Central", "many", 0.5),
        *(above_finding(values, "intermediate", better, "Local", 0.003) for better in ("LG-FedAvg", "FedRep")),
        *(above_finding(values, "intermediate", better, "Central", 0.02) for better in ("LG-FedAvg", "FedRep")),
        _rounds_finding(runs, "intermediate", "Dual", "LG-FedAvg", "some", 0.0),
        above_finding(values, "intermediate", "LG-FedAvg", "AvgLG"),
        above_finding(values, "intermediate", "LG-FedAvg", "FedAvg"),
        above_finding(values, "big", "LG-FedAvg", "Local", 0.001),
        _rounds_finding(runs, "big", "Dual", "LG-FedAvg", "some", 0.0),
        *(above_finding(values, "big", better, "FedAvg") for better in ("LG-FedAvg", "Dual", "FedRep", "Local")),
        above_finding(values, "big", "LG-FedAvg", "FedRep"),
        above_finding(values, "big", "LG-FedAvg", "Central", 0.07),
        _between_finding(values, "big", "LG-FedAvg", "AvgLG", 0.001, 0.006),
        *(_near_best_finding(values, group) for group in GROUPS),
    ]
    title = "Kinds of the next action, by client size"
    return _outcome("flows-kind", title, request, [group_table("accuracy (%)", values, runs)], found, values)


def _worst_finding(values: Values, group: str, name: str) -> StudyFinding:
    """A method is the worst of all: it is held against the one that is next to it."""
    others = [other for other in values if other != name]
    lowest = min(others, key=lambda other: fmean(values[other][group]))
    return above_finding(values, group, lowest, name, 0.0, f"{group}: {name} is the worst of all.")


def _falling_finding(runs: Mapping[str, Sequence[History]], group: str, name: str) -> StudyFinding:
    """A method gets worse in every round, as the document prints it, and not only on average."""
    falls = [fall for history in runs[name] for fall in round_changes(history, group)]
    share = sum(change < 0 for change in falls) / len(falls)
    says = f"{group}: {name} falls in every round."
    return StudyFinding(says, f"it falls in {100 * share:.0f} % of the rounds.", share == 1)


def _rounds_finding(
    runs: Mapping[str, Sequence[History]], group: str, better: str, worse: str, words: str, least: float
) -> StudyFinding:
    """One method is above another in some, or many, rounds: in more than a share of them, with every seed."""
    shares = [share_of_rounds_above(*pair, group) for pair in zip(runs[better], runs[worse], strict=True)]
    says = f"{group}: {better} is above {worse} in {words} rounds."
    return StudyFinding(says, f"in {mean_text(shares)} % of the rounds.", min(shares) > least)


def _between_finding(values: Values, group: str, better: str, worse: str, low: float, high: float) -> StudyFinding:
    """One method is above another by a printed range; within noise is not decided."""
    gaps = gaps_of(values[better][group], values[worse][group])
    above = above_finding(values, group, better, worse, low)
    says = f"{group}: {better} is above {worse} by {100 * low:g} to {100 * high:g} points."
    return StudyFinding(says, above.ours, None if above.holds is None else above.holds and fmean(gaps) <= high)


def _near_best_finding(values: Values, group: str) -> StudyFinding:
    best = max(values, key=lambda name: fmean(values[name][group]))
    says = f"{group}: Dual is within 2 points of the best."
    return (
        above_finding(values, group, "Dual", best, -0.02, says)
        if best != "Dual"
        else StudyFinding(says, "it is the best.", True)
    )


# -- E2: fine-tuning


TUNED = ("FedAvg", "FedBABU", "FedRep", "LG-FedAvg", "Dual")


def _finetune_members(request: StudyRequest) -> list[Member]:
    return [member(_corpus(request), name, tuned=tuned) for name in TUNED for tuned in (False, True)]


def _finetune(request: StudyRequest) -> StudyOutcome:
    runs = request.run(_finetune_members(request))
    values = by_group(runs)
    found = [above_finding(values, "small", f"{name}+FT", name) for name in ("FedAvg", "FedRep", "FedBABU", "Dual")]
    for group in ("intermediate", "big"):
        for name in ("LG-FedAvg", "Dual"):
            says = f"{group}: {name} gains nothing from fine-tuning (half a point at most)."
            found.append(above_finding(values, group, name, f"{name}+FT", NEAR, says))
        found.append(above_finding(values, group, "FedAvg+FT", "FedAvg"))
        found.append(above_finding(values, group, "FedAvg+FT", "FedBABU+FT"))
    found.append(above_finding(values, "intermediate", "FedAvg+FT", "LG-FedAvg+FT"))
    found.append(above_finding(values, "big", "LG-FedAvg+FT", "FedAvg+FT"))
    title = "Kinds, with one epoch of fine-tuning before clients are scored"
    return _outcome("flows-finetune", title, request, [group_table("accuracy (%)", values, runs)], found, values)


# -- E3: subkinds


SUBKIND = {"name": "flows-subkind"}
COMPARED = ("Local", "Central", "FedAvg", "FedBABU", "FedRep", "LG-FedAvg", "Dual")


def _subkind_members(request: StudyRequest) -> list[Member]:
    return [member(_corpus(request), name, task=SUBKIND) for name in COMPARED]


def _subkind(request: StudyRequest) -> StudyOutcome:
    runs = request.run(_subkind_members(request))
    values = by_group(runs)
    found = [
        *(above_finding(values, "small", "Dual", worse, 0.08) for worse in ("LG-FedAvg", "FedRep", "Local")),
        above_finding(values, "small", "Dual", "Central", NEAR),
        above_finding(values, "intermediate", "FedRep", "Local"),
        above_finding(values, "intermediate", "Local", "Dual"),
        *(above_finding(values, "intermediate", "LG-FedAvg", worse) for worse in ("FedAvg", "Central")),
        above_finding(values, "big", "Local", "Dual", NEAR),
        above_finding(values, "big", "Dual", "FedRep"),
        above_finding(values, "big", "FedRep", "FedAvg"),
    ]
    title = "Subkinds of the next action, by client size"
    return _outcome("flows-subkind", title, request, [group_table("accuracy (%)", values, runs)], found, values)


# -- E4: an action that some clients never trained on


PERSONAL, SHARED = ("Local", "LG-FedAvg", "FedRep", "Dual"), ("FedAvg", "FedBABU", "Central")


def _new_action_members(request: StudyRequest) -> list[Member]:
    without = {"withhold": withheld_action(_corpus(request))}
    return [member(_corpus(request), name, task=without) for name in (*PERSONAL, *SHARED)]


def _new_action(request: StudyRequest) -> StudyOutcome:
    runs = request.run(_new_action_members(request))
    metric = "client_model/own_test/withheld_recall/mean"
    recall = {name: [fmean(history.series(metric)[1][-5:]) for history in some] for name, some in runs.items()}
    found = [
        StudyFinding(
            f"{name} hardly ever predicts the withheld action (recall below 2 %).",
            f"{mean_text(recall[name])}.",
            fmean(recall[name]) < 0.02,
        )
        for name in PERSONAL
    ]
    found += [
        StudyFinding(
            f"{name} predicts it (recall above 5 %).", f"{mean_text(recall[name])}.", fmean(recall[name]) > 0.05
        )
        for name in SHARED
    ]
    rows = tuple((name, mean_text(values)) for name, values in recall.items())
    part = StudyTable(
        "recall (%) of a withheld action at one intermediate and one big client", ("method", "recall"), rows
    )
    return _outcome("flows-new-action", "An action that a client never trained on", request, [part], found, recall)


# -- E5 and E6: local epochs and learning rates


THREE = ("FedAvg", "LG-FedAvg", "Dual")
FACTORS = (100.0, 10.0, 1.0, 0.1)


def _epoch_members(request: StudyRequest) -> list[Member]:
    return [member(_corpus(request), name, epochs=epochs) for name in THREE for epochs in (1, 5)]


def _epochs(request: StudyRequest) -> StudyOutcome:
    runs = request.run(_epoch_members(request))
    values = by_group(runs)
    found = [
        above_finding(values, "small", "LG-FedAvg E=5", "LG-FedAvg"),
        above_finding(values, "small", "Dual", "Dual E=5"),
        *(above_finding(values, group, "FedAvg", "FedAvg E=5") for group in ("intermediate", "big")),
        *(above_finding(values, "big", f"{name} E=5", name, NEAR) for name in ("LG-FedAvg", "Dual")),
    ]
    title = "Five local epochs instead of one"
    return _outcome("flows-epochs", title, request, [group_table("accuracy (%)", values, runs)], found, values)


def _rates(request: StudyRequest) -> list[float]:
    return [corpus_setting(_corpus(request)).lr * factor for factor in FACTORS]


def _rate_members(request: StudyRequest) -> list[Member]:
    return [member(_corpus(request), name, lr=rate) for name in THREE for rate in _rates(request)]


def _lr(request: StudyRequest) -> StudyOutcome:
    runs = request.run(_rate_members(request), may_stop=True)  # the largest rate may diverge
    values = by_group(runs)
    worst, _, usual, _ = _rates(request)
    found = []
    for name in THREE:
        for group in GROUPS:
            says = f"{group}: {name} is best with the usual rate, and worst with one a hundred times as large."
            found.append(above_finding(values, group, f"{name} lr={usual:g}", f"{name} lr={worst:g}", 0.0, says))
    gaps = {
        name: gaps_of(values[f"{name} lr={usual:g}"]["small"], values[f"{name} lr={worst:g}"]["small"])
        for name in ("Dual", "FedAvg")
    }
    found.append(
        ahead_finding("small: the large rate hurts Dual more than FedAvg.", "gap", gaps["Dual"], gaps["FedAvg"])
    )
    return _outcome(
        "flows-lr", "Four learning rates", request, [group_table("accuracy (%)", values, runs)], found, values
    )


def _study(
    name: str,
    about: str,
    run: Callable[[StudyRequest], StudyOutcome],
    members: Callable[[StudyRequest], Sequence[Member]],
) -> Study:
    return Study(name, about, run, members, data=CORPORA)


STUDIES = (
    _study("flows-kind", "next action's kind: who serves small, intermediate and big clients", _kind, _kind_members),
    _study("flows-finetune", "the same with fine-tuning before clients are scored", _finetune, _finetune_members),
    # The nodes of n8n have no subkinds: only the synthetic corpus does.
    Study("flows-subkind", "next action's subkind", _subkind, _subkind_members, data=CORPORA[:1]),
    _study(
        "flows-new-action", "recall of an action that some clients never trained on", _new_action, _new_action_members
    ),
    _study("flows-epochs", "five local epochs instead of one", _epochs, _epoch_members),
    _study("flows-lr", "four learning rates", _lr, _rate_members),
)
