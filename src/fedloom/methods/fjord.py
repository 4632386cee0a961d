"""FjORD: clients train all widths up to their own in turn, another one in every step (ordered dropout).

A client has the corner ``c_k`` of the wide model that its device can train, and the widths of the run that fit it. In
every step it draws one of these, p, each with the same chance, and descends the loss of the network f_p with the first
units of each layer: the corner's weights, times 1 where p has them and 0 elsewhere. So nothing outside p gets a
gradient, and the narrow networks inside a wide one become good models by themselves. The server averages each weight
over the clients that have it, as in HeteroFL. With one width it is FedAvg, to the byte.

``alpha`` distils the client's widest network f into the one it drew: a step descends
``(1 - alpha) * l(f_p) + alpha * (l(f) + T^2 * CE(softmax(f / T), softmax(f_p / T)))`` with the temperature T, and the
teacher in the last term is constant. Its gradient is that of the divergence KL.

Horváth, Laskaridis, Almeida, Leontiadis, Venieris and Lane, FjORD: Fair and Accurate Federated Learning under
heterogeneous targets with Ordered Dropout, NeurIPS 2021, https://arxiv.org/abs/2102.13451. ``alpha = T = 1`` is the
distillation of the authors' code (Flower's baseline ``fjord``), and ``alpha = 0`` is the method without it; that the
teacher learns from labels as much as it teaches, and T^2 (Hinton et al., 2015), are our choice in between. The authors'
networks have batch statistics for every width. Ours are networks whose masked form is the narrow network, which is
tried before a run: linear and convolutional layers, but not GroupNorm over the maps of a width. A step here costs as
much as one of the client's widest network. Weight decay and momentum also move the weights outside p, as in the
authors' code, and so does Adam.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs, map_inputs
from fedloom.core.layout import Layout
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.model.corners import corner_columns, corner_masks, is_corner
from fedloom.core.model.model_output import chosen_output
from fedloom.core.network import Loss, Network
from fedloom.core.seeds import generator
from fedloom.core.settings import Positive, Share
from fedloom.core.task import Task
from fedloom.methods.corner_averaging import CornerAveraging
from fedloom.methods.distillation.soft_targets import soft_cross_entropy

SAMPLES = 4
"""How many samples the masked and the narrow networks are compared on."""
TOLERANCE = 1e-4
"""By which share of the largest output they may differ: rounding."""


@dataclass(frozen=True)
class FjORD(CornerAveraging):
    """In every step a client trains a random one of the widths that its device can train.

    Args:
        alpha: The share of the loss that is distillation: the client's widest network learns from labels, and the
            drawn one from it. 0 distils nothing, 1 is what the authors do.
        temperature: The temperature of the outputs that are distilled.
    """

    alpha: Share = 0.0
    temperature: Positive = 1.0

    def check(self, task: Task, work: LocalWork) -> None:
        if self.alpha and not task.classifies:
            raise FedloomError(
                f"fjord: alpha={self.alpha:g} distils probabilities of classes, but this task has none: set alpha = 0."
            )
        super().check(task, work)
        check_widths(task)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows, widths = cohort.spread(message["row"]), widths_within(cohort.task)
        if len(widths) == 1:
            return Reply({"row": cohort.train(rows)})
        drawn = draw_widths(cohort, len(widths))
        return Reply({"row": cohort.train(rows, loss=self.loss(cohort.task, widths), given={"drawn": drawn})})

    def loss(self, task: Task, widths: tuple[Layout, ...]) -> Loss:
        """The loss of a step: of the network of the width that the client drew for it.

        Args:
            task: The task of clients of one width.
            widths: The widths that they draw from.
        """
        masks, objective = corner_masks(task.layout, widths), task.objective
        alpha, temperature, seen = self.alpha, self.temperature, task.federation.seen

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
            drawn = given["drawn"].index_select(0, net.step.view(1)).view(1)
            corner = {name: net.tensors[name] * each.index_select(0, drawn)[0] for name, each in masks.items()}
            outputs = net.at(corner)(x)
            values, counts = objective.losses(outputs, y)
            if not alpha:
                return values, counts
            teacher = net.at({})(x)
            goal = torch.softmax(teacher.detach() / temperature, dim=1)
            distance = temperature**2 * soft_cross_entropy(outputs / temperature, goal, seen)
            taught = objective.losses(teacher, y)[0] + counts * distance
            return (1 - alpha) * values + alpha * taught, counts

        return loss


def widths_within(task: Task) -> tuple[Layout, ...]:
    """The widths of a run that fit into the model of some clients, their own among them.

    Args:
        task: The task of these clients.
    """
    layouts = dict.fromkeys(own.layout for own in task.by_architecture)
    return tuple(layout for layout in layouts if is_corner(task.layout, layout))


def draw_widths(cohort: Cohort, count: int) -> Tensor:
    """Which of some widths each client trains in each of its steps: clients × steps × 1.

    Args:
        cohort: The clients.
        count: How many widths there are.
    """
    steps = [cohort.setting.work.steps_for(samples) for samples in cohort.samples.tolist()]
    drawn = torch.zeros(len(cohort), max(steps), 1, dtype=torch.int64)
    for place, number in enumerate(steps):
        drawn[place, :number, 0] = torch.randint(count, (number,), generator=cohort.generator("fjord widths", place))
    return drawn


def check_widths(task: Task) -> None:
    """Refuse a model that is not a narrower one of the run when the weights beyond it are 0.

    Args:
        task: The task of clients of one width.
    """
    if task.architectures is None:
        return
    name = task.architectures.names[task.architecture]
    for narrow, other in zip(task.by_architecture, task.architectures.names, strict=True):
        if narrow.layout == task.layout or not is_corner(task.layout, narrow.layout):
            continue
        kept = [slot.name for slot in task.layout.slots if not slot.trains]
        if kept:
            raise FedloomError(
                f"fjord: {name} keeps statistics ({kept[0]}), but those of one width are not those of another: use a "
                "model without BatchNorm, or heterofl."
            )
        if masked_difference(task, narrow) > TOLERANCE:
            raise FedloomError(
                f"fjord: {name} with zeros beyond {other} is not {other}, as happens with normalisation over the units "
                "of all widths and with recurrent layers: use models of linear and convolutional layers, such as mlp "
                "or lenet, or heterofl."
            )


@torch.no_grad()
def masked_difference(wide: Task, narrow: Task) -> float:
    """How far the outputs of a masked network are from those of the narrow one, over the largest of them.

    Args:
        wide: The task with the wide model.
        narrow: The same task with a narrow model.
    """
    row = wide.initial_row()
    row = row + 0.1 * torch.randn(row.shape, generator=generator(0, "masked network"))
    masks = corner_masks(wide.layout, (narrow.layout,))
    masked = {name: tensor * masks[name][0] for name, tensor in wide.layout.views(row).items()}
    own = narrow.layout.views(row[corner_columns(wide.layout, narrow.layout)])
    noise = generator(0, "masked network's inputs")  # a server's stand-in for sites' samples is 0

    def disturb(x: Tensor) -> Tensor:
        return x + torch.randn(x.shape, generator=noise) if x.is_floating_point() else x

    x = map_inputs(disturb, wide.inputs(wide.federation.train.order[:SAMPLES]))
    found, expected = (
        chosen_output(task.model, torch.func.functional_call(copy.deepcopy(task.model).eval(), tensors, (x,)))
        for task, tensors in ((wide, masked), (narrow, own))
    )
    if found.shape != expected.shape:
        return math.inf
    difference = float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
    return math.inf if math.isnan(difference) else difference
