"""The way along chains: envelopes give the numbers of rows, and a client finds its place by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.core.relays import ROOM, Handover, fill_envelopes, read_envelopes
from fedloom.methods.fedseq.walking import handover_in
from support.chains import six_clients
from support.checkpoints import WORK

CHAINS = [[4, 0, 2], [1, 3, 5]]
LOPSIDED = [[4, 0, 2, 1], [3, 5]]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("chains", [CHAINS, LOPSIDED])
@pytest.mark.parametrize("more", [{}, {"passes": 3}, {"reshuffle": False}, {"inner": "fedprox"}])
def test_envelopes_give_the_numbers_of_rows_and_cost_a_key_and_a_tag(execution, chains, more):
    plain = fl.FedSeq(chains=chains, **more)
    how = {"rounds": 2, "execution": execution, "local": WORK}
    one, other = (fl.run(six_clients(), method, **how) for method in (plain, replace(plain, encrypt=True)))
    assert torch.equal(one.row, other.row)
    handed = (6 * more.get("passes", 1) - 2) * ROOM
    assert [r["bytes_between"] + handed for r in one.records[1:]] == [r["bytes_between"] for r in other.records[1:]]
    assert [r["bytes_up"] for r in one.records] == [r["bytes_up"] for r in other.records]


def test_a_client_finds_its_place_over_all_passes():
    orders = [[4, 0, 2], [2, 4, 0]]
    assert handover_in(orders, 1, 4, 0) == Handover(1, 0, None, 0)
    assert handover_in(orders, 1, 2, 0) == Handover(1, 2, 0, 2)  # it hands its model to itself, over the passes
    assert handover_in(orders, 1, 4, 1) == Handover(1, 4, 2, 0)
    assert handover_in(orders, 1, 0, 1) == Handover(1, 5, 4, None)


def test_every_round_has_one_way_along_a_chain_that_all_members_agree_on():
    method = fl.FedSeq(chains=CHAINS, encrypt=True)
    for number in range(1, 6):
        places = {client: method.handover(client, number, 0, seed=3) for client in CHAINS[0]}
        way = sorted(places, key=lambda client: places[client].place)
        assert [places[client].previous for client in way] == [None, *way[:-1]]
        assert [places[client].next for client in way] == [*way[1:], None]


def test_an_envelope_holds_a_row_to_the_byte():
    rows = torch.tensor([[1.0, -0.0, torch.inf], [torch.nan, 1e-45, 3.0]])
    read = read_envelopes(fill_envelopes(rows))
    assert read.numpy().tobytes() == rows.numpy().tobytes()
    assert fill_envelopes(rows).shape == (2, 12 + ROOM)
