"""The server's half: any dropouts that the terms bear, and the plain sum to the bit."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import Abandoned
from fedloom.secure.client import PHASES, SecureClient
from fedloom.secure.identity import read_advertisement, write_advertisement
from fedloom.secure.messages import PARCEL
from fedloom.secure.neighbours import NeighbourPlan
from fedloom.secure.quantise import Grid
from fedloom.secure.shamir import SHARE
from support.secure_sums import fixed_key, parties, play_sum


def plain_sum(rows, survivors):
    return np.add.reduce([rows[client] for client in survivors], axis=0, dtype=rows[survivors[0]].dtype)


@settings(max_examples=25, deadline=None)
@given(
    clients=st.integers(3, 8),
    share=st.sampled_from([0.0, 0.2, 0.34, 0.45]),
    dtype=st.sampled_from(["uint32", "uint64"]),
    data=st.data(),
)
def test_with_any_dropouts_that_the_terms_bear_the_sum_is_the_plain_one(clients, share, dtype, data):
    made = parties(clients, share)
    most = clients - made.terms.quorum
    gone = data.draw(st.lists(st.sampled_from(made.terms.invited), max_size=most, unique=True))
    dropouts: dict[str, list[int]] = {}
    for client in gone:
        dropouts.setdefault(data.draw(st.sampled_from(PHASES[:-1])), []).append(client)
    rows = made.rows(dtype=dtype)
    result = made.play(rows, dropouts)
    late = {*dropouts.get("confirm", ()), *dropouts.get("reveal", ())}
    assert result.survivors == [client for client in made.terms.invited if client not in gone or client in late]
    assert (result.total == plain_sum(rows, result.survivors)).all()
    assert result.total.dtype == dtype


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_one_dropout_more_abandons_the_sum_and_the_next_one_works(phase):
    made, next_try = parties(6, 0.34), parties(6, 0.34, attempt=1)
    assert made.terms.quorum == 4
    rows = made.rows()
    with pytest.raises(Abandoned, match=r"3 of 6 clients have .* needs 4 \(missing: 10, 11, 12\)"):
        made.play(rows, {phase: [10, 11, 12]})
    result = next_try.play(rows, {phase: [10, 11]})
    assert (result.total == plain_sum(rows, result.survivors)).all()


def test_many_clients_with_few_neighbours_give_the_plain_sum_too():
    made = parties(64, 0.05, 0.05)
    assert made.terms.plan.degree < 12
    rows = made.rows()
    result = made.play(rows, {"share": [10], "mask": [40], "reveal": [73]})
    assert len(result.survivors) == 62
    assert (result.total == plain_sum(rows, result.survivors)).all()


@pytest.mark.parametrize("phase", ["confirm", "reveal"])
def test_a_neighbourhood_that_lost_too_many_abandons_the_sum_though_the_quorum_is_there(phase, monkeypatch):
    monkeypatch.setattr("fedloom.secure.terms.plan_neighbours", lambda *_: NeighbourPlan(4, 4))
    made = parties(10, 0.3)
    gone = made.terms.neighbours(12)[:2]
    with pytest.raises(Abandoned):
        made.play(made.rows(2), {phase: gone})
    assert made.play(made.rows(2), {phase: gone[:1]}).survivors == list(made.terms.invited)


def test_quantised_updates_with_weights_add_up_to_the_weighted_sum():
    made = parties(5, 0.2)
    grid = Grid(16, 1.0, 5)
    generator = torch.Generator().manual_seed(0)
    updates = torch.randn(5, 50, generator=generator).clamp(-1, 1)
    weights = {client: 10 * (place + 1) for place, client in enumerate(made.terms.invited)}
    rows = {}
    for update, (client, weight) in zip(updates, weights.items(), strict=True):
        words, scaled = grid.quantise(update[None] * weight / 50, generator)
        rows[client] = grid.pack([weight, int(scaled[0])], words[0])
    result = made.play(rows, {"mask": [12]})
    head, values = grid.unpack(result.total, 2)
    assert head == [sum(weights.values()) - weights[12], 0]
    kept = [place for place, client in enumerate(made.terms.invited) if client != 12]
    exact = sum(updates[place].double() * (place + 1) / 5 for place in kept)
    assert (grid.restore(values) - exact).abs().max() <= 4 * grid.step


def test_a_client_whose_message_is_wrong_counts_as_dropped_out_and_is_named():
    made = parties(6, 0.34)
    server, clients, rows = made.server(), made.clients(), made.rows()
    advertised = {number: client.advertise() for number, client in clients.items()}
    advertised[10] = advertised[11]
    advertised[99] = advertised[11]
    keys = server.route_advertisements(advertised)
    assert "client 10 are not signed" in server.refused[10]
    assert "client 99 was not invited" in server.refused[99]
    shares = {number: clients[number].share(told) for number, told in keys.items()}
    for wrong in ({}, {**shares[11], 12: b"short"}, {**shares[11], 10: bytes(PARCEL)}):
        other = made.server()
        other.route_advertisements(advertised)
        other.route_shares({**shares, 11: wrong})
        assert "client 11" in other.refused[11]
    parcels = server.route_shares(shares)
    for number, told in parcels.items():
        row = clients[number].mask(told, rows[number])
        server.add(number, row[:-1] if number == 12 else row)
    server.add(13, rows[13])
    server.add(10, rows[10])
    assert "unlike the others" in server.refused[12]
    assert "not asked for" in server.refused[13]
    assert server.survivors() == [11, 13, 14, 15]


def played_to_reveal(made, *others):
    """A server and what its six clients reveal, with a client that dropped out before it sent its row."""
    server, clients, rows = made.server(), made.clients(), made.rows()
    clients |= {other.client: other for other in others}
    keys = server.route_advertisements({number: client.advertise() for number, client in clients.items()})
    parcels = server.route_shares({number: clients[number].share(told) for number, told in keys.items()})
    for number, told in parcels.items():
        if number != 15:
            server.add(number, clients[number].mask(told, rows[number]))
    survivors = server.survivors()
    codes = server.route_confirmations({number: clients[number].confirm(survivors) for number in survivors})
    return server, {number: clients[number].reveal(told) for number, told in codes.items()}, plain_sum(rows, survivors)


@pytest.mark.parametrize("owner", [10, 11, 15])
def test_a_wrong_share_is_found_and_named_and_the_others_are_used(owner):
    server, revealed, expected = played_to_reveal(parties(6, 0.34))
    share = bytearray(revealed[10][owner])
    share[-1] ^= 1
    revealed[10] = {**revealed[10], owner: bytes(share)}
    assert (server.unmask(revealed) == expected).all()
    assert server.refused == {10: f"client 10 revealed a wrong share of client {owner}."}


def test_too_many_wrong_shares_abandon_the_sum():
    server, revealed, _ = played_to_reveal(parties(6, 0.34))
    for holder in (10, 11):
        revealed[holder] = {**revealed[holder], 12: bytes(SHARE)}
    with pytest.raises(Abandoned, match=r"3 of 6 clients have revealed shares.*client 10 revealed a wrong share"):
        server.unmask(revealed)


def test_a_client_that_revealed_too_little_is_named():
    server, revealed, expected = played_to_reveal(parties(6, 0.34))
    revealed[10] = {11: revealed[10][11]}
    assert (server.unmask(revealed) == expected).all()
    assert "not revealed a share of each" in server.refused[10]


def test_a_client_that_dealt_wrong_shares_of_its_secret_is_named(monkeypatch):
    made = parties(6, 0.34)

    for owner, share in itertools.product((11, 15), (b"\xff" * SHARE, b"\x00" + b"\x55" * (SHARE - 1), bytes(SHARE))):
        dealer = made.client(owner)
        monkeypatch.setattr(
            dealer, "_split", lambda _, to=dealer, one=share: dict.fromkeys((*to.neighbours, to.client), one)
        )
        server, revealed, _ = played_to_reveal(made, dealer)
        with pytest.raises(Abandoned, match=f"shares that client {owner} has made do not give its secret"):
            server.unmask(revealed)


@pytest.mark.parametrize("share", [b"\xff" * SHARE, b"\x00" + b"\x55" * (SHARE - 1)])
def test_an_own_share_that_is_none_is_named_and_the_sum_goes_on_without_it(share):
    server, revealed, expected = played_to_reveal(parties(6, 0.34))
    revealed[12] = {**revealed[12], 12: share}
    assert (server.unmask(revealed) == expected).all()
    assert server.refused == {12: "client 12 revealed a wrong share of client 12."}


@pytest.mark.parametrize("weak", [bytes(32), b"\x01" + bytes(31)])
@pytest.mark.parametrize("use", ["cipher", "mask"])
def test_a_client_with_a_weak_key_is_named_and_the_sum_goes_on_without_it(use, weak):
    made = parties(6, 0.34)

    class Weak(SecureClient):
        def advertise(self):
            keys = read_advertisement(super().advertise(), self.terms.about, self.client, self._roster)
            return write_advertisement(replace(keys, **{use: weak}), self.terms.about, self.client, self._private)

    server, clients, rows = made.server(), made.clients(), made.rows()
    clients[12] = Weak(made.terms, 12, fixed_key("identity 12"), made.roster)
    result = play_sum(server, list(clients.values()), rows)
    assert result.survivors == [10, 11, 13, 14, 15]
    assert (result.total == plain_sum(rows, result.survivors)).all()
    assert server.refused == {12: "client 12 advertised a wrong key: a public key is not one of X25519, or a weak one."}


def test_a_confirmation_that_leaves_a_neighbour_out_is_refused_by_name():
    made = parties(4, 0.25)
    server, clients, rows = made.server(), made.clients(), made.rows()
    keys = server.route_advertisements({number: client.advertise() for number, client in clients.items()})
    parcels = server.route_shares({number: clients[number].share(told) for number, told in keys.items()})
    for number, told in parcels.items():
        server.add(number, clients[number].mask(told, rows[number]))
    confirmed = {number: client.confirm(server.survivors()) for number, client in clients.items()}
    whole = dict(confirmed[10])
    confirmed[10].pop(11)
    codes = server.route_confirmations(confirmed)
    assert sorted(codes) == [11, 12, 13]
    assert "client 10 has not confirmed" in server.refused[10]
    server.route_confirmations({**confirmed, 10: {peer: code[:-1] for peer, code in whole.items()}})
    assert "what client 10 confirmed to client 11 has 31 bytes" in server.refused[10]


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.integers(8, 17), st.binary(max_size=200), max_size=8))
def test_no_advertisement_makes_the_server_fail_in_another_way_than_abandoning(messages):
    made = parties(6, 0.34)
    honest = {number: client.advertise() for number, client in made.clients().items()}
    server = made.server()
    wrong = {number for number, text in messages.items() if text != honest.get(number)}
    if len(set(made.terms.invited) - wrong) >= made.terms.quorum:
        assert set(server.route_advertisements({**honest, **messages})) == set(made.terms.invited) - wrong
    else:
        with pytest.raises(Abandoned):
            server.route_advertisements({**honest, **messages})
    assert set(server.refused) == wrong


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.integers(9, 16), st.dictionaries(st.integers(9, 16), st.binary(max_size=70)), max_size=2))
def test_no_share_makes_the_server_give_a_wrong_sum(messages):
    server, revealed, expected = played_to_reveal(parties(6, 0.34))
    try:
        total = server.unmask({**revealed, **messages})
    except Abandoned:
        assert len(set(revealed) - set(messages)) < 4
    else:
        assert (total == expected).all()


def test_a_sum_can_be_played_by_clients_that_make_their_own_randomness():
    made = parties(4, 0.25)
    rows = made.rows()
    clients = [SecureClient(made.terms, n, fixed_key(f"identity {n}"), made.roster) for n in made.terms.invited]
    assert (play_sum(made.server(), clients, rows).total == plain_sum(rows, list(rows))).all()


def test_all_phases_of_a_small_network_send_little_more_than_its_words():
    made = parties(10, 0.2, 0.1)
    width = 61_706  # LeNet
    result = made.play(made.rows(width))
    plain = 4 * width
    assert all(
        sent + received < 1.05 * plain
        for sent, received in zip(result.sent.values(), result.received.values(), strict=True)
    )
    assert min(result.sent.values()) > plain


def test_bytes_are_those_of_the_messages():
    # three clients, whole graph: an advertisement, two parcels, a row, two codes and three shares go up
    made = parties(3, 0.34)
    result = made.play(made.rows(5))
    assert set(result.sent.values()) == {(4 + 160) + 2 * (4 + 180) + 5 * 4 + 2 * (4 + 32) + 3 * (4 + 66)}
    assert set(result.received.values()) == {2 * (4 + 160) + 2 * (4 + 180) + 2 * (4 + 32) + 3 * 4}


def test_a_client_that_refuses_is_gone_and_its_reason_is_known():
    made = parties(6, 0.34)
    clients = made.clients()
    clients[12]._roster = {number: key for number, key in made.roster.items() if number != 13}
    server, rows = made.server(), made.rows()
    result = play_sum(server, list(clients.values()), rows)
    assert result.survivors == [10, 11, 13, 14, 15]
    assert (result.total == sum(rows[number] for number in result.survivors)).all()
    assert server.refused == {12: "client 13 is not on the roster of known clients."}
