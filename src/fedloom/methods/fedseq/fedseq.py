"""FedSeq: clients that complement each other train one model in turn, and the server averages over the chains.

Zaccone, Rizzardi, Caldarola, Ciccone and Caputo, Speeding up Heterogeneous Federated Learning with Sequentially Trained
Superclients, ICPR 2022. The j-th members of all chains train as one cohort, and their rows move on to the (j+1)-th.
A selection's fraction counts chains, not clients (ours rounds up, the authors' down). Which rule members train by is
another method's, ``inner``: FedProx's centre is the model received in the chain. With FedDyn inside, what its clients
remember telescopes along a chain, so the server's h stays their mean exactly, every client counting alike. (The
authors' FedDyn has no live linear term and updates per batch: not copied.)
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, ServerStep, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import Abandoned, FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.seeds import generator
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.fedseq.approximators import (
    Normalisation,
    check_approximator,
    confidences,
    linear_columns,
    principal,
)
from fedloom.methods.fedseq.grouping import METRICS, Draw, at_random, by_clusters, check_chains, filled, greedily
from fedloom.methods.registry import make_method, method_name

OWN = "chain/"
"""What FedSeq adds to the state of its inner method is named with this."""
PRETRAINED_NUMBERS = 1 << 25
"""About so many numbers of pre-trained models are held at a time."""


@dataclass(frozen=True)
class FedSeq(Algorithm):
    """Chains of clients: each member trains what the one before it hands on; the server takes the mean of the ends.

    Who forms a chain is found once, before round 1: every client trains ``pretrain_epochs`` alone, an ``approximator``
    makes a vector of its model, and ``grouping`` puts clients together until a chain has ``min_samples`` samples or
    ``max_clients`` clients (see ``grouping`` and ``approximators``). ``chains`` names the chains instead, say by
    geography; one chain of all clients, not reshuffled, is a ring. A round makes ``passes`` over each chain, in a new
    order each time (``reshuffle``), and each pass leaves out a share ``dropout`` of the members, at least one and never
    all. Chains of one client are FedAvg. A chain weighs as much as all of its members.
    """

    grouping: Literal["greedy", "kmeans", "random"] = "greedy"
    approximator: Literal["clf", "conf"] = "clf"
    metric: Literal["cosine", "wasserstein", "gini", "kl"] = "cosine"
    normalise: Normalisation = "sum"
    pretrain_epochs: int = 10
    min_samples: int | None = None
    max_clients: int = 8
    chains: list[list[int]] | None = None
    passes: int = 1
    dropout: float = 0.0
    reshuffle: bool = True
    inner: str | dict[str, Any] | Algorithm = "fedavg"

    def __post_init__(self) -> None:
        if isinstance(self.inner, Algorithm):
            object.__setattr__(self, "inner", {"name": method_name(self.inner), **asdict(self.inner)})
        for name in ("pretrain_epochs", "max_clients", "passes"):
            if getattr(self, name) < 1:
                raise FedloomError(f"{name}={getattr(self, name)}: it must be at least 1.")
        if self.min_samples is not None and self.min_samples < 1:
            raise FedloomError(f"min_samples={self.min_samples}: it must be at least 1; leave it out for no minimum.")
        if not 0 <= self.dropout < 1:
            raise FedloomError(f"dropout={self.dropout}: the share of members left out is at least 0 and less than 1.")
        if self.grouping == "greedy" and self.approximator == "clf" and self.metric in ("gini", "kl"):
            raise FedloomError(
                f"metric={self.metric} compares distributions, and approximator=clf gives weights: use "
                "approximator=conf, or metric=cosine."
            )

    @cached_property
    def method(self) -> Algorithm:
        """The method whose rules clients and server follow."""
        return make_method(cast("str | dict[str, Any]", self.inner))

    @property
    def server(self) -> ServerStep | None:
        return self.method.server

    @property
    def compiles(self) -> bool:
        return self.method.compiles

    # -- before the first round

    def check(self, task: Task, work: LocalWork) -> None:
        check_inner(self.method, task)
        self.method.check(task, work)
        if self.chains is not None:
            check_chains(self.chains, task.federation.clients)
            return
        sizes = task.federation.train.sizes.sort(descending=True).values[: self.max_clients]
        if self.min_samples is not None and int(sizes.sum()) < self.min_samples:
            raise FedloomError(
                f"min_samples={self.min_samples} cannot be reached: the {len(sizes)} largest clients (max_clients="
                f"{self.max_clients}) have {int(sizes.sum())} training samples together; lower one or raise the other."
            )
        if self.grouping != "random":
            check_approximator(self.approximator, task)

    def start(self, task: Task) -> State:
        return self.method.start(task)

    def prelude(self, server: State, context: ServerContext) -> Round:
        """Find the chains."""
        if self.chains is not None:
            able = set(context.clients)
            kept = [[client for client in chain if client in able] for chain in self.chains]
            groups = [chain for chain in kept if chain]
        else:
            clients = context.clients
            if self.grouping == "random":
                draw = at_random(len(clients), context.numpy_generator("grouping"))
            else:
                clients, draw = yield from self._informed(server, context)
            samples = context.samples[torch.tensor(clients)].numpy()
            places = filled(draw, samples, self.min_samples, self.max_clients)
            groups = [[clients[place] for place in group] for group in places]
        members, sizes = [client for group in groups for client in group], [len(group) for group in groups]
        return {**server, f"{OWN}members": torch.tensor(members), f"{OWN}sizes": torch.tensor(sizes)}

    def _informed(self, server: State, context: ServerContext) -> Generator[Wave, Replies, tuple[list[int], Draw]]:
        """Clients train alone from the initial model; what they send back says who completes whom."""
        clients: list[int] = []
        parts = []
        block = max(8, PRETRAINED_NUMBERS // context.layout.width)
        for start in range(0, len(context.clients), block):
            some = list(context.clients[start : start + block])
            replies = yield Wave(some, Message({"initial": server["row"]}))
            clients, sent = [*clients, *replies.ids], replies["pretrained"]
            parts.append(confidences(context, sent, self.normalise) if self.approximator == "conf" else sent)
        found = torch.cat(parts)
        vectors = found.numpy() if self.approximator == "conf" else principal(found)
        random = context.numpy_generator("grouping")
        if self.grouping == "kmeans":
            return clients, by_clusters(vectors, context.task.federation.classes, random)
        samples = context.samples[torch.tensor(clients)].numpy()
        return clients, greedily(vectors, samples, METRICS[self.metric], random)

    def groups(self, server: State) -> list[list[int]]:
        sizes: list[int] = server[f"{OWN}sizes"].tolist()
        return [chain.tolist() for chain in torch.split(server[f"{OWN}members"], sizes)]

    # -- a round

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        ends = yield from self.walk(server["row"].expand(len(ids), -1), ids, server, context)
        return {**server, **self.method.aggregate(inner_state(server), ends.only(ends.steps > 0))}

    def walk(
        self, rows: Tensor, ids: list[int], server: State, context: ServerContext
    ) -> Generator[Wave, Replies, Replies]:
        """Take rows along some chains, a row per chain; what arrives at their ends, as replies of the chains."""
        groups, rows, steps = self.groups(server), rows.clone(), torch.zeros(len(ids), dtype=torch.int64)
        for turn in range(self.passes):
            orders = [self.order(groups[group], group, turn, context) for group in ids]
            for place in range(max(len(order) for order in orders)):
                on = torch.tensor([len(order) > place for order in orders]).nonzero().flatten()
                clients = [orders[chain][place] for chain in on.tolist()]
                first = torch.full((len(on),), turn == place == 0)
                last = torch.tensor([turn + 1 == self.passes and len(orders[c]) == place + 1 for c in on.tolist()])
                replies = yield Wave(clients, Message(each={"row": rows[on]}), turn, first, last, optional=True)
                if not replies.ids:  # a member that does not answer is skipped: its chain's model goes on to the next
                    continue
                if set(replies.tensors) != {"row"}:
                    raise unfit(self.method, f"its clients send back {', '.join(replies.tensors)}")
                on = on[torch.isin(torch.tensor(clients), torch.tensor(replies.ids))]
                rows[on] = replies["row"]
                steps[on] += replies.steps
        if not steps.any():
            raise Abandoned("no client of any chain answered")
        samples = torch.stack([context.samples[torch.tensor(groups[group])].sum() for group in ids])
        weights, shares = context.weigh(samples, steps), torch.full((len(ids),), 1 / replies.clients)
        sent = {"row": rows}
        return replace(replies, ids=ids, tensors=sent, samples=samples, steps=steps, weights=weights, shares=shares)

    def order(self, members: list[int], group: int, turn: int, context: ServerContext) -> list[int]:
        """A chain's members in the order of one pass, without those who drop out."""
        count = len(members)
        places = torch.randperm(count, generator=generator(context.seed, "chain", context.round, group, turn))
        if self.dropout:
            places = places[min(count - 1, max(1, math.ceil(self.dropout * count))) :]
        if not self.reshuffle:
            places = places.sort().values
        return [members[place] for place in places.tolist()]

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return self.method.broadcast(inner_state(server), ids)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        if "initial" not in message:
            return self.method.client_update(cohort, message)
        work = replace(cohort.setting.work, epochs=self.pretrain_epochs, steps=None)
        rows = cohort.train(cohort.spread(message["initial"]), work=work)
        return Reply({"pretrained": rows if self.approximator == "conf" else rows[:, linear_columns(cohort.task)]})

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return self.method.weights_for(message, cohort)


def inner_state(server: State) -> State:
    """The part of the state that is the inner method's."""
    return {name: tensor for name, tensor in server.items() if not name.startswith(OWN)}


def unfit(method: Algorithm, why: str) -> FedloomError:
    """The sentence for a method that cannot run inside chains."""
    name = type(method).__name__.lower()
    return FedloomError(f"{name} cannot run inside chains: {why}; use fedavg, fedprox or feddyn as inner.")


def check_inner(method: Algorithm, task: Task) -> None:
    """Refuse a method whose clients do more than turn one whole model into another."""
    hooks = ("play", "prelude", "groups", "trains_on")
    plain = all(getattr(type(method), hook) is getattr(Algorithm, hook) for hook in hooks)
    if (
        not (plain and method.communicates and method.shares_whole_model and method.trains_locally)
        or method.has_personal_models
    ):
        raise unfit(method, "a chain hands on one whole model that each member trains, and nothing else")
    sent = method.broadcast(method.start(task), [0])
    if {*sent.shared, *sent.each} != {"row"}:
        raise unfit(method, f"a chain hands on a model, and its clients need {', '.join([*sent.shared, *sent.each])}")
