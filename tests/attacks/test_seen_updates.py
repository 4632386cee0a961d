"""What a server sees follows from what a method declares: weights, changes, and parts of a model in their places."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.seen_updates import columns_on_the_way, received_models
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.config.compatibility import conflict
from fedloom.core.declarations import Model, Update
from fedloom.core.facts import Fact, NamedPart, holds
from fedloom.registry.kinds import METHODS

ROUND = {"rounds": 1, "eval_every": 0, "local": {"lr": 0.1}}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, model="mlp")


def test_scaffold_and_fedavg_show_the_same_changes_in_round_1(task):
    plain, scaffold = (updates_of_run(task, method, **ROUND)[0] for method in ("fedavg", "scaffold"))
    for one, other in zip(plain, scaffold, strict=True):
        assert (one.clients, one.samples, one.steps) == (other.clients, other.samples, other.steps)
        torch.testing.assert_close(one.change, other.change, atol=1e-6, rtol=0)


def test_the_body_is_in_its_place_and_the_head_is_the_initial_one(task):
    seen, _ = updates_of_run(task, "fedper", **ROUND)
    plain, _ = updates_of_run(task, "fedavg", **ROUND)
    body = task.layout.columns("body")
    for one, whole in zip(seen, plain, strict=True):
        assert torch.equal(one.columns, body)
        assert not one.change[~body].any()
        assert torch.equal(one.row, task.initial_row())
        torch.testing.assert_close(one.change[body], whole.change[body])
        assert len(one.take_sent(one.trained)) == int(body.sum())


def test_clients_that_choose_a_model_start_from_the_one_that_they_chose(task):
    seen, _ = updates_of_run(task, "ifca:clusters=2", **ROUND)
    rows = {tuple(one.row[:5].tolist()) for one in seen}
    assert 1 <= len(rows) <= 2
    assert max(float(one.change.norm()) for one in seen) < 5, "a step, and no distance between two models"


def test_of_a_sum_of_parts_there_is_one_change(task):
    (seen,), _ = updates_of_run(task, "fedper", **ROUND, channel=["securesum"])
    alone, _ = updates_of_run(task, "fedper", **ROUND, weight_by="samples")
    weights = torch.tensor([one.samples for one in alone]).double()
    mean = (torch.stack([one.change for one in alone]) * (weights / weights.sum())[:, None]).sum(0)
    assert seen.of_sum
    torch.testing.assert_close(seen.change, mean, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", list(METHODS))
def test_no_method_whose_server_gets_updates_is_refused_for_what_it_is(name):
    method = METHODS.make(name)
    updates = [one for one in method.sends.values() if isinstance(one, Model | Update)]
    models = [one for one in method.receives.values() if isinstance(one, Model)]
    refused = conflict(NamedPart.of(fl.LinearLeak()), NamedPart.of(method, name))
    reads = bool(updates and models) and holds(Fact.EXCHANGES, method)
    assert (refused is None) is reads or Fact.GRAPHS in method.needs, refused
    if reads:
        assert received_models(method.sends, method.receives), "the server knows which model clients start from"


def test_undeclared_columns_are_all_columns(task):
    every = columns_on_the_way({"row": Model("all")}, task)
    assert bool(every.all())
    part = columns_on_the_way({"row": Model("a part", columns=lambda task: task.layout.columns("head"))}, task)
    assert torch.equal(part, task.layout.columns("head"))
    assert not columns_on_the_way({"loss": fl.Scalar("no weights")}, task).any()


def test_a_part_that_says_nothing_of_its_columns_is_not_taken_for_the_model(task):
    from fedloom.methods.fedper import FedPer

    class Silent(FedPer):
        sends = {"body": Model("a part, and nobody says which")}  # noqa: RUF012

    with pytest.raises(fl.FedloomError, match="saw no model come back"):
        updates_of_run(task, Silent(), **ROUND)
