"""Hostile clients drawn from groups that the method forms: whole super-clients, known when they are formed."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import tomli_w
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.deploy.provision.folders import init
from fedloom.runs.folder.checkpoint import read_server_state
from support.folders import stop_after, written

FEDSEQ = fl.FedSeq(max_clients=3, pretrain_epochs=1)
FLIPS = {"name": "labelflipping", "groups": "formed", "fraction": 0.3}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=12, alpha=0.3)


def play(task, folder=None, method=FEDSEQ, rounds=2, **settings):
    return fl.run(task, method, rounds=rounds, out=folder, **settings)


def chains_of(folder):
    state = read_server_state(folder)
    return [set(some.tolist()) for some in state["chain/members"].split(state["chain/sizes"].tolist())]


def files_of(folder):
    """All files of a run, except for those that name its settings."""
    return {name: text for name, text in written(folder).items() if name != "config.toml" and "manifest-" not in name}


def test_a_share_of_the_chains_that_honest_clients_formed_is_hostile_with_all_of_their_members(task, tmp_path):
    plain, attacked = play(task, tmp_path / "plain"), play(task, tmp_path / "attacked", adversary=FLIPS)
    chains, hostile = chains_of(tmp_path / "attacked"), set(attacked.records[0]["hostile"])
    assert chains == chains_of(tmp_path / "plain"), "their approximators see clean labels"
    assert len(chains) == 4
    assert sum(chain <= hostile for chain in chains) == 2, "a third of four, rounded up"
    assert hostile == set().union(*(chain for chain in chains if chain <= hostile))
    assert not attacked.row.equal(plain.row)
    assert "hostile" not in plain.records[0]


def test_given_chains_are_drawn_from_as_if_they_were_named(task):
    given = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    seq = fl.FedSeq(chains=given)
    formed, named = (play(task, method=seq, adversary={**FLIPS, "groups": groups}) for groups in ("formed", given))
    assert formed.row.equal(named.row)
    assert formed.records == named.records


def test_who_is_hostile_depends_on_the_seed_and_not_on_the_attack(task):
    def drawn(**settings):
        return play(task, rounds=1, eval_every=0, **{"adversary": FLIPS, **settings}).records[0]["hostile"]

    first = drawn()
    assert drawn(adversary={**FLIPS, "name": "signflipping"}) == first
    assert any(drawn(seed=seed) != first for seed in (1, 2))


def test_with_no_group_hostile_it_is_the_plain_run_to_the_byte(task, tmp_path):
    play(task, tmp_path / "plain")
    play(task, tmp_path / "none", adversary={**FLIPS, "fraction": 0})
    assert files_of(tmp_path / "plain") == files_of(tmp_path / "none")


@pytest.mark.parametrize("attack", ["labelflipping", "alie"])
@pytest.mark.parametrize("stop", [0, 3])
def test_workers_and_a_stop_change_no_byte(task, tmp_path, attack, stop):
    run = {"rounds": 4, "adversary": {**FLIPS, "name": attack, "fraction": 0.5}}
    whole = play(task, tmp_path / "whole", **run)
    two = play(task, workers=2, **run)
    assert whole.row.equal(two.row)
    assert whole.records == two.records
    with pytest.raises(KeyboardInterrupt):
        play(task, tmp_path / "parts", observers=[stop_after(stop)], **run)
    fl.resume(tmp_path / "parts")
    assert written(tmp_path / "whole") == written(tmp_path / "parts")


def test_what_a_hostile_client_predicts_with_is_the_same_from_the_folder(task, tmp_path):
    tuned = {"prediction": ["finetune"], "adversary": {**FLIPS, "fraction": 1.0}}
    in_memory, stored = play(task, **tuned), play(task, tmp_path / "run", **tuned)
    rows = [task.layout.row(one.model(task, 0)) for one in (in_memory, stored, fl.History.load(stored.folder))]
    assert rows[0].equal(rows[1])
    assert rows[0].equal(rows[2])
    assert not rows[0].equal(stored.row), "it is fine-tuned"


@pytest.mark.parametrize(
    "beside",
    [
        {"method": fl.FedSeqInter(max_clients=3, grouping="random", inner="feddyn"), "selection": {"number": 2}},
        {"aggregation": {"name": "trimmedmean", "share": 0.25}, "channel": [{"name": "topk", "fraction": 0.5}]},
        {"downlink": {"precision": "bfloat16"}, "new_clients": 2},
        {"sample_privacy": {"noise": 0.5, "clip": 1.0, "seeded": True}, "aggregation": "foolsgold"},
    ],
)
def test_beside_other_parts_whole_chains_are_hostile(task, tmp_path, beside):
    play(task, tmp_path / "run", **{"adversary": {**FLIPS, "name": "signflipping"}, **beside})
    chains, first = chains_of(tmp_path / "run"), fl.History.load(tmp_path / "run").records[0]
    assert set().union(*(chain for chain in chains if chain <= set(first["hostile"]))) == set(first["hostile"])


@dataclass(frozen=True)
class Regrouping(fl.FedAvg):
    """Groups that are formed anew in every round: two rows of clients, turned by one place."""

    def start(self, task):
        return {**super().start(task), "turn": torch.tensor(0), "clients": torch.tensor(task.federation.clients)}

    def groups(self, server):
        clients, turn = int(server["clients"]), int(server["turn"])
        order = [(place + turn) % clients for place in range(clients)]
        return [order[start : start + 3] for start in range(0, clients, 3)]

    def play(self, server, ids, context):
        groups = self.groups(server)
        chosen = sorted(client for group in ids for client in groups[group])
        found = yield from super().play(server, chosen, context)
        return {**server, **found, "turn": server["turn"] + 1}

    def aggregate(self, server, replies):
        return {**server, **super().aggregate(server, replies)}


def test_who_is_hostile_is_drawn_once_also_where_groups_are_formed_anew(task, tmp_path):
    run = {"rounds": 4, "adversary": {**FLIPS, "fraction": 0.25}}
    whole = play(task, tmp_path / "whole", method=Regrouping(), **run)
    assert whole.records[0]["hostile"] in [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]], "the groups of round 1"
    with pytest.raises(KeyboardInterrupt):
        play(task, tmp_path / "parts", method=Regrouping(), observers=[stop_after(3)], **run)
    fl.resume(tmp_path / "parts", method=Regrouping())
    assert written(tmp_path / "whole") == written(tmp_path / "parts")


@pytest.mark.parametrize("method", ["fedavg", "cfl"])
def test_a_method_that_forms_no_groups_is_refused(task, method):
    with pytest.raises(FedloomError, match=f"that the method forms, and {method} forms none: use fedseq"):
        fl.run(task, method, rounds=1, adversary=FLIPS)


def test_sites_cannot_wait_for_groups(tmp_path):
    values = {"task": {"name": "digits", "clients": 3}, "method": {"name": "fedseq"}, "adversary": FLIPS}
    (tmp_path / "run.toml").write_bytes(tomli_w.dumps(values).encode())
    with pytest.raises(FedloomError, match="when groups are formed, but sites start before"):
        init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "east", "south"])


def test_named_and_drawn_clients_are_reported_too_and_a_hostile_server_names_nobody(task):
    def said(**adversary):
        return fl.run(task, "fedavg", rounds=1, eval_every=0, adversary=adversary).records[0].get("hostile")

    assert said(name="signflipping", clients=[5, 2]) == [2, 5]
    assert len(said(name="signflipping", fraction=0.25)) == 3
    assert said(name="linearleak") is None
