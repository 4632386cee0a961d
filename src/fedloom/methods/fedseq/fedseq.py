"""FedSeq: clients that complement each other train one model in turn; the server averages over the chains.

Each chain of clients takes the shared model w from member to member: ``w_j <- train(w_(j-1))``. The server takes
``w <- sum_s p_s w_s`` over the models at the chains' ends, a chain weighing as much as all of its members. Chains of
one client are FedAvg. ``walking.py`` has the way along the chains; with ``encrypt`` the server cannot read on it.

Zaccone, Rizzardi, Caldarola, Ciccone and Caputo, Speeding up Heterogeneous Federated Learning with Sequentially Trained
Superclients, ICPR 2022, https://arxiv.org/abs/2201.10899. A selection's fraction counts chains, not clients (ours
rounds up, the authors' down). The members' training rule is another method's, ``inner``: the centre of FedProx is the
model received in the chain. With FedDyn inside, the clients' linear terms telescope along a chain, so the server's h
stays their exact mean, with every client counting alike. (The authors' FedDyn has no live linear term and updates per
batch: not copied.)
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, ServerStep, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts, broken_facts, holds
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.relays import Handover
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, ShareBelowOne
from fedloom.core.task import Task
from fedloom.methods.fedseq.approximators import (
    Normalisation,
    check_approximator,
    confidences,
    linear_columns,
    principal_components,
)
from fedloom.methods.fedseq.checks import check_encryption, check_inner
from fedloom.methods.fedseq.grouping import (
    METRICS,
    Draw,
    check_chains,
    fill_groups,
    greedy_choice,
    one_per_cluster,
    only_members,
    random_order,
)
from fedloom.methods.fedseq.walking import HIDES, carry_envelopes, carry_rows, handover_in, order_of
from fedloom.registry.kinds import METHODS

OWN = "chain/"
"""Prefix of what FedSeq adds to the state of its inner method."""
PRETRAINED_NUMBERS = 1 << 25
"""About how many numbers of pre-trained models are in memory at a time."""


SENT: Declared = {"row": Model("the model that the site trained", single=True)}
PRETRAINED = Statistic("a model trained alone, or its last layer", single=True)


@dataclass(frozen=True)
class FedSeq(Algorithm):
    """Chains of clients: each member trains the model of the one before it; the server averages the chains' ends.

    Chains are formed once, before round 1: every client trains alone, an approximator turns its model into a vector,
    and a grouping puts clients together that complement each other (see ``grouping`` and ``approximators``).

    Args:
        grouping: How clients are grouped.
        approximator: What represents a client: ``clf``, its linear weights, or ``conf``, its confidence in each class.
        metric: How the greedy grouping compares a client with a group.
        normalise: How confidences are normalised.
        group_mean: What the greedy grouping compares a client with: the ``plain`` mean of the group's vectors (the
            thesis), or the mean ``weighted`` by samples (the authors' code).
        pretrain_epochs: How long each client trains alone.
        min_samples: A chain is full when it has this many samples; None sets no minimum.
        max_clients: A chain is full when it has this many clients.
        chains: The chains themselves, instead of a grouping; one chain of all clients, not reshuffled, is a ring.
        passes: How often a round goes along each chain.
        dropout: Share of members left out of each pass: at least one, never all.
        reshuffle: Take a new order of members in each pass.
        inner: The method that members and server follow.
        encrypt: Members encrypt their model for the next one, so that the server reads the chains' ends only.
    """

    receives: ClassVar[Declared] = {**Algorithm.receives, "initial": Model("the initial model")}

    grouping: Literal["greedy", "kmeans", "random"] = "greedy"
    approximator: Literal["clf", "conf"] = "clf"
    metric: Literal["cosine", "wasserstein", "gini", "kl"] = "cosine"
    normalise: Normalisation = "sum"
    group_mean: Literal["plain", "weighted"] = "plain"
    pretrain_epochs: Count = 10
    min_samples: Count | None = None
    max_clients: Count = 8
    chains: list[list[int]] | None = None
    passes: Count = 1
    dropout: ShareBelowOne = 0.0
    reshuffle: bool = True
    inner: str | dict[str, Any] | Algorithm = "fedavg"
    encrypt: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.inner, Algorithm):
            object.__setattr__(self, "inner", METHODS.plain_one(self.inner))
        super().__post_init__()
        if self.grouping == "greedy" and self.approximator == "clf" and self.metric in ("gini", "kl"):
            raise FedloomError(
                f"metric={self.metric} compares distributions, but approximator=clf gives weights: use "
                "approximator=conf, or metric=cosine."
            )
        if self.encrypt:
            check_encryption(self.chains, self.dropout)

    @cached_property
    def method(self) -> Algorithm:
        """The method that members and server follow."""
        made: Algorithm = METHODS.make(self.inner)
        return made

    @property
    def forms_chains_without_data(self) -> bool:
        """Whether chains are given or drawn at random, so that clients send no model before the first round."""
        return self.chains is not None or self.grouping == "random"

    @property
    def sends(self) -> Declared:  # type: ignore[override]
        return SENT if self.forms_chains_without_data else {**SENT, "pretrained": PRETRAINED}

    @property
    def turns(self) -> int:  # type: ignore[override]
        return self.passes

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]  # what the inner method promises of the ends of chains
        promises = {Fact.ONLY_TRAINING} | ({Fact.ONLY_MEANS} if self.forms_chains_without_data else set())
        known = {Fact.KNOWN_UNITS} if self.chains else set[Fact]()
        return known | promises - broken_facts(self.method).keys()

    @property
    def breaks(self) -> Facts:  # type: ignore[override]
        formed = "forms the chains itself: give it chains (method.chains)"
        found = {} if self.chains else {Fact.KNOWN_UNITS: formed}
        if len({len(chain) for chain in self.chains or ()}) > 1:
            found |= {Fact.HIDDEN_DRAWS: "sends more bytes in longer chains"}
        if self.encrypt:
            found |= {Fact.READABLE: HIDES, Fact.SAME_START: HIDES}
        return found | ({} if holds(Fact.ONE_STEP, self.method) else {Fact.ONE_STEP: "takes several steps per batch"})

    @property
    def keeps(self) -> Mapping[str, str]:  # type: ignore[override]  # a class's own words cannot name the inner method's
        return self.method.keeps

    @property
    def server(self) -> ServerStep | None:
        return self.method.server

    def steps_per_turn(self, work: LocalWork, samples: int) -> int:
        return self.method.steps_per_turn(work, samples)

    # -- before the first round

    def adapt_task(self, task: Task) -> Task:
        return self.method.adapt_task(task)

    def check(self, task: Task, work: LocalWork) -> None:
        check_inner(self.method, task, self.encrypt)
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
        """Form the chains."""
        if self.chains is not None:
            # Of a stream's first task a client may have no sample, and train later.
            absent = (context.samples == 0).nonzero().flatten().tolist()
            groups = [chain for chain in only_members(self.chains, {*context.clients, *absent}) if chain]
            if self.encrypt and sum(map(len, groups)) < sum(map(len, self.chains)):
                raise FedloomError(
                    "encrypt=true: a client that is held out of training is in a chain, and the one before it encrypts "
                    "for it: leave out new_clients."
                )
        else:
            clients = context.clients
            if self.grouping == "random":
                draw = random_order(len(clients), context.numpy_generator("grouping"))
            else:
                clients, draw = yield from self._group_by_models(server, context)
            samples = context.samples[torch.tensor(clients)].numpy()
            places = fill_groups(draw, samples, self.min_samples, self.max_clients)
            groups = [[clients[place] for place in group] for group in places]
        members, sizes = [client for group in groups for client in group], [len(group) for group in groups]
        return {**server, f"{OWN}members": torch.tensor(members), f"{OWN}sizes": torch.tensor(sizes)}

    def _group_by_models(
        self, server: State, context: ServerContext
    ) -> Generator[Wave, Replies, tuple[list[int], Draw]]:
        """Let clients train alone, and group them by the models they send back."""
        clients: list[int] = []
        parts = []
        block = max(8, PRETRAINED_NUMBERS // context.layout.width)
        for start in range(0, len(context.clients), block):
            some = list(context.clients[start : start + block])
            replies = yield Wave(some, Message({"initial": server["row"]}))
            clients, sent = [*clients, *replies.ids], replies["pretrained"]
            parts.append(confidences(context, sent, self.normalise) if self.approximator == "conf" else sent)
        sent_by_all = torch.cat(parts)
        vectors = sent_by_all.numpy() if self.approximator == "conf" else principal_components(sent_by_all)
        random = context.numpy_generator("grouping")
        if self.grouping == "kmeans":
            return clients, one_per_cluster(vectors, context.task.federation.classes, random)
        samples = context.samples[torch.tensor(clients)].numpy()
        counts = samples if self.group_mean == "weighted" else np.ones(len(clients))
        return clients, greedy_choice(vectors, counts, METRICS[self.metric], random)

    def groups(self, server: State) -> list[list[int]]:
        if self.chains is not None and f"{OWN}sizes" not in server:  # given chains are known before there is a state
            return [list(chain) for chain in self.chains]
        sizes: list[int] = server[f"{OWN}sizes"].tolist()
        return [chain.tolist() for chain in torch.split(server[f"{OWN}members"], sizes)]

    # -- a round

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        ends = yield from self.walk(server["row"].expand(len(ids), -1), ids, server, context)
        return {**server, **self.method.aggregate(inner_state(server), ends.only(ends.steps > 0))}

    def walk(
        self, rows: Tensor, ids: list[int], server: State, context: ServerContext
    ) -> Generator[Wave, Replies, Replies]:
        """Take rows along some chains, a row per chain; the rows at their ends are the chains' replies."""
        groups = self.groups(server)
        orders = [[self.order(groups[group], group, turn, context) for group in ids] for turn in range(self.passes)]
        if self.chains is not None:
            orders = [only_members(some, set(context.clients)) for some in orders]
        walk = carry_envelopes(rows, orders) if self.encrypt else carry_rows(self.method, rows, orders)
        ends, steps, replies = yield from walk
        samples = torch.stack([context.samples[torch.tensor(groups[group])].sum() for group in ids])
        weights, shares = context.weigh(samples, steps), torch.full((len(ids),), 1 / replies.clients)
        return replace(
            replies,
            ids=ids,
            tensors={"row": ends},
            samples=samples,
            steps=steps,
            weights=weights,
            shares=shares,
            origins={"row": rows},
        )

    def order(self, members: list[int], group: int, turn: int, context: ServerContext) -> list[int]:
        """A chain's members in the order of one pass, without those that drop out."""
        return order_of(members, group, turn, context.round, context.seed, self.dropout, self.reshuffle)

    def handover(self, client: int, round_number: int, turn: int, seed: int) -> Handover | None:
        if not self.encrypt or self.chains is None:
            return None
        found = [(number, some) for number, some in enumerate(self.chains) if client in some]
        if not found or turn >= self.passes:
            raise FedloomError(f"client {client} has no place in a chain in turn {turn + 1} of a round.")
        [(chain, members)] = found
        orders = [
            order_of(members, chain, each, round_number, seed, 0.0, self.reshuffle) for each in range(self.passes)
        ]
        return handover_in(orders, chain, client, turn)

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
    """The inner method's part of the state."""
    return {name: tensor for name, tensor in server.items() if not name.startswith(OWN)}
