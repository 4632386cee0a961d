"""Encrypted chains over sites: the simulator's numbers, ends that the server reads, and chains that are lost."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.relays import ROOM
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, unpack
from fedloom.rounds.exchange.chain_loss import LOST
from support.local_transport import TINY, Local, Plan, Sent, quick, simulate, tamper_with

pytestmark = pytest.mark.usefixtures(quick.__name__)
FIVE = {**TINY["task"], "clients": 5}
CHAINS = "chains=[[3,0,2],[1,4]]"
PLAIN, ENCRYPTED = f"fedseq:{CHAINS}", f"fedseq:{CHAINS},encrypt=true"
FIXED = f"{ENCRYPTED},reshuffle=false"


@cache
def plan(spec: str = ENCRYPTED) -> Plan:
    return Plan.of(spec, task=FIVE)


def certified(made: Plan, folder: Path, **settings: Any) -> Local:
    local = Local(made, folder, **settings)
    local.certify()
    return local


def scores(history: Any) -> list[dict[str, Any]]:
    """The records without what a deployment adds to them."""
    return [{key: one[key] for key in one if key.startswith(("bytes", "steps", "selected"))} for one in history.records]


def rows(history: Any) -> torch.Tensor:
    return history.row


def record(history: Any, number: int) -> dict[str, Any]:
    """The record of a round, from the file that a run leaves."""
    lines = (history.folder / "metrics.jsonl").read_text().splitlines()
    return next(one for one in map(json.loads, lines) if one["round"] == number)


def updates(local: Local) -> list[tuple[Sent, dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """What the server sent to train, and what came back."""
    found = []
    for sent in local.transport.sent:
        if sent.request.kind == "update":
            data = local.transport.down[int(sent.name.removeprefix("letter-"))][1]
            tensors = unpack(data, SiteRequest, 1 << 40)[1]
            found.append((sent, tensors, unpack(sent.answer, SiteAnswer, 1 << 40)[1]))
    return found


@pytest.mark.parametrize("more", ["", ",passes=2", ",inner.name=fedprox,inner.mu=0.1", ",reshuffle=false"])
def test_encrypted_chains_over_sites_give_the_simulators_bytes(more, tmp_path):
    made = Plan.of(ENCRYPTED + more, task=FIVE, rounds=2)
    deployed = certified(made, tmp_path).play()
    assert torch.equal(rows(deployed), rows(simulate(made)))
    assert scores(deployed) == scores(simulate(made))
    assert torch.equal(rows(deployed), rows(simulate(Plan.of(PLAIN + more, task=FIVE, rounds=2))))


def test_models_that_move_on_along_other_chains_give_the_simulators_bytes(tmp_path):
    made = Plan.of(f"fedseqinter:{CHAINS},encrypt=true,period=2", task=FIVE)
    assert torch.equal(rows(certified(made, tmp_path).play()), rows(simulate(made)))


def test_the_server_reads_the_ends_of_chains_and_nothing_before_them(tmp_path):
    local = certified(plan(FIXED), tmp_path)
    local.play()
    read = {sent.node for sent, _, answer in updates(local) if "reply/row" in answer}
    assert read == {2, 4}
    sealed = [answer["reply/relay"] for _, _, answer in updates(local) if "reply/relay" in answer]
    assert len(sealed) == 3 * TINY["rounds"]
    assert all(bytes(one.flatten().tolist()[-ROOM:]) != bytes(ROOM) for one in sealed)  # no envelope was left open
    for sent, given, _ in updates(local):  # what went down is the server's model, to firsts, or sealed
        assert ("each/row" in given) == (sent.node in (3, 1))


def test_counted_bytes_are_those_that_pass(tmp_path):
    local = certified(plan(FIXED), tmp_path)
    history = local.play()
    sealed = sum(answer["reply/relay"].nbytes for _, _, answer in updates(local) if "reply/relay" in answer)
    read = sum(answer["reply/row"].nbytes for _, _, answer in updates(local) if "reply/row" in answer)
    assert sealed == sum(one["bytes_between"] for one in history.records)
    assert read == sum(one["bytes_up"] for one in history.records)


@pytest.mark.parametrize("silent", [3, 0, 2])
def test_a_member_that_is_silent_costs_its_chain_and_shows_nobodys_model(silent, tmp_path):
    local = certified(plan(FIXED), tmp_path, min_clients=1)
    local.transport.meddle = tamper_with(silent, 2, lambda _: None)
    history = local.play()
    assert torch.equal(rows(history), rows(simulate(plan(FIXED), {2: [1]})))  # the other chain alone
    lost = [one for one in record(history, 2)["remarks"] if one["what"] == LOST]
    assert [(one["client"], one["reason"].partition(":")[0]) for one in lost] == [
        (silent, "chain 0 does not count in this round")
    ]
    members = [3, 0, 2]
    asked = [sent.node for sent, _, _ in updates(local) if sent.request.round == 2 and sent.node in members]
    assert asked == members[: members.index(silent) + 1]  # nobody is asked for it in another way


def test_a_round_whose_chains_are_all_lost_is_tried_again(tmp_path):
    made, times = Plan.of("fedseq:chains=[[0,1,2]],encrypt=true"), []

    def once(sent: Sent) -> Any:
        times.append(sent)
        return None if len(times) == 1 else sent.answer

    local = certified(made, tmp_path, retries=1, min_clients=1)
    local.transport.meddle = tamper_with(1, 2, once)
    assert torch.equal(rows(local.play()), rows(simulate(made)))


def test_a_server_that_is_killed_goes_on_to_the_same_model(tmp_path):
    def die() -> None:
        raise KeyboardInterrupt

    local = certified(plan(), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        local.play({2: die})
    assert torch.equal(rows(local.play()), rows(simulate(plan())))


def test_a_site_that_restarts_can_still_open_what_was_sealed_for_it(tmp_path):
    local = certified(plan(FIXED), tmp_path)
    local.play({1: lambda: local.sites.update({0: local.site(0)})})
    assert torch.equal(rows(local.play()), rows(simulate(plan(FIXED))))


def test_a_chain_waits_for_nobody_that_never_connected(tmp_path):
    local = certified(plan(FIXED), tmp_path, min_clients=1)
    local.transport.away.add(2)
    history = local.play()
    assert torch.equal(rows(history), rows(simulate(plan(FIXED), {number: [1] for number in (1, 2, 3)})))
    reasons = {one["client"]: one["reason"] for one in record(history, 1)["excluded"]}
    assert reasons[0] == "site-2, its neighbour in the chain, has not connected yet"


def test_noise_of_the_sites_own_is_added_before_models_are_sealed(tmp_path):
    changes = {
        "task": FIVE,
        "channel": [{"name": "localnoise", "noise": 1.0, "clip": 0.5, "seeded": True}],
        "rounds": 2,
    }
    made, plain = Plan.of(FIXED, **changes), Plan.of(f"{PLAIN},reshuffle=false", **changes)
    deployed = certified(made, tmp_path).play()
    assert torch.equal(rows(deployed), rows(simulate(made)))
    torch.testing.assert_close(rows(deployed), rows(simulate(plain)))


def test_a_bound_that_the_server_cannot_keep_is_refused(tmp_path):
    with pytest.raises(FedloomError, match=r"max_norm = 3 in deploy.toml .* encrypted chains: leave out max_norm"):
        certified(plan(), tmp_path, max_norm=3).play()
