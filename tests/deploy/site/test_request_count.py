"""Rounds are counted at the site, over restarts: a server gets what was agreed and some repetitions, and no more."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.wire import SiteRequest
from fedloom.deploy.settings import PolicySettings, SiteSettings
from fedloom.deploy.site.policy import Policy, Refused
from fedloom.deploy.site.request_count import FILE, RequestCount
from fedloom.methods.fedavg import FedAvg
from support.local_transport import Local, Plan, blueprint, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
ROUNDS = 3
SITE = SiteSettings(name="north", client=0)
SPECS = ("fedavg", "fedseq:passes=3,grouping=random")


def policy_of(**settings: Any) -> Policy:
    return Policy(PolicySettings(**settings), "d", "fedavg on digits", "fedavg", FedAvg.sends, (), ROUNDS, 10, False)


class Site:
    """A site that is restarted before every request."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.policy, self.tickets = folder, policy_of(**settings), 0

    def ask(self, kind: str, number: int, turn: int = 0, ticket: str = "", value: float = 0.0, run: str = "d") -> bool:
        self.tickets += 1
        about = {"run": run, "ticket": ticket or str(self.tickets), "kind": kind, "round": number, "turn": turn}
        request, tensors = SiteRequest.model_validate(about), {"shared/row": torch.full((3,), value)}
        count = RequestCount.read(self.folder, "d")
        does = count.admit(request, tensors, self.policy)
        if kind == "finish" and does:
            count.note_final(request, tensors)
        return does


def test_rounds_are_counted_over_restarts(tmp_path):
    site = Site(tmp_path, rounds=2, repeats=0)
    assert site.ask("update", 0)  # what comes before the first round is no round
    assert site.ask("update", 1)
    assert site.ask("update", 3)
    assert site.ask("score", 3)  # each kind is counted by itself
    with pytest.raises(Refused, match="asked again 0 times"):
        site.ask("update", 2)


def test_no_more_rounds_than_the_policy_allows(tmp_path):
    site = Site(tmp_path, rounds=2)
    for number in (1, 2):
        site.ask("update", number)
    with pytest.raises(Refused, match="it has taken part in 2 rounds, and no more are allowed"):
        site.ask("update", 3)


def test_a_site_that_joins_late_has_its_rounds_still_before_it(tmp_path):
    site = Site(tmp_path, rounds=1)
    assert site.ask("update", 3)


def test_no_round_beyond_those_of_the_run(tmp_path):
    with pytest.raises(Refused, match="round 4 is beyond the 3 rounds of the run"):
        Site(tmp_path, rounds=100).ask("update", 4)


def test_a_ticket_is_no_way_around_the_counts(tmp_path):
    site = Site(tmp_path, rounds=1, repeats=0, turns=1)
    site.ask("update", 1, ticket="a", value=1.0)
    assert site.ask("update", 1, ticket="a", value=1.0)
    for number, turn, value in ((1, 0, 2.0), (1, 1, 1.0), (2, 0, 1.0)):
        with pytest.raises(Refused, match=r"no more|the limit is 1"):
            site.ask("update", number, turn, ticket="a", value=value)


def test_repetitions_are_counted_and_a_request_that_is_sent_again_is_none(tmp_path):
    site = Site(tmp_path, repeats=2)
    site.ask("update", 1, ticket="a")
    for _ in range(5):
        assert site.ask("update", 1, ticket="a")  # this site restarted, and the server asked the same again
    site.ask("update", 1)
    site.ask("update", 2)
    site.ask("update", 1)
    with pytest.raises(Refused, match="asked again 2 times"):
        site.ask("update", 2)
    assert site.ask("update", 3)
    assert site.ask("score", 1)  # each kind has its own count


def test_by_default_as_many_repetitions_as_rounds_and_at_least_twenty(tmp_path):
    site = Site(tmp_path)
    for _ in range(21):
        site.ask("update", 1)
    with pytest.raises(Refused):
        site.ask("update", 1)


def test_turns_of_one_round_are_bounded_and_are_no_repetitions(tmp_path):
    site = Site(tmp_path, repeats=0, turns=3)
    for number in (1, 2):
        for turn in range(3):
            assert site.ask("update", number, turn)
    with pytest.raises(Refused, match="asked 4 times in one round, and the limit is 3"):
        site.ask("update", 3, 3)


def test_not_set_a_method_is_asked_for_as_many_turns_as_it_declares(tmp_path):
    with pytest.raises(Refused, match="asked 2 times in one round, and the limit is 1"):
        Site(tmp_path).ask("update", 1, 1)
    policies = [Policy.of(SITE, made, made.runtime(made.server_task({}))) for made in map(blueprint, SPECS)]
    assert [policy.turns for policy in policies] == [1, 3]
    assert fl.FedHybridAvgLG(threshold="auto", probe_rounds=20).turns == 21  # before the first round


