"""Homomorphic sums as a step: exact, repeatable, and opened only by clients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import Abandoned, FedloomError
from fedloom.secure.ckks import DEGREE, SLOTS, TEXT_BYTES, CkksAdder, _context, _part, _vector
from fedloom.secure.homomorphic_sum import HEAD, MOST_SITES, STEP, EncryptedHalf
from fedloom.secure.row_tags import CODE as CODE_BYTES
from fedloom.secure.sum_step import ROWS, RefusedMessage, SumSession
from fedloom.secure.sums import play_sum
from support.synthetic import small_task

pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
CODE = fl.CKKS()
SESSION = SumSession("run", 1, 0, (3, 5, 8), 1 << 40)


def rows() -> torch.Tensor:
    values = torch.randn(3, 5000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return CODE.code(values, torch.tensor([1, (1 << 40) - 1, 12345]), SESSION, [])


def test_a_sum_is_the_plain_sum_of_the_rounded_rows_to_the_bit():
    coded = rows()
    total, up, down = play_sum(CODE, SESSION, dict(zip(SESSION.ids, coded, strict=True)))
    assert torch.equal(total.row, coded.sum(0))
    decoded = CODE.decode_total(total, SESSION)
    assert decoded.weight == 1 + (1 << 40) - 1 + 12345
    assert decoded.scaled == 0
    assert up == 3 * (2 * 131_224 + CODE_BYTES + 8 * (MOST_SITES + HEAD + 5000))
    assert down == 3 * (2 * 131_224 + 8 * 3 + 8 * 3 + 3 * CODE_BYTES)  # who is in the sum, and who has confirmed it


def test_numbers_are_rounded_to_the_nearest_step():
    values = torch.tensor([[0.3, -0.3], [1.0, STEP / 3]]).double()
    coded = CODE.code(values, torch.ones(2, dtype=torch.int64), SESSION, [])[:, HEAD:]
    assert float((coded - values).abs().max()) <= STEP / 2
    assert torch.equal((coded / STEP).round(), coded / STEP)


def test_a_row_that_does_not_fit_is_scaled_and_counted():
    coded = CODE.code(torch.tensor([[1e6, 5e5]]).double(), torch.tensor([1]), SESSION, [])
    assert coded[0, HEAD - 1] == 1
    assert float(coded[0, HEAD] / coded[0, HEAD + 1]) == pytest.approx(2)


@pytest.fixture(scope="module")
def keys():
    return CODE.simulate_keys(SESSION.ids)


def play_with(keys, change, phase_name):
    """The sum when a function has changed what clients answered in one phase."""
    server_keys, own = keys
    coded = dict(zip(SESSION.ids, rows(), strict=True))
    halves = {client: CODE.client_half(SESSION, client, own[client]) for client in SESSION.ids}
    server = CODE.server_half(SESSION, server_keys)
    try:
        phase = next(server)
        while True:
            row = coded if phase.name == ROWS else {}
            answers = {
                client: halves[client].answer(phase.name, got, row.get(client)) for client, got in phase.each.items()
            }
            phase = server.send(change(answers) if phase.name == phase_name else answers)
    except StopIteration as end:
        return end.value


@pytest.fixture(scope="module")
def texts(keys):
    """The encrypted row of each client."""
    _, own = keys
    coded = dict(zip(SESSION.ids, rows(), strict=True))
    return {client: half(keys, client).answer(ROWS, {}, coded[client])["row"] for client in own}


def half(keys, client, session=SESSION) -> EncryptedHalf:
    made = CODE.client_half(session, client, keys[1][client])
    assert isinstance(made, EncryptedHalf)
    return made


def asked_to_confirm(keys, *added, clients=SESSION.ids, session=SESSION):
    """What client 3 says to a server that adds some rows and announces some clients."""
    adder = CkksAdder(keys[0].public, len(added[0]) // 131_224 * SLOTS)
    for text in added:
        adder.add(text.numpy())
    mine = half(keys, 3, session)
    mine.answer(ROWS, {}, rows()[0])
    told = {"total": torch.from_numpy(adder.total()), "clients": torch.tensor(clients)}
    return mine, mine.answer("confirm", told, None)["code"]


def test_a_site_confirms_the_sum_of_each_announced_client_once(keys, texts):
    mine, _ = asked_to_confirm(keys, *texts.values())
    assert mine.opening.clients == SESSION.ids
    mine, _ = asked_to_confirm(keys, texts[3], texts[8], clients=(3, 8))
    assert mine.opening.clients == (3, 8)


@pytest.mark.parametrize(
    ("added", "clients"),
    [
        ((3, 3), (3, 5)),  # a row added twice passed as two clients
        ((3, 3, 3), (3, 5, 8)),
        ((3, 5, 5), (3, 5, 8)),
        ((3, 5), (3, 5, 8)),
        ((3, 5, 8), (3, 5)),
        ((5, 8), (3, 5)),
        ((3,), (3, 8)),
    ],
)
def test_a_sum_that_has_not_each_announced_client_once_is_not_opened(keys, texts, added, clients):
    with pytest.raises(RefusedMessage, match=r"not the sum of each of the . announced clients once"):
        asked_to_confirm(keys, *[texts[client] for client in added], clients=clients)


def test_one_text_of_a_long_row_cannot_be_that_of_fewer_clients(keys, texts):
    adder = CkksAdder(keys[0].public, 2 * SLOTS)
    for text in texts.values():
        adder.add(text.numpy())
    total = torch.from_numpy(adder.total())
    for wrong in (texts[3], total.roll(131_224)):  # the second text is client 3's alone, or both are exchanged
        mixed = torch.cat([total[:131_224], wrong[131_224:]])
        mine = half(keys, 3)
        mine.answer(ROWS, {}, rows()[0])
        with pytest.raises(RefusedMessage, match="announced clients once"):
            mine.answer("confirm", {"total": mixed, "clients": torch.tensor(SESSION.ids)}, None)


def test_a_row_of_another_round_does_not_count_for_this_one(keys, texts):
    later = replace(SESSION, round=2)
    new = {client: half(keys, client, later).answer(ROWS, {}, rows()[0])["row"] for client in (3, 5)}
    with pytest.raises(RefusedMessage, match="announced clients once"):
        asked_to_confirm(keys, new[3], new[5], texts[8], session=later)


def test_numbers_between_two_steps_are_not_those_of_a_sum(keys, texts):
    """A server that multiplies rows by other numbers than one, each by its own, leaves the grid."""
    moved = half(keys, 5).answer(ROWS, {}, rows()[1] + STEP / 3)["row"]
    with pytest.raises(RefusedMessage, match="announced clients once"):
        asked_to_confirm(keys, texts[3], moved, texts[8])


SLOT_MULTIPLIER = {
    **{161: -108, 349: -56, 384: 81, 654: -41, 732: 62, 740: 152, 967: 71, 1084: 7},
    **{1359: -109, 1772: -76, 1961: -146, 2379: -32, 2542: 238, 3274: -219, 3311: 106, 3552: 133},
}
"""A polynomial (coefficients by exponent, found by lattice reduction in a second) that multiplies the first two numbers
of a text, its tags, by 0 and the next three by whole numbers, of which the first is -593."""


def multiply_slots(public, text, folder) -> bytes:
    """An encrypted text times that polynomial: its scale stays, its noise stays small, and no key is needed."""
    seal = pytest.importorskip("tenseal.sealapi")
    context = _context(public)
    inside = context.seal_context().data
    roots = np.array([pow(3, slot, 2 * DEGREE) for slot in range(SLOTS)])
    turns = {power: np.exp(1j * np.pi / DEGREE * (power * roots % (2 * DEGREE))) for power in SLOT_MULTIPLIER}
    factors, product = seal.Plaintext(), seal.Ciphertext()
    seal.CKKSEncoder(inside).encode(list(sum(SLOT_MULTIPLIER[power] * turns[power] for power in turns)), 1.0, factors)
    (cipher,) = _vector(context, text).ciphertext()
    seal.Evaluator(inside).multiply_plain(cipher, factors, product)
    for name, one in (("before", cipher), ("after", product)):
        one.save(str(folder / name))
    return text.replace((folder / "before").read_bytes(), (folder / "after").read_bytes())


def test_a_server_cannot_let_one_client_count_more_in_some_numbers_of_a_sum(keys, tmp_path):
    """Tags that did not depend on the numbers behind them let it read one client's, at a cosine of 0.99."""
    values = torch.randn(3, SLOTS - 2 - MOST_SITES - HEAD + 3, generator=torch.Generator().manual_seed(1)).double() / 50
    coded = CODE.code(values, torch.tensor([1, 2, 3]), SESSION, [])
    halves = {client: half(keys, client) for client in SESSION.ids}
    texts = {c: halves[c].answer(ROWS, {}, row)["row"] for c, row in zip(SESSION.ids, coded, strict=True)}
    last = multiply_slots(keys[0].public, _part(texts[5].numpy(), 2 * SLOTS)[1], tmp_path)
    more = texts[5].clone()
    more[TEXT_BYTES:] = 0
    more[TEXT_BYTES : TEXT_BYTES + 4 + len(last)] = torch.tensor(list(len(last).to_bytes(4, "big") + last))
    adder = CkksAdder(keys[0].public, 2 * SLOTS)
    for text in (*texts.values(), more):
        adder.add(text.numpy())
    honest = CkksAdder(keys[0].public, 2 * SLOTS)
    for text in texts.values():
        honest.add(text.numpy())
    total = torch.from_numpy(np.concatenate([honest.total()[:TEXT_BYTES], adder.total()[TEXT_BYTES:]]))
    with pytest.raises(RefusedMessage, match="announced clients once"):
        halves[3].answer("confirm", {"total": total, "clients": torch.tensor(SESSION.ids)}, None)


