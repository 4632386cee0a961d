"""A site in an encrypted chain and a server that lies: nobody but the planned next member can read its model."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from fedloom.core.relays import RELAY, ROOM
from fedloom.deploy.protocol.relay_requests import INTRODUCTION, NEXT, PREVIOUS
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.relay_keys import relay_keys
from support.local_transport import TINY, Local, Plan, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
FIRST, MIDDLE, LAST, OTHER = 2, 0, 1, 3
SPEC = "fedseq:chains=[[2,0,1],[3,4]],encrypt=true,reshuffle=false"
Tensors = dict[str, torch.Tensor]


@cache
def plan(spec: str = SPEC) -> Plan:
    return Plan.of(spec, task={**TINY["task"], "clients": 5})


class Liar:
    """A server that asks what it likes, of honest sites."""

    def __init__(self, folder: Path, spec: str = SPEC) -> None:
        self.local = Local(plan(spec), folder)
        self.local.certify()
        self.keys = {client: self.ask(client, "hello", {})[1][INTRODUCTION] for client in range(5)}
        self.model = plan(spec).runtime.training.task.initial_row()[None]
        self.tickets = 0

    def ask(self, client: int, kind: str = "update", tensors: Tensors | None = None, **header) -> tuple[str, Tensors]:
        """The error and the tensors of a site's answer."""
        self.tickets = getattr(self, "tickets", 0) + 1
        digest = plan().blueprint.plan_digest if "run" not in header else header.pop("run")
        about = {"run": digest, "ticket": str(self.tickets), "kind": kind, "round": 1} | header
        data = pack(SiteRequest.model_validate(about), tensors or {})
        answer, found = unpack(self.local.sites[client].answer(data), SiteAnswer, 1 << 40)
        return answer.error, found

    def start(self, **header) -> torch.Tensor:
        """What the first member seals for the middle one."""
        error, found = self.ask(FIRST, tensors={"each/row": self.model, NEXT: self.keys[MIDDLE]}, **header)
        assert not error
        return found[f"reply/{RELAY}"]

    def pass_on(self, sealed: torch.Tensor, **header) -> tuple[str, Tensors]:
        """What the middle member makes of something sealed."""
        keys = {NEXT: self.keys[LAST], PREVIOUS: self.keys[FIRST]}
        return self.ask(MIDDLE, tensors={f"each/{RELAY}": sealed} | keys, **header)


@pytest.fixture
def liar(tmp_path):
    return Liar(tmp_path)


def is_refused(answer: tuple[str, Tensors], words: str) -> bool:
    error, tensors = answer
    return error.startswith("refused by the site's policy: ") and words in error and not tensors


def test_what_members_hand_on_is_sealed_and_only_the_last_model_is_read(liar):
    first = liar.start()
    error, middle = liar.pass_on(first)
    assert not error
    assert set(middle) & {"reply/row", f"reply/{RELAY}"} == {f"reply/{RELAY}"}
    given = {f"each/{RELAY}": middle[f"reply/{RELAY}"], PREVIOUS: liar.keys[MIDDLE]}
    error, last = liar.ask(LAST, tensors=given)
    assert not error
    assert last["reply/row"].dtype == torch.float32


def test_a_key_of_the_servers_own_is_refused(liar, tmp_path):
    own = tmp_path / "own"  # an authority of the server's, and the right name
    own.mkdir()
    stranger = Authority.new(1)
    stranger.publish(own)
    stranger.certify_site(own, plan().blueprint.sites[MIDDLE])
    forged = torch.tensor(list(relay_keys(own, plan().blueprint.sites).introduction), dtype=torch.uint8)
    answer = liar.ask(FIRST, tensors={"each/row": liar.model, NEXT: forged})
    assert is_refused(answer, "no key of site-0, its neighbour in the chain, that is certified")
    changed = liar.keys[MIDDLE].clone()
    changed[:32] = forged[:32]  # the server's key in the introduction of the right site
    answer = liar.ask(FIRST, tensors={"each/row": liar.model, NEXT: changed})
    assert is_refused(answer, "no key of site-0")


@pytest.mark.parametrize("member", [LAST, OTHER, FIRST])
def test_another_member_in_the_place_of_the_next_one_is_refused(liar, member):
    answer = liar.ask(FIRST, tensors={"each/row": liar.model, NEXT: liar.keys[member]})
    assert is_refused(answer, "no key of site-0")


