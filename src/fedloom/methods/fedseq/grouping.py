"""Groups of clients whose data complement each other, so that the union of a group's data is nearly uniform.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients, ICPR 2022,
https://arxiv.org/abs/2201.10899, and Rizzardi's thesis on it. A group is filled while it has too few samples and room
for another client. The greedy rule adds the client that *maximises* a metric against the group so far: printed
pseudo-code minimises it, which builds the worst groups possible. Also corrected: the last group is not lost, and groups
do not outgrow their limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np

from fedloom.core.errors import FedloomError

Metric = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""``metric(clients, group)``: how well each client (a vector per row) would complete a group's mean vector."""
Draw = Callable[[list[int]], int]
"""The next client of a group, given those that it has."""


def gini(clients: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The Gini impurity ``1 - sum(m^2)`` of the half-way mean m of client and group."""
    mean = (clients + group) / 2
    return np.asarray(1 - np.square(mean).sum(-1))


def kl(clients: np.ndarray, group: np.ndarray) -> np.ndarray:
    """``1 - KL(m || uniform)`` of the half-way mean m of client and group, with 0 log 0 = 0."""
    mean = (clients + group) / 2
    return 1 - divergence(mean)


def cosine(clients: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The cosine distance; a vector without a direction is at distance 1 from everything."""
    norms = np.linalg.norm(clients, axis=-1) * np.linalg.norm(group)
    return np.asarray(1 - np.divide(clients @ group, norms, out=np.zeros(len(clients)), where=norms > 0))


def wasserstein(clients: np.ndarray, group: np.ndarray) -> np.ndarray:
    """``mean |sort(u) - sort(g)|``: the vectors as samples of a number, as the authors' code has it.

    It does not see which class is which, and groups hardly better than chance.
    """
    return np.asarray(np.abs(np.sort(clients, axis=-1) - np.sort(group)).mean(-1))


METRICS: dict[str, Metric] = {"gini": gini, "kl": kl, "cosine": cosine, "wasserstein": wasserstein}


def divergence(distributions: np.ndarray) -> np.ndarray:
    """``KL(p || uniform)`` of each distribution: 0 for a uniform one, log n for a single class."""
    scaled = distributions * distributions.shape[-1]
    return np.asarray((distributions * np.log(np.where(scaled > 0, scaled, 1))).sum(-1))


def random_order(clients: int, random: np.random.Generator) -> Draw:
    """Clients in random order."""
    order = iter(random.permutation(clients).tolist())
    return lambda _: next(order)


def greedy_choice(vectors: np.ndarray, weights: np.ndarray, metric: Metric, random: np.random.Generator) -> Draw:
    """The client that maximises the metric against the group's mean; a group's first one is random.

    Args:
        vectors: A vector per client.
        weights: What each client counts in the mean of its group: all the same in the thesis (section 4.1.2), its
            samples in the authors' code.
        metric: How well a client would complete a group.
        random: Draws the first clients.
    """
    free = np.ones(len(vectors), dtype=bool)

    def draw(group: list[int]) -> int:
        left = np.flatnonzero(free)
        if group:
            mean = weights[group] @ vectors[group] / weights[group].sum()
            client = left[np.argmax(metric(vectors[left], mean))]
        else:
            client = random.choice(left)
        free[client] = False
        return int(client)

    return draw


def one_per_cluster(vectors: np.ndarray, clusters: int, random: np.random.Generator) -> Draw:
    """One client at a time from clusters of similar clients (k-means), in turn; empty clusters are skipped."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    number = min(clusters, len(np.unique(vectors, axis=0)))
    means = KMeans(number, n_init=10, random_state=int(random.integers(1 << 31)))
    with threadpool_limits(1):  # sums in one order, whatever the number of cores
        cluster = means.fit_predict(vectors)
    order = random.permutation(len(vectors))
    waiting = [order[cluster[order] == number].tolist() for number in range(number)]
    turn = -1

    def draw(_: list[int]) -> int:
        nonlocal turn
        turn = next(t % number for t in range(turn + 1, turn + 1 + number) if waiting[t % number])
        return int(waiting[turn].pop())

    return draw


def fill_groups(draw: Draw, samples: np.ndarray, min_samples: int | None, max_clients: int) -> list[list[int]]:
    """All clients in groups; a group is full when it has ``min_samples`` samples or ``max_clients`` clients.

    Without ``min_samples`` only the number of clients counts. If the last group stays below ``min_samples``, its
    clients go, one at a time and in turn, to the groups with room, the smallest first; those for whom there is no
    room stay a group. Groups are in the order of their smallest client.
    """
    enough = math.inf if min_samples is None else min_samples
    groups: list[list[int]] = [[]]
    for _ in samples:
        if samples[groups[-1]].sum() >= enough or len(groups[-1]) >= max_clients:
            groups.append([])
        groups[-1].append(draw(groups[-1]))
    *done, last = groups
    if samples[last].sum() < enough:
        last = _hand_out(last, sorted(done, key=lambda group: samples[group].sum()), max_clients)
    return sorted([*done, last] if last else done, key=min)


def _hand_out(clients: list[int], groups: list[list[int]], max_clients: int) -> list[int]:
    """Give clients to groups with room, in turn; return the clients for whom there is none."""
    left = list(clients)
    while left and any(len(group) < max_clients for group in groups):
        for group in groups:
            if left and len(group) < max_clients:
                group.append(left.pop())
    return left


def check_chains(chains: list[list[int]], clients: int) -> None:
    """Refuse chains that miss a client, name one twice, or are empty."""
    named = Counter(client for chain in chains for client in chain)
    strange = sorted(client for client in named if not 0 <= client < clients)
    twice = sorted(client for client, times in named.items() if times > 1)
    missing = sorted(set(range(clients)) - set(named))
    for wrong, clause in ((strange, "do not exist"), (twice, "are named twice"), (missing, "are in no chain")):
        if wrong:
            some = ", ".join(map(str, wrong[:5])) + (", ..." if len(wrong) > 5 else "")
            raise FedloomError(f"chains: clients {some} {clause}; name each client from 0 to {clients - 1} once.")
    if not all(chains):
        raise FedloomError("chains: a chain is empty; leave it out.")


def only_members(chains: Sequence[Sequence[int]], clients: Collection[int]) -> list[list[int]]:
    """The members of each chain that are among some clients.

    Args:
        clients: Those who train; clients held out of training are not.
    """
    return [[member for member in chain if member in clients] for chain in chains]
