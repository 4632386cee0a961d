"""A withheld class: what is taken from whom, and the recall of it, by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.config.resolve import resolve, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.changes.concept_drift import with_concept_drift
from fedloom.data.changes.withheld_class import with_withheld_class
from fedloom.data.federation import Federation, Ragged
from support.quadratic import quadratic
from support.synthetic import mlp

WORK = {"epochs": 2, "batch_size": 8, "lr": 0.5}
RECALL = "client_model/own_test/withheld_recall"


def federation_of(
    train: list[list[int]], test: list[list[int]] | None = None, valid: list[list[int]] | None = None
) -> Federation:
    """Clients with samples of these classes (of 4) in their parts; test and validation like train unless given."""
    labels: list[int] = []
    parts = []
    for part in (train, test or train, valid or train):
        lists = []
        for own in part:
            lists.append(list(range(len(labels), len(labels) + len(own))))
            labels += own
        parts.append(Ragged.of(lists))
    y = torch.tensor(labels)
    x = torch.randn(len(y), 20, generator=torch.Generator().manual_seed(0)) + 2 * torch.eye(4, 20)[y]
    return Federation({"x": x, "y": y}, *parts, 4)


MANY = [[0, 1, 2, 3] * 5, [0, 1, 2] * 6, [1, 1, 3, 3] * 4, [0, 2, 3] * 6, [1, 3] * 5]


def labels(federation: Federation, part: str, client: int) -> list[int]:
    return federation.columns["y"][getattr(federation, part)[client]].tolist()


@given(st.sets(st.sampled_from([0, 2, 3, 4]), min_size=1))
def test_the_class_is_gone_from_train_and_validation_of_the_chosen_and_nothing_else_is(chosen):
    before = federation_of(MANY)
    after = with_withheld_class(before, 3, sorted(chosen))
    assert after.withheld == (3, tuple(sorted(chosen)))
    for client, own in enumerate(MANY):
        left = [label for label in own if label != 3] if client in chosen else own
        assert labels(after, "train", client) == labels(after, "valid", client) == left
        assert labels(after, "test", client) == own
    assert after.columns is before.columns


def test_a_number_of_clients_is_drawn_among_those_who_can_lose_the_class():
    before = federation_of([*MANY, [3, 3], [3, 1]], [*MANY, [3], [1]])
    drawn = {with_withheld_class(before, 3, 2, seed).withheld[1] for seed in range(20)}
    assert len(drawn) > 1
    assert {client for pair in drawn for client in pair} == {0, 2, 3, 4}  # 1 lacks it, 5 has only it, 6 tests none
    assert all(len(pair) == 2 for pair in drawn)
    assert with_withheld_class(before, 3, 2, 7).withheld == with_withheld_class(before, 3, 2, 7).withheld


@pytest.mark.parametrize(
    ("label", "clients", "reason"),
    [
        (4, [0], "the data have the classes 0 to 3"),
        (-1, [0], "the data have the classes 0 to 3"),
        (3, [9], "clients are numbered 0 to 6"),
        (3, [1], "no training sample of that class"),
        (3, [6], "no test sample of that class"),
        (3, [5], "no training sample left"),
        (3, [0, 0], "each only once"),
        (3, [], "at least one client"),
        (3, 0, "4 clients have class 3"),
        (3, 5, "4 clients have class 3"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(label, clients, reason):
    with pytest.raises(FedloomError, match=reason):
        with_withheld_class(federation_of([*MANY, [3, 3], [3, 1]], [*MANY, [3], [1]]), label, clients)


def test_it_is_refused_where_there_are_no_classes_and_after_a_drift():
    with pytest.raises(FedloomError, match="have no classes"):
        with_withheld_class(quadratic([1.0, 2.0]).federation, 0, [0])
    with pytest.raises(FedloomError, match="before concept drift"):
        with_withheld_class(with_concept_drift(federation_of(MANY), [3]), 3, [0])
    with pytest.raises(FedloomError, match="only one class can be withheld, once"):
        with_withheld_class(with_withheld_class(federation_of(MANY), 3, [0]), 2, [0])


# -- the recall


def task(clients: list[int]) -> Task:
    return Task("t", with_withheld_class(federation_of(MANY), 3, clients), mlp(classes=4))


def run(method: str, task: Task, **settings) -> fl.History:
    return fl.run(task, method, **{"rounds": 4, "seed": 3, "local": WORK, **settings})


def recalls(history: fl.History, task: Task) -> list[float]:
    """The share of each chosen client's test samples of class 3 that the global model recognises."""
    held, model, found = task.federation, history.model(task), []
    for client in held.withheld[1]:
        asked = [p for p in held.test[client].tolist() if held.columns["y"][p] == 3]
        said = model(held.columns["x"][asked]).argmax(1).tolist()
        found.append(said.count(3) / len(said))
    return found


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_recall_of_the_global_model_by_hand(execution, workers):
    some = task([2, 4])
    history = run("fedavg", some, execution=execution, workers=workers)
    found = recalls(history, some)
    assert sum(found) > 0  # others taught the class
    assert history.last(f"{RECALL}/mean") == pytest.approx(sum(found) / 2)
    assert history.last(f"{RECALL}/std") == pytest.approx(abs(found[0] - found[1]) / 2)
    sizes = [len(some.federation.train[client]) for client in (2, 4)]
    weighted = (found[0] * sizes[0] + found[1] * sizes[1]) / sum(sizes)
    assert history.last(f"{RECALL}/weighted") == pytest.approx(weighted)


def test_who_trains_alone_never_predicts_a_class_it_never_saw_and_centralised_training_does():
    assert run("local", task([2, 4]), rounds=8).last(f"{RECALL}/mean") == 0.0
    pooled = run("centralised", task([2, 4]), rounds=8)
    assert pooled.last(f"{RECALL}/mean") == pytest.approx(sum(recalls(pooled, task([2, 4]))) / 2)
    assert pooled.last(f"{RECALL}/mean") > 0.5


def test_without_a_withheld_class_there_is_no_recall_of_it():
    names = run("fedavg", Task("t", federation_of(MANY), mlp(classes=4)), rounds=1).records[-1]["metrics"]
    assert not [name for name in names if "recall" in name]


def test_a_named_task_withholds_by_its_settings_and_writes_them_down():
    plan = {"label": 3, "clients": 2}
    made = fl.task("digits", clients=6, alpha=1.0, withhold=plan, seed=1)
    assert made.made_from["withhold"] == plan
    label, chosen = made.federation.withheld
    assert label == 3
    assert len(chosen) == 2
    config = resolve({"seed": 1, "task": {"clients": 6, "partition": "dirichlet(1.0)", "withhold": plan}})
    assert task_from_config(config).federation.withheld == (3, chosen)
    history = fl.run(made, rounds=1)
    assert history.config["task"]["withhold"] == plan
    assert f"{RECALL}/mean" in history.records[-1]["metrics"]
    with pytest.raises(FedloomError, match=r"Did you mean 'task\.withhold\.label'"):
        resolve({"task": {"withhold": {**plan, "labels": 3}}})
    with pytest.raises(FedloomError, match=r"task\.withhold\.clients"):
        resolve({"task": {"withhold": {"label": 3, "clients": "all"}}})
