"""Homomorphic sums as a step: exact, repeatable, and opened only by clients."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import Abandoned, FedloomError
from fedloom.secure.homomorphic_sum import HEAD, STEP, EncryptedHalf
from fedloom.secure.sum_step import ROWS, RefusedMessage, SumSession, Total
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
    assert up == 3 * (2 * 131_224 + 8 * (5000 + HEAD))
    assert down == 3 * 2 * 131_224


def test_numbers_are_rounded_to_the_nearest_step():
    values = torch.tensor([[0.3, -0.3], [1.0, STEP / 3]]).double()
    coded = CODE.code(values, torch.ones(2, dtype=torch.int64), SESSION, [])[:, HEAD:]
    assert float((coded - values).abs().max()) <= STEP / 2
    assert torch.equal((coded / STEP).round(), coded / STEP)


def test_a_row_that_does_not_fit_is_scaled_and_counted():
    coded = CODE.code(torch.tensor([[1e6, 5e5]]).double(), torch.tensor([1]), SESSION, [])
    assert coded[0, HEAD - 1] == 1
    assert float(coded[0, HEAD] / coded[0, HEAD + 1]) == pytest.approx(2)


def test_a_client_opens_nothing_before_its_row_nothing_twice_and_no_single_row():
    _, keys = CODE.simulate_keys(SESSION.ids)
    half = CODE.client_half(SESSION, 3, keys[3])
    assert isinstance(half, EncryptedHalf)
    alone = half.answer(ROWS, {}, rows()[0])["row"]
    with pytest.raises(RefusedMessage, match="the sum of 1 clients"):
        half.answer("open", {"total": alone}, None)
    with pytest.raises(RefusedMessage, match="opened once"):
        half.answer("open", {"total": alone}, None)


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


def test_a_sum_with_other_clients_than_it_says_is_given_up():
    with pytest.raises(Abandoned, match="of 3 clients instead of 2"):
        CODE.decode_total(Total(rows().sum(0), (3, 5)), SESSION)


def test_too_many_clients_are_refused_before_they_train():
    with pytest.raises(FedloomError, match="at most 32 clients"):
        CODE.check_session(SumSession("run", 1, 0, tuple(range(33)), 1))


def test_a_run_is_repeated_to_the_byte():
    settings = {"rounds": 2, "local": {"epochs": 1, "batch_size": 16, "lr": 0.1}, "channel": ["ckks"]}
    one, other = (fl.run(small_task(), "fedavg", **settings) for _ in range(2))
    assert torch.equal(one.row, other.row)
