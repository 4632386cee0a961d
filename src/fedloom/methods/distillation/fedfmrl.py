"""FedFMRL: federated distillation whose server mixes clients' outputs, with a model of its own that judges the mixing.

A round is one of FLD: clients train on their own data, send their outputs and strips for the communal set, and distil
what comes back. Strips are averaged. Outputs are mixed (``anchor_aggregation``: scheme A, B or C) with ratios alpha
(``alpha_mixing``: drawn, learned or in closed form). In each mixing step (N-1 in scheme C, one in the others) the
server trains its own model for ``server_epochs`` epochs of cross-entropy on the communal labels (equation 6.5), with
gradients divided by ``o_diff`` (6.7), and alpha makes a step down L(alpha) (6.6) after each of them.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024; no public link known), chapter 6.

- **The server's model learns nothing from clients**: by equation 6.5 it sees communal labels only, and clients' outputs
  touch only alpha. It is scored as the global model because the thesis does so. Where there is nothing to mix (the
  plain mean, one client) it trains as in one mixing step: a server without clients is the same model if it trains as
  many epochs, ``server_epochs`` times N-1 in scheme C.
- After two thirds of its epochs the rate of alpha is "increased to 10" in the thesis, which would end at 0 or 1 in one
  step; ALFA-Mix divides it by 10 instead, and so does ``alpha_lr_late``. The thesis' word is ``alpha_lr_late=10``.
- The first term of L(alpha) has three readings (``alpha_loss``, explained in ``alpha_mixing``): outputs as a
  distribution, the server's label as in the authors' code, and raw outputs, which is what the letters say and what
  makes learning useless.
- Alpha is drawn once (algorithm 9), not in every mixing step: what one step has learned is where the next one starts,
  also in the next round. Schemes A and B have one alpha for each place in a round's order of clients. Only where its
  shape does not fit any more (other communal samples, another number of clients) is it drawn again.
  ``alpha_drawn=every-step`` is the other reading, with new ratios for every partner.
- Weights are the run's (``weight_by``) for strips and the plain mean; mixing has no weights. The thesis' are uniform.

The thesis' whole method has strips, too (``multi_loss``; the default is ``none``): chapter 6 prints one loss, which is
``A``, and chapter 7 chooses ``B``, which we take for it. With ``scheme=mean`` clients get what FLD's get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.declarations import Declared, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Replies
from fedloom.core.network import Network, collect_outputs
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, NonNegative, Positive, PositiveShare
from fedloom.core.task import Task
from fedloom.methods.distillation.alpha_mixing import (
    AlphaLoss,
    AlphaOptimizer,
    alpha_rates,
    closed_form_alpha,
    downhill,
    draw_alpha,
    learn_alpha,
    mix,
)
from fedloom.methods.distillation.anchor_aggregation import (
    means_of_others,
    mix_with_others,
    normalised_average,
    weighted_average,
)
from fedloom.methods.distillation.fld import FLD
from fedloom.methods.requirements import require_classes, require_labels_of_communal


@dataclass
class CommunalTeacher:
    """The server's model while it trains on the communal labels: equations 6.5 and 6.7.

    Args:
        row: Its weights; they change with every epoch.
        context: What the server may use in this round.
        work: An epoch of its training.
        o_diff: What gradients are divided by.
    """

    row: Tensor
    context: ServerContext
    work: LocalWork
    o_diff: float

    def train(self, epochs: int) -> None:
        """Train for some epochs.

        Args:
            epochs: How many.
        """
        task = self.context.task
        communal, objective = task.federation.communal, task.objective
        labels = task.targets(communal)

        def loss(net: Network, x: Inputs, y: Tensor, _: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            values, counts = objective.losses(net(x), labels[y])
            return values / self.o_diff, counts

        for _ in range(epochs):
            self.row = self.context.train(self.row, communal, work=self.work, loss=loss)

    def log_probabilities(self) -> Tensor:
        """The log of its probabilities for the communal samples, samples×classes."""
        communal = self.context.task.federation.communal
        return self.context.collect(self.row, communal, collect_outputs)["outputs"].log_softmax(1)

    def lectures(self, epochs: int) -> Iterator[Tensor]:
        """The log of its probabilities after each of some epochs.

        Args:
            epochs: How many.
        """
        for _ in range(epochs):
            self.train(1)
            yield self.log_probabilities()


@dataclass(frozen=True)
class FedFMRL(FLD):
    """Clients distil a mixture of all models' outputs; the server has its own model; multi_loss=B is the thesis'.

    Args:
        common: There is always a communal set.
        layer: What is distilled is always the outputs.
        multi_loss: How strips of the model's stages are distilled too, as in FLD; the thesis' method has ``B``.
        m_c: The weight of the strips' distance.
        epochs: Passes over the communal set when clients distil.
        distance: What is distilled of each sample, as in FLD.
        scheme: How outputs become one anchor: ``A`` (as printed: its weights do not sum to one), ``A-normalised``,
            ``B``, ``C``, or the plain ``mean``.
        alpha: Where the ratios come from: ``learned`` (drawn, then learned), ``gaussian`` (drawn) or ``closed-form``.
        alpha_loss: What mixed outputs stand for in equation 6.6: ``softmax`` of them, a distribution;
            ``server-label``, a prediction of the server's label; or ``raw``.
        alpha_drawn: When ratios are drawn: ``once``, or for ``every-step``.
        a_cap: The largest ratio that is drawn, and the length of the move in closed form.
        c_n: The weight of the norm of alpha while it is learned.
        alpha_lr: The learning rate of alpha.
        alpha_lr_late: The same in the last third of a mixing step's epochs.
        alpha_optimizer: What makes a step of alpha's gradient: ``adam`` or ``sgd``, which hardly moves it.
        o_diff: What the gradients of the server's model are divided by.
        server_epochs: Epochs of the server's model in each mixing step.
        server_lr: Its learning rate; batch size, optimiser and momentum are those of the local work.
        server_weight_decay: The L2 penalty on its weights.
    """

    breaks: ClassVar[Facts] = {
        Fact.ONE_MEAN: "mixes what clients send one after another, and takes no mean",
        Fact.FEDERATED_MODEL: "has a server model of its own",
    }
    sends: ClassVar[Declared] = {
        "outputs": Statistic("its model's outputs for the communal samples", single=True, coded=True),
        "strips": Statistic("the strips of its model's stages for the communal samples", coded=True),
    }

    scheme: Literal["A", "A-normalised", "B", "C", "mean"] = "C"
    alpha: Literal["learned", "gaussian", "closed-form"] = "learned"
    alpha_loss: AlphaLoss = "softmax"
    alpha_drawn: Literal["once", "every-step"] = "once"
    a_cap: PositiveShare = 0.8
    c_n: NonNegative = 0.01
    alpha_lr: Positive = 0.1
    alpha_lr_late: Positive = 0.01
    alpha_optimizer: AlphaOptimizer = "adam"
    o_diff: Positive = 20.0
    server_epochs: Count = 5
    server_lr: Positive = 0.1
    server_weight_decay: NonNegative = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.common or self.layer != "output":
            raise FedloomError("fedfmrl mixes outputs for the communal set: leave out common and layer, or use fld.")

    @property
    def receives(self) -> Declared:  # type: ignore[override]  # the plain mean is not a mixture
        mixture = Statistic("a mixture of the outputs of all sites' models for the communal samples")
        strips, outputs = FLD.receives["strips"], FLD.receives["outputs"]
        return {"outputs": outputs if self.scheme == "mean" else mixture, "strips": strips}

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        require_classes("fedfmrl", task)
        require_labels_of_communal("fedfmrl", task)
        if work.optimizer != "sgd" and self.o_diff != 1:
            raise FedloomError(
                f"o_diff={self.o_diff:g} divides gradients, and the steps of {work.optimizer} do not depend on their "
                "size: use local.optimizer=sgd, or o_diff=1."
            )
        if work.has_own_optimizer:
            raise FedloomError(
                f"fedfmrl has a weight decay for the server's model, which {work.optimizer} may not know: use sgd, "
                "adam, adamw, rmsprop or adagrad as local.optimizer."
            )

    def start(self, task: Task) -> State:
        return {"row": task.initial_row()}

    def aggregate(self, server: State, replies: Replies) -> State:
        work = replace(
            replies.context.work,
            epochs=1,
            steps=None,
            lr=self.server_lr,
            weight_decay=self.server_weight_decay,
        )
        teacher = CommunalTeacher(server["row"], replies.context, work, self.o_diff)
        anchor, alpha = self.anchor(replies, teacher, server.get("alpha"))
        state = {"outputs": anchor, "row": teacher.row} | ({} if alpha is None else {"alpha": alpha})
        return state | {name: replies.mean(name) for name in replies.tensors if name != "outputs"}

    def anchor(
        self, replies: Replies, teacher: CommunalTeacher, alpha: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """What clients should say of the communal samples, samples×classes, and alpha. The teacher trains meanwhile.

        Args:
            replies: What the clients sent.
            teacher: The server's model.
            alpha: The ratios so far; without any of the right shape they are drawn.
        """
        outputs = replies["outputs"]
        if self.scheme == "mean" or len(outputs) == 1:
            teacher.train(self.server_epochs)
            return replies.mean("outputs"), alpha
        shape, generator = (
            outputs.shape[1:] if self.scheme == "C" else outputs.shape,
            replies.context.generator("alpha"),
        )
        again = self.alpha_drawn == "every-step"
        if again or alpha is None or alpha.shape != shape:
            alpha = draw_alpha(shape, self.a_cap, generator)
        if self.scheme == "C":
            anchor = outputs[0]
            for place, partner in enumerate(outputs[1:]):
                if again and place:
                    alpha = draw_alpha(shape, self.a_cap, generator)
                mixture = partial(mix, anchor, partner)
                alpha = self._ratios(alpha, anchor, partner, mixture, teacher)
                anchor = mixture(alpha)
            return anchor, alpha
        starts, partners, blend = self._all_at_once(outputs)
        alpha = self._ratios(alpha, starts, partners, blend, teacher)
        return blend(alpha), alpha

    def _all_at_once(self, outputs: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        """What schemes A and B mix with what, and how: each client's anchor and partner, and the mixture."""
        if self.scheme == "B":
            return means_of_others(outputs), outputs, partial(mix_with_others, outputs)
        mixture = partial(normalised_average, outputs)
        if self.scheme == "A":
            mixture = partial(weighted_average, outputs, a_cap=self.a_cap)
        return outputs, torch.zeros_like(outputs), mixture

    def _ratios(
        self,
        alpha: Tensor,
        anchor: Tensor,
        partner: Tensor,
        mixture: Callable[[Tensor], Tensor],
        teacher: CommunalTeacher,
    ) -> Tensor:
        """The ratios of one mixing step, which starts with those of the step before."""
        if self.alpha == "closed-form":
            teacher.train(self.server_epochs)
            aim = downhill(anchor, teacher.log_probabilities(), self.alpha_loss)
            return closed_form_alpha(anchor, partner, aim, self.a_cap)
        if self.alpha == "gaussian":
            teacher.train(self.server_epochs)
            return alpha
        lectures = teacher.lectures(self.server_epochs)
        rates = alpha_rates(self.server_epochs, self.alpha_lr, self.alpha_lr_late)
        settings: dict[str, Any] = {"c_n": self.c_n, "optimizer": self.alpha_optimizer, "reading": self.alpha_loss}
        return learn_alpha(alpha, mixture, lectures, rates, **settings)
