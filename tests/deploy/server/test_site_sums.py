"""Sums over sites: the simulator's numbers, and no single row at the server, whoever drops out or lies."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.sum_requests import MOST, PHASE
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.secure.secure_sum import SecureSum
from fedloom.secure.sum_step import SumSession
from support.local_transport import TINY, Local, Plan, Sent, change_answer, quick, simulate

pytestmark = pytest.mark.usefixtures(quick.__name__)
ALL, BUT_SOUTH, SOUTH, WEST = [0, 1, 2], [0, 2], 1, 2


@cache
def plan(spec: str = "fedavg", step: str = "securesum") -> Plan:
    return Plan.of(spec, channel=[{"name": step}])


@cache
def third() -> Plan:
    return Plan.of("fedavg", channel=[{"name": "securesum", "dropouts": 0.333}])


def certified(made: Plan, folder: Path, **settings: Any) -> Local:
    local = Local(made, folder, **settings)
    local.certify()
    return local


def phase_of(local: Local, sent: Sent) -> str:
    """The phase of a sum that a message belongs to; empty for other messages."""
    data = local.transport.down[int(sent.name.removeprefix("letter-"))][1]
    letters = unpack(data, SiteRequest, 1 << 40)[1].get(PHASE)
    return "" if letters is None else bytes(letters.tolist()).decode()


def silence(local: Local, phase: str, *clients: int) -> None:
    """Let some clients not answer one phase of round 2."""

    def meddle(sent: Sent) -> Any:
        hit = sent.request.round == 2 and sent.node in clients and phase_of(local, sent) == phase
        return None if hit else sent.answer

    local.transport.meddle = meddle


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fedrep"])
def test_a_sum_over_sites_is_that_of_the_simulator(tmp_path, spec):
    local = certified(plan(spec), tmp_path / "sites")
    deployed, simulated = local.play(), simulate(plan(spec))
    assert deployed.row is not None
    assert torch.equal(deployed.row, simulated.row)
    assert [record["selected"] for record in deployed.records] == [ALL] * 3
    up = [(deployed.records[place]["bytes_up"], simulated.records[place]["bytes_up"]) for place in range(3)]
    assert all(abs(one - other) <= 4000 * 3 for one, other in up)  # certificates


@pytest.mark.parametrize("step", ["securesum", "ckks"])
@pytest.mark.parametrize(("spec", "model"), [("fld", "mlp"), ("dsfl", "mlp"), ("fedharm:k=8,align=kl", "resnet8")])
def test_a_sum_of_outputs_over_sites_is_that_of_the_simulator(tmp_path, spec, model, step):
    if step == "ckks":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    channel = [{"name": step} | ({"limit": 64.0} if step == "securesum" else {})]
    made = Plan.of(spec, channel=channel, task={**TINY["task"], "communal": 0.2, "model": model, "model_options": {}})
    local = certified(made, tmp_path / "sites")
    deployed, simulated = local.play(), simulate(made)
    assert [record["selected"] for record in deployed.records] == [ALL] * 3
    assert not any("excluded" in record for record in deployed.records)
    for mine, theirs in zip(deployed.records, simulated.records, strict=True):
        assert mine["metrics"] == theirs["metrics"]


def test_a_homomorphic_sum_over_sites_is_that_of_the_simulator_to_the_bit(tmp_path):
    pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    local = certified(plan(step="ckks"), tmp_path / "sites")
    deployed, simulated = local.play(), simulate(plan(step="ckks"))
    assert torch.equal(deployed.row, simulated.row)
    assert [record["bytes_up"] for record in deployed.records] == [r["bytes_up"] for r in simulated.records]
    assert torch.allclose(deployed.row, simulate(Plan.of("fedavg")).row, atol=1e-4)
    assert not (tmp_path / "sites" / "home" / "sum.key").exists()


def test_what_a_site_sends_is_not_its_row(tmp_path):
    local = certified(plan(), tmp_path)
    local.play()
    rows = [
        unpack(sent.answer, SiteAnswer, 1 << 40)[1]["reply/sum"]
        for sent in local.transport.sent
        if sent.request.kind == "update"
    ]
    assert len(rows) == 9
    for row in rows:  # a value of 20 bits leaves the upper bits of a word alike; a mask does not
        assert row.dtype == torch.int32
        assert float((row.abs() > 1 << 24).float().mean()) > 0.95


@pytest.mark.parametrize("phase", ["advertise", "share", "rows"])
def test_a_site_that_drops_out_before_its_row_is_left_out(tmp_path, phase):
    local = certified(plan(), tmp_path)
    silence(local, phase, SOUTH)
    history = local.play()
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]
    assert history.row is not None
    assert torch.allclose(history.row, simulate(plan(), {2: BUT_SOUTH}).row, atol=1e-4)


@pytest.mark.parametrize("phase", ["confirm", "reveal"])
def test_a_site_that_drops_out_after_its_row_is_in_the_sum(tmp_path, phase):
    local = certified(plan(), tmp_path)
    silence(local, phase, SOUTH)
    history = local.play()
    assert [record["selected"] for record in history.records] == [ALL] * 3
    assert torch.equal(history.row, simulate(plan()).row)


@pytest.mark.parametrize("phase", ["advertise", "share", "rows", "confirm", "reveal"])
def test_a_third_of_three_sites_is_one_at_any_phase(tmp_path, phase):
    made = third()
    local = certified(made, tmp_path, retries=0)
    silence(local, phase, SOUTH)
    history = local.play()
    before = phase in ("advertise", "share", "rows")  # later its row is in the sum
    assert history.records[1]["selected"] == (BUT_SOUTH if before else ALL)
    assert torch.allclose(history.row, simulate(made, {2: BUT_SOUTH} if before else {}).row, atol=1e-4)


@pytest.mark.parametrize("phase", ["advertise", "rows", "reveal"])
def test_with_one_dropout_too_many_the_round_is_given_up_and_the_next_try_works(tmp_path, phase):
    local = certified(plan(), tmp_path, retries=0)
    silence(local, phase, SOUTH, WEST)
    with pytest.raises(FedloomError, match="1 of 3 clients have"):
        local.play()
    local.transport.meddle = lambda sent: sent.answer
    assert torch.equal(local.play().row, simulate(plan()).row)


def test_a_site_with_the_certificate_of_another_is_not_believed(tmp_path):
    local = certified(plan(), tmp_path)
    stolen: dict[str, torch.Tensor] = {}

    def meddle(sent: Sent) -> Any:
        if phase_of(local, sent) != "advertise":
            return sent.answer
        if sent.node == 0:
            stolen.update(unpack(sent.answer, SiteAnswer, 1 << 40)[1])
        return change_answer(sent, lambda _: dict(stolen)) if sent.node == SOUTH else sent.answer

    local.transport.meddle = meddle
    history = local.play()
    assert [record["selected"] for record in history.records] == [BUT_SOUTH] * 3


def test_a_site_that_was_restarted_in_a_sum_drops_out_of_it(tmp_path):
    local = certified(plan(), tmp_path)

    def meddle(sent: Sent) -> Any:
        if sent.request.round == 2 and sent.node == SOUTH and phase_of(local, sent) == "share":
            local.sites[SOUTH] = local.site(SOUTH)
        return sent.answer

    local.transport.meddle = meddle
    history = local.play()
    assert [record["selected"] for record in history.records] == [ALL, BUT_SOUTH, ALL]


def test_sites_that_were_told_different_weights_or_models_do_not_add_up(tmp_path):
    """A server that lets one site count and the others not would get the update of that site."""
    for lie in (MOST, "shared/row"):
        local = certified(plan(), tmp_path / lie.replace("/", "-"), retries=0)
        honest = {client: local.transport.sites[client] for client in ALL}

        def tell(data: bytes, client: int, lie: str = lie, honest: dict[int, Any] = honest) -> bytes:
            request, tensors = unpack(data, SiteRequest, 1 << 40)
            if client != 0 and lie in tensors and (lie == MOST or request.kind == "update"):
                tensors[lie] = tensors[lie] * 2**40 if lie == MOST else tensors[lie] - 1e6
                data = pack(request, tensors)
            return honest[client](data)

        local.transport.sites = {client: partial(tell, client=client) for client in ALL}
        with pytest.raises(FedloomError, match="of 3 clients have"):
            local.play()


def test_each_round_of_a_run_is_opened_once(tmp_path):
    local = certified(plan(), tmp_path)
    local.play()
    opened = json.loads((tmp_path / "north" / "opened.json").read_text())
    assert sorted(opened) == [f"{plan().blueprint.plan_digest} {number}/0" for number in (1, 2, 3)]
    assert all(one["clients"] for one in opened.values())


def test_a_site_that_lies_about_its_weight_costs_the_round_and_not_the_model(tmp_path):
    local = certified(plan(), tmp_path, retries=0)
    heavy = local.sites[SOUTH].runtime
    liar = replace(local.sites[SOUTH], runtime=replace(heavy, steps=(Heavy(),)))
    local.sites[SOUTH] = liar
    with pytest.raises(FedloomError, match="has a weight of 1,"):
        local.play()


@dataclass(frozen=True)
class Heavy(SecureSum):
    """A site that says it has a trillion samples."""

    def code(self, values: torch.Tensor, weights: torch.Tensor, session: Any, random: Any) -> torch.Tensor:
        return super().code(values, weights * 0 + (1 << 40), session, random)


def test_a_site_takes_part_in_no_sum_that_is_smaller_than_its_plan_says(tmp_path):
    made = Plan.of("fedavg", channel=[{"name": "securesum", "least_clients": 3}])
    local = certified(made, tmp_path)
    assert local.play().records[-1]["selected"] == ALL
    with pytest.raises(FedloomError, match="smaller than least_clients = 3"):
        local.sites[0]._sums.answer(SumSession("run", 1, 0, (0, 1), 1), "advertise", {})