@pytest.mark.parametrize("clients", [(3,), (5, 8), (3, 3), (5, 3), (3, 9)])
def test_strange_lists_of_clients_are_refused(keys, texts, clients):
    with pytest.raises(RefusedMessage, match=r"ascending list|says too much about one"):
        asked_to_confirm(keys, texts[3], clients=clients)


def test_a_sum_is_opened_once_and_only_if_more_than_half_have_confirmed_it(keys, texts):
    mine, code = asked_to_confirm(keys, *texts.values())
    other = half(keys, 5)
    other.answer(ROWS, {}, rows()[1])
    alone = {"confirmed": torch.tensor([3]), "codes": code}
    with pytest.raises(RefusedMessage, match="1 of 3 clients have confirmed"):
        mine.answer("open", alone, None)
    with pytest.raises(RefusedMessage, match="opened once"):
        mine.answer("open", alone, None)
    mine, code = asked_to_confirm(keys, *texts.values())
    with pytest.raises(
        RefusedMessage, match="1 of 3 clients have confirmed"
    ):  # the code of another client is not its own
        mine.answer("open", {"confirmed": torch.tensor([3, 5]), "codes": code.repeat(2)}, None)
    with pytest.raises(RefusedMessage, match="opened once, after"):
        half(keys, 3).answer("open", alone, None)


