"""What the signed plan of a run needs of a site, so that a server cannot have more measured there than that.

A score says something about the samples that it was measured on, and a server that may have any number of models scored
can learn much. The plan says when a run is scored and whether its selector asks for losses: a request beyond that is
refused before anything is computed. ``RequestCount`` counts what is within it, and how often clients train in a round.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.algorithm import Algorithm
from fedloom.core.facts import SELECTOR_PROMISES, Fact, broken_facts
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.wire import RequestKind, SiteRequest
from fedloom.deploy.site.request_count import SCORES


@dataclass(frozen=True)
class PlanNeeds:
    """What a run needs of a site.

    Args:
        rounds: How many rounds the run has.
        eval_every: In which rounds models are scored; 0 for never.
        ends_early: Whether the method may end the run before its last round, which is scored then.
        asks: Whether the selector may look at what clients have.
        evaluates: Whether this may be the site that scores the shared model on its own data.
    """

    rounds: int
    eval_every: int
    ends_early: bool
    asks: bool
    asks_on_training: bool
    evaluates: bool

    @staticmethod
    def of(blueprint: Blueprint, algorithm: Algorithm, client: int) -> PlanNeeds:
        """What the run in a site's folder needs of it.

        Args:
            algorithm: Its method, as the site runs it.
            client: The site's number; the evaluator's comes after those of the training sites.
        """
        kind, config = type(algorithm), blueprint.config
        return PlanNeeds(
            rounds=config.rounds,
            eval_every=config.eval_every,
            ends_early=kind.is_finished is not Algorithm.is_finished,
            asks=Fact.BLIND_DRAW in broken_facts(config.selection, SELECTOR_PROMISES),
            asks_on_training=getattr(config.selection, "loss_on", "") == "training",
            evaluates=client >= len(blueprint.sites),
        )

    def forbids(self, request: SiteRequest) -> str:
        """Why the run does not need a request; empty if it does."""
        if reason := self.forbids_kind(request.kind):
            return reason
        kind, number = request.kind, request.round
        if kind in SCORES and not self.is_scored(number):
            return f"round {number} is not scored in this run, which is scored every {self.eval_every} rounds"
        if request.measure and kind == "update" and not (self.eval_every and self.is_scored(number)):
            return f"round {number} is not scored in this run, and neither are the models of its training"
        if request.measure and kind == "ask" and not self.asks_on_training:
            return "the selector of this run asks for no loss on training data"
        if request.turn and kind not in ("update", "sum"):  # how often it trains, the method's turns say
            return f"it is asked {request.turn + 1} times in one round, and this run needs one"
        return ""

    def forbids_kind(self, kind: RequestKind) -> str:
        """Why the run never needs a kind of request; empty if it does."""
        if kind in SCORES and not self.eval_every:
            return "this run is not scored (eval_every = 0)"
        if kind == "global" and not self.evaluates:
            return "it is not the evaluator of this deployment"
        if kind == "ask" and not self.asks:
            return "the selector of this run asks for no loss"
        return ""

    def is_scored(self, number: int) -> bool:
        """Whether models may be scored after a round."""
        return number % self.eval_every == 0 or number == self.rounds or self.ends_early
