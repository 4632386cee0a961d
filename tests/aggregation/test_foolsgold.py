"""FoolsGold: weights by hand, against the loops of the paper, and two sybils among honest clients."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.aggregation.foolsgold import FoolsGold
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows


def test_sybils_lose_all_weight_and_orthogonal_clients_keep_theirs():
    histories = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    assert FoolsGold().trust_in(histories).tolist() == [1.0, 1.0, 0.0, 0.0]


def test_a_pardoned_client_by_hand():
    # b lies at 60 degrees to the sybils: its cosine of 0.5 is pardoned to 0.5 * 0.5 / 1 = 0.25, so its trust is 0.75.
    histories = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(0.75)], [-1.0, 0.0]])
    # The last client has no positive cosine with anybody: 1, the largest. Of 0.75 the logit plus 0.5 is above 1.
    assert FoolsGold().trust_in(histories).tolist() == [0.0, 0.0, 1.0, 1.0]
    low = FoolsGold(confidence=0.5).trust_in(histories)
    assert low[2].item() == pytest.approx(0.5 * (math.log(3) + 0.5))


def paper(histories: torch.Tensor) -> list[float]:
    """Algorithm 1 in loops, for histories whose cosines are positive."""
    count = len(histories)
    cosines = [
        [float(torch.nn.functional.cosine_similarity(a, b, dim=0)) if i != j else 0.0 for j, b in enumerate(histories)]
        for i, a in enumerate(histories)
    ]
    most = [max(row) for row in cosines]
    trust = []
    for i in range(count):
        pardoned = [cosines[i][j] * (most[i] / most[j] if most[j] > most[i] else 1) for j in range(count) if j != i]
        trust.append(min(1.0, max(0.0, 1 - max(pardoned))))
    top = max(trust)
    trust = [value / top for value in trust]
    return [1.0 if v == 1 else 0.0 if v == 0 else min(1.0, max(0.0, math.log(v / (1 - v)) + 0.5)) for v in trust]


@given(st.integers(2, 7), st.integers(2, 9), st.integers(0, 1000))
def test_it_is_the_papers_algorithm(clients, width, seed):
    histories = honest_rows(clients, width, seed).abs().double() + 0.01
    assert FoolsGold().trust_in(histories).tolist() == pytest.approx(paper(histories), abs=1e-5)


def test_histories_are_sums_over_rounds_of_the_clients_that_came():
    memory: dict[str, torch.Tensor] = {}
    aggregate(FoolsGold(), [[1.0, 0.0], [0.0, 1.0]], ids=[4, 2], memory=memory)
    aggregate(FoolsGold(), [[1.0, 1.0], [5.0, 0.0]], ids=[2, 9], memory=memory)
    assert memory["clients"].tolist() == [2, 4, 9]
    assert memory["sums"].tolist() == [[1.0, 2.0], [1.0, 0.0], [5.0, 0.0]]


def test_two_sybils_do_not_move_the_mean_of_the_honest():
    honest = torch.eye(3) * 3
    rows = torch.cat([honest, torch.tensor([[-9.0, -9.0, -9.0], [-9.0, -9.0, -9.0]])])
    found = aggregate(FoolsGold(), rows, ids=[0, 1, 2, 3, 4], origin=torch.zeros(3))
    assert found.tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_if_all_are_alike_nothing_moves():
    start = torch.tensor([1.0, 2.0])
    assert aggregate(FoolsGold(), [[3.0, 3.0]] * 4, ids=[0, 1, 2, 3], origin=start).tolist() == [1.0, 2.0]


def test_a_client_alone_is_trusted():
    assert aggregate(FoolsGold(), [[3.0, 4.0]], ids=[0]).tolist() == [3.0, 4.0]


def test_no_confidence_is_refused():
    with pytest.raises(FedloomError, match=r"confidence=0\.0: it must be above 0"):
        FoolsGold(confidence=0.0)
