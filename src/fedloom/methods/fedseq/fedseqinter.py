"""FedSeqInter: FedSeq whose models move on to other chains before they are averaged.

There are as many running models w_s as a round has chains, and ``w = sum_s p_s w_s`` is their aggregate. Every
``period`` rounds (0: as many as there are chains) all of them become the aggregate; in between each moves on along
another chain, drawn at random. The aggregate, weighted by the samples that each model has seen since, is still taken
every round for evaluation. With ``period`` = 1 this is FedSeq.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients, ICPR 2022,
https://arxiv.org/abs/2201.10899.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fedloom.core.algorithm import Round, State
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import WholeNumber
from fedloom.methods.fedseq.fedseq import OWN, FedSeq, inner_state
from fedloom.registry.nested_keys import select_prefix


@dataclass(frozen=True)
class FedSeqInter(FedSeq):
    """FedSeq whose models move on to other chains before they are averaged.

    Args:
        period: Rounds between two averages; 0 is as many as there are chains, 1 is FedSeq.
        grouping: As in FedSeq.
        approximator: As in FedSeq.
        metric: As in FedSeq.
        normalise: As in FedSeq.
        group_mean: As in FedSeq.
        pretrain_epochs: As in FedSeq.
        min_samples: As in FedSeq.
        max_clients: As in FedSeq.
        chains: As in FedSeq.
        passes: As in FedSeq.
        dropout: As in FedSeq.
        reshuffle: As in FedSeq.
        inner: As in FedSeq.
        encrypt: As in FedSeq.
    """

    period: WholeNumber = 0

    @property
    def breaks(self) -> Facts:  # type: ignore[override]  # with period 1 it is FedSeq
        return {} if self.period == 1 else {Fact.MEAN_EVERY_ROUND: "averages its models every few rounds only"}

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        if (context.round - 1) % (self.period or len(server[f"{OWN}sizes"])) == 0:
            server = self._reset(server, len(ids))
        running, seen, steps = (server[f"{OWN}{name}"] for name in ("running", "seen", "steps"))
        if len(running) != len(ids):
            raise FedloomError(
                f"fedseqinter has {len(running)} running models and round {context.round} selected {len(ids)} chains: "
                "use a selection that always takes the same number, such as random."
            )
        order = torch.randperm(len(ids), generator=context.generator("running models"))
        ends = yield from self.walk(running, [ids[place] for place in order.tolist()], server, context)
        seen, steps = seen + ends.samples * (ends.steps > 0), steps + ends.steps  # a chain may have no answers
        ends = replace(ends, samples=seen, steps=steps, weights=context.weigh(seen, steps))
        base = select_prefix(server, f"{OWN}base/")
        progress = {f"{OWN}running": ends["row"], f"{OWN}seen": seen, f"{OWN}steps": steps}
        return {**server, **self.method.aggregate(base, ends), **progress}

    def _reset(self, server: State, models: int) -> State:
        """All running models become the aggregate, and the inner method's present state their base."""
        nothing = torch.zeros(models, dtype=torch.int64)
        base = {f"{OWN}base/{name}": tensor for name, tensor in inner_state(server).items()}
        running = server["row"].expand(models, -1)
        return {**server, **base, f"{OWN}running": running, f"{OWN}seen": nothing, f"{OWN}steps": nothing}