def test_the_final_model_is_saved_once_and_nobody_replaces_it(tmp_path):
    site = Site(tmp_path)
    assert site.ask("update", ROUNDS)
    assert site.ask("finish", ROUNDS, value=1.0)
    assert not site.ask("finish", ROUNDS, value=1.0)  # the server did not hear the answer: nothing is to be done
    with pytest.raises(Refused, match="the model after round 3 is saved"):
        site.ask("finish", ROUNDS, value=2.0)
    with pytest.raises(Refused, match="the model after round 3 is saved"):
        site.ask("finish", 2, value=1.0)
    for kind in ("update", "ask"):
        with pytest.raises(Refused, match="the 3 agreed rounds are over"):
            site.ask(kind, ROUNDS)


def test_a_run_that_ended_early_may_go_on(tmp_path):
    site = Site(tmp_path)
    assert site.ask("finish", 1)
    assert site.ask("update", 2)
    assert site.ask("finish", 2)


def test_another_run_is_counted_anew(tmp_path):
    Site(tmp_path).ask("finish", ROUNDS)
    assert RequestCount.read(tmp_path, "another").finished == -1


# -- new runs of the same plan


def test_a_new_run_is_counted_anew_and_the_one_before_is_over(tmp_path):
    site = Site(tmp_path)
    for run in ("d-1", "d-2"):
        for number in range(1, ROUNDS + 1):
            assert site.ask("update", number, run=run)
        assert site.ask("finish", ROUNDS, run=run)
        with pytest.raises(Refused, match="agreed rounds are over"):
            site.ask("update", ROUNDS, run=run)  # the same run again
    with pytest.raises(Refused, match="its run is over, since a later one has begun"):
        site.ask("update", 1, run="d-1")


def test_new_runs_end_where_the_policy_says(tmp_path):
    site = Site(tmp_path, new_runs=1)
    for run in ("d-1", "d-2"):
        site.ask("update", 1, run=run)
    with pytest.raises(Refused, match="new_runs = 1 of those are allowed"):
        site.ask("update", 1, run="d-3")


def test_rounds_of_a_policy_are_counted_over_new_runs(tmp_path):
    """Else a server could have any number of them, with a new name for each."""
    site = Site(tmp_path, rounds=2)
    site.ask("update", 1, run="d-1")
    site.ask("update", 1, run="d-2")
    with pytest.raises(Refused, match="it has taken part in 2 rounds, and no more are allowed"):
        site.ask("update", 2, run="d-2")


@pytest.mark.parametrize("change", [lambda text: text[:-5], lambda text: text.replace('"finished":3', '"finished":1')])
def test_a_damaged_count_is_said(tmp_path, change):
    Site(tmp_path).ask("finish", ROUNDS)
    path = tmp_path / FILE
    path.write_text(change(path.read_text()))
    with pytest.raises(FedloomError, match=r"asked.json is damaged \(its digest differs\): restore it, or remove it"):
        RequestCount.read(tmp_path, "d")


@cache
def plan(rounds: int) -> Plan:
    return Plan.of("fedrep", rounds=rounds)


def test_a_server_that_plays_a_finished_run_again_gets_nothing(tmp_path):
    local = Local(plan(2), tmp_path)
    local.play()
    for client in range(3):
        count = local.sites[client].count
        assert (count.kinds["update"].rounds, count.kinds["update"].repeats) == (2, 0)
        count.finished = 2
        count.note_final(SiteRequest(run=count.run, ticket="t", kind="finish", round=2), {})
    local.folder = tmp_path  # the server forgets, the sites do not
    local.run = tmp_path / "again"
    for client in range(3):
        local.sites[client] = local.site(client)
    with pytest.raises(FedloomError, match="0 of 3 clients answered"):
        local.play()


def test_a_refused_request_begins_no_run(tmp_path):
    count = RequestCount.read(tmp_path, "d")
    policy = policy_of()

    def ask(run: str, number: int) -> bool:
        about = {"run": run, "ticket": f"{run}{number}", "kind": "update", "round": number, "turn": 0}
        return count.admit(SiteRequest.model_validate(about), {}, policy)

    assert ask("d", 1)
    with pytest.raises(Refused, match="beyond"):
        ask("d-0123456789abcdef", 99)
    assert ask("d", 2)


def test_runs_that_only_ask_for_what_comes_before_round_1_use_up_rounds_too(tmp_path):
    site = Site(tmp_path, rounds=2, repeats=0, turns=1)
    assert site.ask("update", 0, run="d-1")
    assert site.ask("update", 0, run="d-2")
    with pytest.raises(Refused, match="no more are allowed"):
        site.ask("update", 0, run="d-3")