def test_clients_that_open_other_numbers_are_outvoted_or_the_sum_is_given_up(keys):
    def lie(*liars):
        return lambda opened: opened | {client: {"row": opened[client]["row"] + client} for client in liars}

    assert torch.equal(play_with(keys, lie(5), "open").row, rows().sum(0))
    with pytest.raises(Abandoned, match="most of them to the same numbers"):
        play_with(keys, lie(5, 8), "open")


MALFORMED = [
    {},
    {"row": torch.zeros(3, dtype=torch.float64)},
    {"row": torch.zeros(0, dtype=torch.float64)},
    {"row": torch.zeros(5000 + HEAD)},
    {"row": torch.zeros(2, 5000 + HEAD, dtype=torch.float64)},
    {"row": torch.full((5000 + HEAD,), torch.nan, dtype=torch.float64)},
    {"row": torch.zeros(50, dtype=torch.uint8)},
    {"row": torch.zeros(131_224, dtype=torch.uint8)},
    {"row": torch.zeros(5, dtype=torch.bfloat16)},
]


@pytest.mark.parametrize("wrong", MALFORMED, ids=lambda answer: " ".join(str(row.shape) for row in answer.values()))
@pytest.mark.slow
def test_a_malformed_answer_counts_as_none(keys, wrong):
    total = play_with(keys, lambda opened: {**opened, 3: wrong}, "open")
    assert torch.equal(total.row, rows().sum(0))
    with pytest.raises(Abandoned, match="1 clients opened the sum, and at least 2 must"):
        play_with(keys, lambda opened: {**opened, 3: wrong, 5: wrong}, "open")
    with pytest.raises(Abandoned, match="0 clients opened the sum"):
        play_with(keys, lambda _: {3: wrong}, "open")
    total = play_with(keys, lambda sent: {**sent, 3: wrong}, ROWS)
    assert total.ids == (5, 8)
    assert torch.equal(total.row, rows()[1:].sum(0))


def test_the_server_gives_up_a_sum_that_does_not_have_each_client_once(keys):
    def twice(opened):
        return {
            client: {"row": answer["row"].index_add(0, torch.tensor([0]), torch.ones(1).double())}
            for client, answer in opened.items()
        }

    with pytest.raises(Abandoned, match="not of each of its 3 clients once"):
        play_with(keys, twice, "open")


def test_too_many_clients_are_refused_before_they_train():
    with pytest.raises(FedloomError, match="at most 32 clients"):
        CODE.check_session(SumSession("run", 1, 0, tuple(range(33)), 1))


def test_a_run_is_repeated_to_the_byte():
    settings = {"rounds": 2, "local": {"epochs": 1, "batch_size": 16, "lr": 0.1}, "channel": ["ckks"]}
    one, other = (fl.run(small_task(), "fedavg", **settings) for _ in range(2))
    assert torch.equal(one.row, other.row)
