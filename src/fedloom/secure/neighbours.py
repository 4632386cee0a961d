"""Who shares masks with whom: everybody with everybody, or each client with a few random neighbours.

Bell et al., Secure Single-Server Aggregation with (Poly)Logarithmic Overhead, CCS 2020 (SecAgg+,
https://eprint.iacr.org/2020/704): the n clients are put on a circle in a random order, and each is the neighbour of the
``k/2`` before and the ``k/2`` behind it (a Harary graph). With at most ``c`` colluding clients and ``d`` that drop out,
chosen without regard to the order, k and the threshold t are such that

- *connected*: the honest clients that stay are connected, so that nothing but their whole sum can be opened. They are
  not if and only if there are two gaps of k/2 or more on the circle, whose probability is at most
  ``C(n, 2) C(n-k, c+d-k) / C(n, c+d)``. (The paper bounds one such gap, which does not yet part a circle.)
- *secret*: no client's two secrets can both be had. Honest holders give a share of one of them and colluders of both,
  so ``2 t > k + 1 + X`` for the number X of colluders among k neighbours, which is hypergeometric.
- *delivered*: enough shares of each client are left: ``k - Y >= t`` for a client that drops out and, with its own
  share, ``k + 1 - Y >= t`` for one that stays. The number Y of neighbours that drop out is hypergeometric too.

The first two hold but for ``2^-secrecy``, the third but for ``2^-delivery``: a round that is not delivered is played
again. Up to 32 clients, and where this needs more than three quarters of all as neighbours, all are: then nothing is
left to chance, and ``t = n - d`` with ``2 t > n + c``.

With few neighbours the promise is the paper's for a server that follows the protocol. The order comes from what is
public before the round: a server that chooses whom to invite, or who drops out, can look for an order that puts a
client among colluders. Against a server that lies, all have to be neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from fedloom.core.errors import FedloomError
from fedloom.core.settings import ShareBelowOne, check_value
from fedloom.secure.primitives import digest

SECRECY, DELIVERY = 40, 10
FEW = 32
"""So many clients are all neighbours of each other: it costs each of them milliseconds."""


@dataclass(frozen=True)
class NeighbourPlan:
    """How many neighbours a client has, and how many shares give a secret back.

    Args:
        degree: The number of neighbours.
        threshold: The number of shares, of those of the neighbours and the client's own.
    """

    degree: int
    threshold: int


def count_of(share: float, clients: int) -> int:
    """The most clients that a share of them means.

    A share is what people write with three decimals: 0.333 of three is one, and 0.333 of 30 is ten. Where clients are
    many, a part of a client that was rounded away does not matter.

    Args:
        share: From 0 to below 1.
        clients: How many there are.
    """
    rounded_away = min(5e-4 * clients, 0.1)
    return math.floor(share * clients + rounded_away + 1e-9)


@lru_cache(maxsize=256)
def plan_neighbours(
    clients: int, dropouts: float, colluders: float, secrecy: int = SECRECY, delivery: int = DELIVERY
) -> NeighbourPlan:
    """Few neighbours that are enough, and the largest threshold that they allow.

    Args:
        dropouts: The largest share of them that drops out.
        colluders: The largest share of them that colludes with the server.
        secrecy: The bits of security against colluders.
        delivery: The bits of safety against rounds that fail though few drop out.
    """
    check_value("dropouts", dropouts, ShareBelowOne)
    check_value("colluders", colluders, ShareBelowOne)
    gone, bad = count_of(dropouts, clients), count_of(colluders, clients)
    threshold = clients - gone
    if threshold < 2:
        raise FedloomError(
            f"a secure sum of {clients} clients of which {gone} may drop out could be that of one client: invite more."
        )
    if 2 * threshold <= clients + bad:
        raise FedloomError(
            f"with {clients} clients, {gone} dropouts and {bad} colluders a server could open single updates: it takes "
            f"more clients than twice the dropouts and the colluders, here more than {2 * gone + bad}."
        )
    for degree in _degrees(clients * 3 // 4) if clients > FEW else ():
        if _log2_chance_of_parts(clients, gone + bad, degree) > -secrecy - 1:
            continue
        least = _least_threshold(clients, bad, degree, secrecy + 1)
        threshold = _largest_threshold(clients, gone, degree, delivery)
        if threshold >= least:
            return NeighbourPlan(degree, threshold)
    return NeighbourPlan(clients - 1, clients - gone)


def _degrees(most: int) -> Iterator[int]:
    """Even numbers that ascend by 2, and by a thirtieth where they are large: nobody needs the very fewest."""
    degree = 2
    while degree <= most:
        yield degree
        degree += max(2, degree // 60 * 2)


def _least_threshold(clients: int, colluders: int, degree: int, bits: int) -> int:
    """The smallest threshold that keeps one of each client's two secrets, but for a chance of 2^-bits."""
    tails = _tails(clients - 1, colluders, degree)
    among = next(number for number in range(degree + 1) if clients * tails[number + 1] <= 2.0**-bits)
    return (degree + 1 + among) // 2 + 1


def _largest_threshold(clients: int, dropouts: int, degree: int, bits: int) -> int:
    """The largest threshold that gives a secret of each client back, but for a chance of 2^-bits; 0 if none does."""
    of_stayer, of_dropout = (_tails(clients - 1, max(number, 0), degree) for number in (dropouts, dropouts - 1))

    def fails(threshold: int) -> float:
        stayers = (clients - dropouts) * of_stayer[degree + 2 - threshold]  # with its own share
        return stayers + dropouts * of_dropout[degree + 1 - threshold]

    return next((threshold for threshold in range(degree, 0, -1) if fails(threshold) <= 2.0**-bits), 0)


def _tails(others: int, marked: int, degree: int) -> list[float]:
    """The chance that some number or more of a client's neighbours are marked, for 0 to one above their number."""
    tails = [0.0]
    for number in range(degree, -1, -1):
        log = _log_choose(marked, number) + _log_choose(others - marked, degree - number) - _log_choose(others, degree)
        tails.append(tails[-1] + math.exp(log))
    return tails[::-1]


def _log2_chance_of_parts(clients: int, removed: int, degree: int) -> float:
    """A bound of the chance that a circle falls apart when some clients are removed, as a power of two."""
    if removed < degree:
        return -math.inf
    pairs = _log_choose(clients, 2)
    return (pairs + _log_choose(clients - degree, removed - degree) - _log_choose(clients, removed)) / math.log(2)


def _log_choose(total: int, number: int) -> float:
    """The logarithm of a binomial coefficient."""
    if not 0 <= number <= total:
        return -math.inf
    return math.lgamma(total + 1) - math.lgamma(number + 1) - math.lgamma(total - number + 1)


def order_on_circle(clients: Iterable[int], seed: bytes) -> list[int]:
    """The clients in a random order.

    Args:
        seed: Decides the order.
    """
    return sorted(clients, key=lambda client: digest(b"circle", seed, client.to_bytes(4, "big")))


@lru_cache(maxsize=8)
def neighbours_by_client(clients: tuple[int, ...], degree: int, seed: bytes) -> dict[int, tuple[int, ...]]:
    """The neighbours of every client, ascending. It is the same wherever it is computed.

    Args:
        degree: The number of neighbours; an even number, or one less than the clients.
        seed: Decides the order on the circle.
    """
    if degree == len(clients) - 1:
        everybody = sorted(clients)
        return {client: tuple(other for other in everybody if other != client) for client in everybody}
    circle = order_on_circle(clients, seed)
    reach = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    return {
        client: tuple(sorted(circle[(place + step) % len(circle)] for step in reach))
        for place, client in enumerate(circle)
    }