def test_a_key_that_was_certified_for_sums_is_none_for_chains(liar):
    from fedloom.deploy.sum_keys import site_keys

    sums = site_keys(liar.local.folder / "site-0", plan().blueprint.sites).introduction
    forged = torch.tensor(list(sums), dtype=torch.uint8)
    assert is_refused(liar.ask(FIRST, tensors={"each/row": liar.model, NEXT: forged}), "no key of site-0")


def test_a_member_is_never_made_the_end_of_its_chain(liar):
    assert is_refused(liar.ask(FIRST, tensors={"each/row": liar.model}), "no key of site-0")
    sealed = liar.start()
    answer = liar.ask(MIDDLE, tensors={f"each/{RELAY}": sealed, PREVIOUS: liar.keys[FIRST]})
    assert is_refused(answer, "no key of site-1")
    liar.pass_on(sealed)  # and having handed it on, it shows nothing either
    again = liar.ask(MIDDLE, tensors={f"each/{RELAY}": sealed, PREVIOUS: liar.keys[FIRST]})
    assert is_refused(again, "no key of site-1")


@pytest.mark.parametrize("member", [MIDDLE, LAST])
def test_a_later_member_takes_no_model_of_the_servers(liar, member):
    keys = {NEXT: liar.keys[LAST], PREVIOUS: liar.keys[FIRST]}
    assert is_refused(liar.ask(member, tensors={"each/row": liar.model} | keys), "gets the sealed model of")
    both = {"each/row": liar.model, f"each/{RELAY}": liar.start()}
    assert is_refused(liar.ask(member, tensors=both | keys), "and nothing else")
    assert is_refused(liar.ask(member, tensors={"shared/row": liar.model[0]} | keys), "and nothing else")
    open_envelope = torch.zeros(1, 4 * liar.model.shape[1] + ROOM, dtype=torch.uint8)
    keys[PREVIOUS] = liar.keys[FIRST if member == MIDDLE else MIDDLE]
    assert is_refused(liar.ask(member, tensors={f"each/{RELAY}": open_envelope} | keys), "was not sealed by")


@pytest.mark.parametrize("round_number", [2, 3])
def test_a_sealed_model_of_another_round_is_refused(liar, round_number):
    old = liar.start()
    assert is_refused(liar.pass_on(old, round=round_number), "in this run, round and place")


def test_a_sealed_model_of_another_run_of_the_same_plan_is_refused(tmp_path):
    liar = Liar(tmp_path)
    digest = plan().blueprint.plan_digest
    old = liar.start(run=f"{digest}-one")
    assert is_refused(liar.pass_on(old, run=f"{digest}-two"), "in this run, round and place")


def test_a_sealed_model_of_another_pass_is_refused(tmp_path):
    spec = f"{SPEC},passes=2"
    liar, digest = Liar(tmp_path, spec), plan(spec).blueprint.plan_digest
    old = liar.start(run=digest)
    answer = liar.pass_on(old, run=digest, turn=1)
    assert is_refused(answer, "in this run, round and place")


def test_a_member_cannot_be_skipped(liar):
    sealed = liar.start()  # for the middle one
    answer = liar.ask(LAST, tensors={f"each/{RELAY}": sealed, PREVIOUS: liar.keys[FIRST]})
    assert is_refused(answer, "no key of site-0")
    answer = liar.ask(LAST, tensors={f"each/{RELAY}": sealed, PREVIOUS: liar.keys[MIDDLE]})
    assert is_refused(answer, "was not sealed by site-0")


def test_a_changed_byte_is_refused(liar):
    sealed = liar.start()
    sealed[0, 100] ^= 1
    assert is_refused(liar.pass_on(sealed), "was not sealed by site-2 for it")


def test_a_model_to_form_chains_by_is_not_trained(liar):
    assert is_refused(liar.ask(FIRST, tensors={"shared/initial": liar.model[0]}, round=0), "in rounds only")
    given = {"shared/initial": liar.model[0], NEXT: liar.keys[MIDDLE]}
    assert is_refused(liar.ask(FIRST, tensors=given), "gets the server's model in round 1, and nothing else")


def test_every_refusal_is_in_the_sites_own_record(liar):
    liar.ask(FIRST, tensors={"each/row": liar.model})
    assert "no key of site-0" in (liar.local.folder / "site-2" / "policy.jsonl").read_text()


def test_bytes_that_are_numbers_are_refused_and_the_site_goes_on(liar):
    error, tensors = liar.pass_on(torch.zeros(1, 30))
    assert "bytes are expected" in error
    assert not tensors
    assert liar.start().dtype == torch.uint8
