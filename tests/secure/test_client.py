"""The client's half: what it sends, and what it refuses of a server that lies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedloom.secure.client import SecureClient
from fedloom.secure.identity import ADVERTISEMENT
from fedloom.secure.messages import PARCEL, SHORT_DIGEST
from fedloom.secure.sum_step import RefusedMessage
from support.secure_sums import Parties, fixed_key, parties

SIX = parties()


def bytes_are_uniform(data: bytes) -> bool:
    """Whether bytes look drawn uniformly: a chi-square test at a significance of one in a thousand."""
    counts = np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)
    return bool(chisquare(counts).pvalue > 1e-3)


class Phases:
    """Six clients that played the phases up to one, with an honest server."""

    def __init__(self, made: Parties = SIX) -> None:
        self.clients = made.clients()
        self.server = made.server()
        self.values = np.zeros(5, dtype=np.uint32)
        self.advertisements = {number: client.advertise() for number, client in self.clients.items()}
        self.routed = self.server.route_advertisements(self.advertisements)

    def to_share(self) -> Phases:
        self.shares = {number: client.share(self.routed[number]) for number, client in self.clients.items()}
        self.parcels = self.server.route_shares(self.shares)
        return self

    def to_mask(self) -> Phases:
        self.to_share()
        for number, client in self.clients.items():
            self.server.add(number, client.mask(self.parcels[number], self.values))
        self.survivors = self.server.survivors()
        return self

    def to_confirm(self) -> Phases:
        self.to_mask()
        confirmed = {number: client.confirm(self.survivors) for number, client in self.clients.items()}
        self.codes = self.server.route_confirmations(confirmed)
        return self


def masked(values: np.ndarray, made: Parties = SIX, client: int = 12) -> np.ndarray:
    played = Phases(made).to_share()
    return played.clients[client].mask(played.parcels[client], values)


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("value", [0, 1, 2**32 - 1])
def test_a_masked_row_passes_a_uniformity_test(value, dtype):
    assert not bytes_are_uniform(np.full(20_000, value, dtype=dtype).tobytes())
    assert bytes_are_uniform(masked(np.full(20_000, value, dtype=dtype)).tobytes())


def test_what_masks_add_does_not_depend_on_the_update():
    rng = np.random.default_rng(3)
    rows = [np.zeros(3000, dtype=np.uint32), rng.integers(0, 2**32, 3000, dtype=np.uint32)]
    added = [masked(row) - row for row in rows]
    assert (added[0] == added[1]).all()
    assert bytes_are_uniform(added[0].tobytes())


def test_messages_about_shares_pass_a_uniformity_test():
    played = Phases(parties(24)).to_share()
    sent = [parcel for parcels in played.shares.values() for parcel in parcels.values()]
    assert {len(parcel) for parcel in sent} == {PARCEL}
    assert bytes_are_uniform(b"".join(sent))


def test_no_secret_leaves_a_client_in_the_clear():
    played = Phases().to_share()
    client = played.clients[12]
    sent = played.advertisements[12] + b"".join(played.shares[12].values())
    for purpose in ("cipher key", "mask key", "self mask"):
        assert client._secret(purpose) not in sent
    for shares in (client._split("self mask"), client._split("mask key")):
        assert not any(share in sent for share in shares.values())


@settings(max_examples=30)
@given(st.integers(0, 8 * ADVERTISEMENT - 1))
@pytest.mark.slow
def test_a_tampered_advertisement_is_refused(bit):
    played = Phases()
    changed = bytearray(played.advertisements[13])
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RefusedMessage, match="client 13 are not signed by it for this round"):
        played.clients[12].share({**played.advertisements, 13: bytes(changed)})
    with pytest.raises(RefusedMessage, match="its next phase is: nothing more"):
        played.clients[12].share(played.advertisements)


@pytest.mark.parametrize("terms", [{"attempt": 1}, {"clients": 5}, {"dropouts": 0.2}])
def test_a_replayed_advertisement_of_another_sum_is_refused(terms):
    replayed = parties(**terms).client(13).advertise()
    played = Phases()
    with pytest.raises(RefusedMessage, match="replayed"):
        played.clients[12].share({**played.advertisements, 13: replayed})


def test_an_advertisement_under_anothers_number_is_refused():
    played = Phases()
    with pytest.raises(RefusedMessage, match="client 13 are not signed"):
        played.clients[12].share({**played.advertisements, 13: played.advertisements[14]})


def test_an_invented_client_is_refused():
    played = Phases()
    with pytest.raises(RefusedMessage, match="client 99 was not invited"):
        played.clients[12].share({**played.advertisements, 99: played.advertisements[13]})
    made = parties()
    short = {number: key for number, key in made.roster.items() if number != 13}
    trusting_fewer = SecureClient(made.terms, 12, fixed_key("identity 12"), short)
    trusting_fewer.advertise()
    with pytest.raises(RefusedMessage, match="client 13 is not on the roster"):
        trusting_fewer.share(played.advertisements)


def test_too_few_clients_are_refused_in_every_phase():
    few = Phases()
    with pytest.raises(
        RefusedMessage, match="3 of client 12 and its neighbours have advertised keys, and the sum needs 4"
    ):
        few.clients[12].share({number: few.advertisements[number] for number in (12, 13, 14)})
    few = Phases().to_share()
    with pytest.raises(RefusedMessage, match="have shared secrets"):
        few.clients[12].mask({number: few.parcels[12][number] for number in (13, 14)}, few.values)
    few = Phases().to_mask()
    with pytest.raises(RefusedMessage, match="the sum of fewer than 4 is not opened"):
        few.clients[12].confirm([12, 13, 14])
    few = Phases().to_confirm()
    with pytest.raises(RefusedMessage, match="have confirmed the survivors"):
        few.clients[12].reveal({number: few.codes[12][number] for number in (13, 14)})


def test_a_swapped_parcel_is_refused():
    for sender, receiver in ((13, 14), (14, 13)):
        played = Phases().to_share()
        swapped = {**played.parcels[12], 13: played.shares[sender][receiver]}
        with pytest.raises(RefusedMessage, match="client 13 shared with client 12 cannot be decrypted"):
            played.clients[12].mask(swapped, played.values)


@settings(max_examples=20)
@given(st.integers(0, 8 * PARCEL - 1))
def test_a_tampered_parcel_is_refused(bit):
    played = Phases().to_share()
    changed = bytearray(played.parcels[12][13])
    changed[bit // 8] ^= 1 << bit % 8
    sentence = "digests" if bit // 8 < 2 * SHORT_DIGEST else "cannot be decrypted"
    with pytest.raises(RefusedMessage, match=sentence):
        played.clients[12].mask({**played.parcels[12], 13: bytes(changed)}, played.values)


def test_a_parcel_of_a_client_that_did_not_advertise_is_refused():
    played = Phases().to_share()
    with pytest.raises(RefusedMessage, match="client 99 shared its secrets without having advertised"):
        played.clients[12].mask({**played.parcels[12], 99: bytes(PARCEL)}, played.values)


def test_rows_that_are_no_words_are_refused():
    for wrong in (np.zeros(3), np.zeros((1, 3), dtype=np.uint32), np.zeros(3, dtype=np.int32)):
        played = Phases().to_share()
        with pytest.raises(RefusedMessage, match="uint32 or uint64"):
            played.clients[12].mask(played.parcels[12], wrong)


def test_survivor_lists_that_differ_between_clients_reveal_nothing():
    played = Phases().to_mask()
    other = [number for number in played.survivors if number != 15]
    confirmed = {
        number: client.confirm(other if number == 13 else played.survivors)
        for number, client in played.clients.items()
        if number != 15
    }
    codes = {number: {peer: told[number] for peer, told in confirmed.items() if number in told} for number in confirmed}
    for number in confirmed:
        with pytest.raises(RefusedMessage, match="was given other survivors"):
            played.clients[number].reveal(codes[number])


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.slow
def test_no_lie_about_survivors_gives_both_secrets_of_a_client(data):
    # The server tells each client one of two lists and carries only codes that fit; client 14 tells it all it has.
    played, colluder = Phases(parties(7, 0.29, 0.15)).to_share(), 14
    terms = played.server.terms
    assert terms.threshold == 5
    lists = [sorted(data.draw(st.sets(st.sampled_from(terms.invited), min_size=5))) for _ in range(2)]
    told = {number: data.draw(st.sampled_from(lists)) for number in terms.invited}
    codes: dict[int, dict[int, bytes]] = {}
    for number, client in played.clients.items():
        client.mask(played.parcels[number], played.values)
        if number in told[number]:
            codes[number] = client.confirm(told[number])
    got: dict[int, dict[bool, int]] = {number: {True: 1, False: 1} for number in terms.invited if number != colluder}
    for number in codes:
        fitting = {peer: sent[number] for peer, sent in codes.items() if number in sent and told[peer] == told[number]}
        if number != colluder and len(fitting) + 1 >= terms.threshold:
            for owner in set(played.clients[number].reveal(fitting)) - {colluder}:
                got[owner][owner in told[number]] += 1
    assert all(min(counts.values()) < terms.threshold for counts in got.values())


@pytest.mark.parametrize(
    ("survivors", "sentence"),
    [
        ([10, 11, 13, 14, 15], "client 12 has sent its row and is not among the survivors"),
        ([10, 11, 12, 13, 99], "invited"),
        ([11, 10, 12, 13, 14], "ascending"),
        ([10, 10, 12, 13, 14], "ascending"),
    ],
)
def test_lists_of_survivors_that_cannot_be_are_refused(survivors, sentence):
    played = Phases().to_mask()
    with pytest.raises(RefusedMessage, match=sentence):
        played.clients[12].confirm(survivors)


def test_a_survivor_that_never_shared_is_refused():
    played = Phases().to_share()
    played.clients[12].mask({n: parcel for n, parcel in played.parcels[12].items() if n != 15}, played.values)
    with pytest.raises(RefusedMessage, match="never shared their secrets with client 12: 15"):
        played.clients[12].confirm([10, 11, 12, 13, 14, 15])


def test_a_confirmation_of_nobodys_or_a_forged_one_is_refused():
    for peer, code, sentence in ((99, bytes(32), "client 99 confirmed"), (13, bytes(32), "client 13 was given other")):
        played = Phases().to_confirm()
        with pytest.raises(RefusedMessage, match=sentence):
            played.clients[12].reveal({**played.codes[12], peer: code})


def test_a_client_reveals_one_share_of_each_client_and_only_once():
    played = Phases().to_share()
    client = played.clients[12]
    kept = dict(played.parcels[12])
    client.mask(kept, played.values)
    for number, other in played.clients.items():
        if number != 12:
            other.mask(played.parcels[number], played.values)
    survivors = [10, 11, 12, 13, 14]
    confirmed = {number: played.clients[number].confirm(survivors) for number in survivors}
    codes = {number: confirmed[number][12] for number in survivors if number != 12}
    revealed = client.reveal(codes)
    assert sorted(revealed) == [10, 11, 12, 13, 14, 15]
    for number, share in revealed.items():
        owner = played.clients[number]
        assert share == owner._split("mask key" if number == 15 else "self mask")[12]
    with pytest.raises(RefusedMessage, match="its next phase is: nothing more"):
        client.reveal(codes)


def test_a_phase_out_of_order_is_refused_and_changes_nothing():
    client = SIX.client(12)
    for call in (
        lambda: client.share({}),
        lambda: client.mask({}, np.zeros(1, dtype=np.uint32)),
        lambda: client.reveal({}),
    ):
        with pytest.raises(RefusedMessage, match="its next phase is: advertise"):
            call()
    client.advertise()
    with pytest.raises(RefusedMessage, match="was asked to advertise"):
        client.advertise()


def test_masking_twice_is_refused_since_it_would_show_the_difference_of_two_rows():
    played = Phases().to_share()
    played.clients[12].mask(played.parcels[12], played.values)
    with pytest.raises(RefusedMessage, match="its next phase is: confirm"):
        played.clients[12].mask(played.parcels[12], played.values + 1)


def test_a_client_that_is_not_invited_cannot_be_made():
    with pytest.raises(RefusedMessage, match="client 3 was not invited"):
        SIX.client(3)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.integers(8, 17), st.binary(max_size=200), max_size=8), st.data())
def test_no_message_makes_a_client_fail_in_another_way_than_refusing(messages, data):
    phase = data.draw(st.sampled_from(["share", "mask", "reveal"]))
    played = Phases() if phase == "share" else Phases().to_share() if phase == "mask" else Phases().to_confirm()
    client = played.clients[12]
    honest = {"share": played.advertisements}.get(phase) or (
        played.parcels[12] if phase == "mask" else played.codes[12]
    )
    told = {**honest, **messages}
    call = (lambda: client.mask(told, played.values)) if phase == "mask" else (lambda: getattr(client, phase)(told))
    if set(messages) - ({12} if phase == "share" else set()):
        with pytest.raises(RefusedMessage, match=r"\.$"):
            call()
    else:
        call()
