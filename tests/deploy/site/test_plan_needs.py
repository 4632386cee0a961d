"""A site measures what its signed plan needs, however often and whatever a server asks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from fedloom.deploy.protocol.wire import REFUSED, RequestKind, SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.settings import PolicySettings
from fedloom.deploy.site.plan_needs import PlanNeeds
from fedloom.deploy.site.process import SiteProcess
from support.local_transport import Local, Plan, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
ROUNDS, EVERY = 8, 3
SOUTH = 1


@cache
def plan(spec: str = "fedavg", selection: str = "random", **settings: Any) -> Plan:
    return Plan.of(spec, rounds=ROUNDS, eval_every=EVERY, selection={"name": selection, **settings})


def needs_of(spec: str = "fedavg", selection: str = "random", client: int = SOUTH, **settings: Any) -> PlanNeeds:
    found = plan(spec, selection, **settings)
    return PlanNeeds.of(found.blueprint, found.runtime.algorithm, client)


def request(kind: RequestKind, number: int, turn: int = 0, measure: bool = False) -> SiteRequest:
    return SiteRequest(run="d", ticket="t", kind=kind, round=number, turn=turn, measure=measure)


def test_scores_are_given_in_the_rounds_of_the_plan_alone() -> None:
    needs = needs_of()
    assert [n for n in range(ROUNDS + 1) if not needs.forbids(request("score", n))] == [0, 3, 6, 8]
    assert "scored every 3 rounds" in needs.forbids(request("score", 4))
    assert "eval_every = 0" in replace(needs, eval_every=0).forbids(request("score", ROUNDS))


def test_a_method_that_ends_early_is_scored_where_it_ends() -> None:
    assert not needs_of("fedavgexit").forbids(request("score", 4))


def test_a_loss_is_given_to_selectors_that_look_at_losses() -> None:
    assert needs_of().forbids(request("ask", 1)) == "the selector of this run asks for no loss"
    asks = needs_of(selection="powerofchoice", number=1)
    assert not asks.forbids(request("ask", 1))
    assert asks.forbids(request("ask", 1, measure=True)) == "the selector of this run asks for no loss on training data"
    documents = needs_of(selection="powerofchoice", number=1, loss_on="training")
    assert not documents.forbids(request("ask", 1, measure=True))
    assert not needs_of(selection="powerofchoice").forbids(request("ask", 1))


def test_the_shared_model_is_scored_by_the_evaluator() -> None:
    assert "not the evaluator" in needs_of().forbids(request("global", 3))
    evaluator = needs_of(client=len(plan().blueprint.sites))
    assert not evaluator.forbids(request("global", 3))
    assert evaluator.forbids(request("global", 4))


def test_what_is_not_training_is_asked_for_once_in_a_round() -> None:
    assert not needs_of().forbids(request("update", 1, turn=1))  # the method's turns bound that (``RequestCount``)
    assert needs_of().forbids(request("score", 3, turn=1))


def ask(site: SiteProcess, kind: str, number: int, value: float, **header: Any) -> str:
    """The error of a site's answer to a request about some model."""
    row = torch.full_like(plan().blueprint.initial, value)
    tensors = {"rows": row[None]} if kind == "judge" else {"shared/row": row}
    about = {"run": site.blueprint.plan_digest, "ticket": f"{kind} {number} {value}", "kind": kind, "round": number}
    sent = SiteRequest.model_validate(about | header)
    return unpack(site.answer(pack(sent, tensors)), SiteAnswer, 1 << 40)[0].error


def test_a_greedy_server_gets_no_more_models_scored_than_its_plan_and_some_repetitions(tmp_path: Path) -> None:
    """Every kind, round and turn, ten models each: by default an honest run has four of them scored."""
    local = Local(plan(), tmp_path)
    local.policy = PolicySettings(repeats=5)
    site = local.site(SOUTH)
    answered = {
        (kind, number, turn, value)
        for kind in ("score", "ask", "global", "judge", "model")
        for number in range(ROUNDS + 1)
        for turn in range(3)
        for value in range(10)
        if not ask(site, kind, number, value / 100, turn=turn)
    }
    assert {(kind, turn) for kind, _, turn, _ in answered} == {("score", 0)}
    assert len(answered) == 4 + 5


def test_sites_models_are_compared_once_at_the_end_and_only_where_the_site_agrees(tmp_path: Path) -> None:
    site = Local(plan(), tmp_path / "a").site(SOUTH)
    assert ask(site, "judge", ROUNDS, 0.0) == f"{REFUSED}it does not score the models of other sites (model = false)"
    local = Local(plan(), tmp_path / "b")
    local.policy = PolicySettings(model=True)
    site = local.site(SOUTH)
    for kind in ("model", "judge"):
        assert "when the run has ended" in ask(site, kind, ROUNDS, 0.0)
    assert ask(site, "finish", ROUNDS, 0.5) == ""
    assert ask(site, "model", ROUNDS, 0.0) == ""
    assert ask(site, "judge", ROUNDS, 0.1) == ""
    assert ask(site, "judge", ROUNDS, 0.1, ticket="after a crash") == ""  # the same models: the same answer
    assert "has scored other models" in ask(site, "judge", ROUNDS, 0.2)
