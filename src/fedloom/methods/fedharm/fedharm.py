"""FedHARM: clients with different networks agree on descriptors of shared, labelled samples.

A round: clients train on their own data; for each communal sample j they send a descriptor ``F_j``, entries of the maps
of aligned blocks that influence the true class the most (``descriptor.py``); the server takes the mean over clients;
clients then minimise, on the communal set,

``a * CE(z_j, y_j) + (1 - a) * (1 - cos(F_j, mean F_j))``.

Models never travel, and clients predict with their own. With a = 1 nothing travels: local training and cross-entropy on
the communal set, the control without alignment. Which blocks of different networks correspond is ``align``.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (thesis, 2024; no public link known), chapter 9 and
appendix F. Our choices where it is silent: descriptors are in descending order of influence (else their mean over
networks would mean nothing); a = 0.5; blocks are aligned on the communal set, and not on test images as there. Entries
are picked again in every epoch on the communal set (section 9.2.2): those of the first by the network that its client
has after local training, those of a later one by the network that the epoch before has left. The optimiser starts anew
with them. The thesis weights clients alike (``weight_by = "uniform"``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, MinLen
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply, Shapes
from fedloom.core.model.stages import stage_maps, stage_names
from fedloom.core.network import Network
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, Share
from fedloom.core.task import Task
from fedloom.methods.distillation.communal_distillation import CommunalDistillation
from fedloom.methods.fedharm.block_alignment import align_histograms, angle_histogram, check_map
from fedloom.methods.fedharm.descriptor import (
    cosine_distance,
    entries_at,
    influences,
    most_influential,
    pool_and_crop,
    pooled_width,
)
from fedloom.methods.requirements import (
    require_classes,
    require_communal,
    require_labels_of_communal,
    require_stages,
)


@dataclass(frozen=True)
class FedHARM(CommunalDistillation):
    """Clients with different networks agree on descriptors of shared samples, and on their classes.

    Args:
        a: The weight of the cross-entropy on the communal set; the rest is that of the descriptors' cosine.
        k: How many entries of the first aligned block's map are in a descriptor, twice as many of each next one (128 is
            the thesis's 128, 256, 512 and 1,024), or a number for each block.
        align: Which blocks of the clients' networks correspond: ``identity``, the first with the first; ``kl``, by
            their histograms of angles; ``last``, only the last ones; or a network's blocks by its name in
            ``task.models``, counted from 1 (others have all of theirs).
        descriptor: ``gradient``, the most influential entries; ``pool``, a random crop of the last block's max-pooled
            map; ``maps``, the maps themselves.
        epochs: Passes over the communal set after local training.
        bins: How many bins the histograms of angles have (``align=kl``).
        align_epochs: Passes over the communal set that each network trains before its blocks are aligned.
    """

    receives: ClassVar[Declared] = {
        "descriptors": Statistic("mean descriptors of the communal samples, all sites"),
        "blocks": Statistic("which blocks of each architecture are compared"),
    }
    sends: ClassVar[Declared] = {
        "descriptors": Statistic("its model's descriptors of the communal samples", coded=True),
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)

    a: Share = 0.5
    k: Count | Annotated[tuple[Count, ...], MinLen(1)] = 128
    align: Literal["identity", "kl", "last"] | dict[str, tuple[int, ...]] = "identity"
    descriptor: Literal["gradient", "pool", "maps"] = "gradient"
    epochs: Count = 1
    bins: Annotated[int, Ge(2)] = 100
    align_epochs: Count = 5

    @property
    def _numbers(self) -> tuple[int, ...]:
        return (self.k,) if isinstance(self.k, int) else tuple(self.k)

    @property
    def compares(self) -> bool:
        """Whether descriptors are compared at all."""
        return self.a < 1

    def counts(self, blocks: int) -> list[int]:
        """How many entries of each aligned block's map a descriptor has.

        Args:
            blocks: How many blocks are aligned.
        """
        return [self.k * 2**block for block in range(blocks)] if isinstance(self.k, int) else list(self.k)

    # -- which blocks correspond

    def own_blocks(self, task: Task, message: Message | None = None) -> list[int]:
        """The stages of a task's model that are compared, counted from 0.

        Args:
            task: The task of clients of one architecture.
            message: What they got from the server, with ``align=kl``.
        """
        stages = len(stage_names(task.model))
        if self.align == "last":
            return [stages - 1]
        if self.align == "kl" and message is not None and "blocks" in message:
            return [int(block) - 1 for block in message["blocks"][task.architecture].tolist()]
        if isinstance(self.align, dict):
            return [block - 1 for block in self.align.get(_name(task), range(1, stages + 1))]
        return list(range(stages))

    def prelude(self, server: State, context: ServerContext) -> Round | None:
        """Align the blocks of the clients' networks, which the server trains on the communal set for that."""
        return self._align(server, context) if self.compares and self.align == "kl" else None

    def _align(self, server: State, context: ServerContext) -> Round:
        yield from ()  # no client is asked
        communal = context.task.federation.communal
        work = context.work.for_epochs(self.align_epochs)
        histograms = []
        for task in context.task.by_architecture:
            own = context.of_architecture(task.architecture)
            row = own.train(task.initial_row(), communal, work=work, purpose="alignment")
            maps = own.collect(row, communal, _maps_by_stage)
            histograms.append(torch.stack([angle_histogram(one, self.bins) for one in maps.values()]))
        fewest = min(histograms, key=len)
        return {**server, "blocks": torch.tensor([align_histograms(fewest, one) for one in histograms]).int()}

    # -- what is refused

    def check(self, task: Task, work: LocalWork) -> None:
        require_communal("fedharm", task)
        require_labels_of_communal("fedharm", task)
        require_classes("fedharm", task)
        if not self.compares:
            return
        if isinstance(self.align, dict):
            networks = [_name(own) for own in task.by_architecture]
            for name in self.align:
                if name not in networks:
                    raise FedloomError(f"align names {name}, but the networks are {', '.join(networks)}.")
        shapes = {_name(own): self._shapes(own) for own in task.by_architecture}
        if len({len(one) for one in shapes.values()}) > 1 and self.align != "kl":
            shown = ", ".join(f"{name} {len(one)}" for name, one in shapes.items())
            raise FedloomError(
                f"fedharm compares block by block, but the networks have different numbers of them ({shown}): use "
                "align = kl, or name the blocks of each, for instance align.mini-mobilenet = [1, 2, 6, 7]."
            )
        for name, own in shapes.items():
            self._check_widths(name, own, min(map(len, shapes.values())))
        if self.descriptor == "maps" and len({tuple(one) for one in shapes.values()}) > 1:
            raise FedloomError(
                "descriptor=maps compares maps entry by entry, but those of the clients' networks have different "
                "shapes: use descriptor = gradient."
            )

    def _shapes(self, task: Task, message: Message | None = None) -> list[tuple[int, ...]]:
        """The shapes of the maps of a network's aligned blocks; of all of its blocks where these are not known yet."""
        require_stages("fedharm", task)
        if isinstance(self.align, dict) and _name(task) in self.align:
            check_map(_name(task), self.align[_name(task)], len(stage_names(task.model)))
        with torch.no_grad():
            maps = stage_maps(task.model, task.inputs(task.federation.communal[:1]))
        return [tuple(maps[block].shape[1:]) for block in self.own_blocks(task, message)]

    def _check_widths(self, name: str, shapes: Sequence[tuple[int, ...]], blocks: int) -> None:
        """Refuse descriptors that are wider than a network's maps."""
        counts = self.counts(blocks)
        if self.descriptor == "pool":
            last = shapes[blocks - 1 :] if self.align == "kl" else shapes[-1:]  # any of these may become the last
            width = min(map(pooled_width, last))
            if sum(counts) > width:
                raise FedloomError(
                    f"descriptor=pool crops {sum(counts)} numbers (the sum of k), but the last map of {name} has "
                    f"{width} after max-pooling: give a smaller k."
                )
        if self.descriptor != "gradient":
            return
        if len(counts) != blocks:
            raise FedloomError(f"k={list(counts)} is for {len(counts)} blocks, but {blocks} are aligned.")
        sizes = [torch.Size(shape).numel() for shape in shapes]
        for count, size in zip(counts, sizes if self.align != "kl" else [min(sizes)] * blocks, strict=True):
            if count > size:
                raise FedloomError(
                    f"k takes {count} entries of a block's map, but a map of {name} has {size}: give a smaller k"
                    f"{self._largest(sizes, blocks)}."
                )

    def _largest(self, sizes: Sequence[int], blocks: int) -> str:
        """The largest k that fits maps of these sizes, for an error; nothing where k is a number for each block."""
        if not isinstance(self.k, int):
            return ""
        limits = [min(sizes)] * blocks if self.align == "kl" else sizes
        most = min(size // 2**block for block, size in enumerate(limits))
        return f", at most {most} (fedharm:k={most})" if most else ", or another model"

    def shapes(self, server: State, context: ServerContext) -> Shapes:
        if not self.compares:
            return {}
        task = context.of_architecture(0).task
        maps = self._shapes(task, self.broadcast(server, []))
        whole = sum(torch.Size(shape).numel() for shape in maps)
        width = whole if self.descriptor == "maps" else sum(self.counts(len(maps)))
        return {"descriptors": (len(task.federation.communal), width)}

    # -- the clients' half

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"blocks": server["blocks"]} if "blocks" in server else {})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        if cohort.turn:
            return super().client_update(cohort, message)
        rows = self.learn(cohort, self.weights_for(message, cohort))
        cohort.keep("row", rows)
        return Reply({"descriptors": self._collect(cohort, rows, message)["descriptors"]} if self.compares else {})

    def _collect(self, cohort: Cohort, rows: Tensor, message: Message) -> dict[str, Tensor]:
        """The clients' descriptors of the communal samples, and the places of their entries: B×n×width."""
        communal, blocks = self.common_set(cohort), self.own_blocks(cohort.task, message)
        labels, counts, crop = cohort.task.targets(communal), self.counts(len(blocks)), _place_of_crop(cohort)

        def look(net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:
            if self.descriptor != "gradient":
                maps = net.stages(x)[1]
                return {"descriptors": self._whole([maps[block] for block in blocks], crop)}
            maps, influence = influences(net, x, labels[places])
            chosen = [most_influential(influence[block], k) for block, k in zip(blocks, counts, strict=True)]
            found = torch.cat(chosen, dim=1)
            return {
                "descriptors": entries_at([maps[block] for block in blocks], found, counts),
                "places": found.int(),
            }

        return cohort.collect(rows, communal, look)

    def _whole(self, maps: list[Tensor], crop: float) -> Tensor:
        """Descriptors that no gradient chooses: a crop of the last map, or all maps."""
        if self.descriptor == "maps":
            return torch.cat([one.flatten(1) for one in maps], dim=1)
        return pool_and_crop(maps[-1], sum(self.counts(len(maps))), crop)

    def distil(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        work, communal = cohort.setting.work.for_epochs(self.epochs), self.common_set(cohort)
        if not self.compares:
            return cohort.train(rows, work=work, on=communal)
        blocks, objective = self.own_blocks(cohort.task, message), cohort.task.objective
        labels, goal, counts = cohort.task.targets(communal), message["descriptors"], self.counts(len(blocks))
        crop = _place_of_crop(cohort)

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            outputs, maps = net.stages(x)
            own = [maps[block] for block in blocks]
            found = entries_at(own, given["places"][y], counts) if given else self._whole(own, crop)
            values, samples = objective.losses(outputs, labels[y])
            return self.a * values + (1 - self.a) * cosine_distance(found, goal[y]), samples

        if self.descriptor != "gradient":
            return cohort.train(rows, work=work, on=communal, loss=loss)
        for _ in range(self.epochs):
            places = self._collect(cohort, rows, message)["places"]
            rows = cohort.train(rows, work=work.for_epochs(1), on=communal, given={"places": places}, loss=loss)
        return rows


def _name(task: Task) -> str:
    """The name of a task's architecture."""
    return type(task.model).__name__ if task.architectures is None else task.architectures.names[task.architecture]


def _place_of_crop(cohort: Cohort) -> float:
    """Where the crop of this round starts, the same for all clients; see ``pool_and_crop``."""
    return float(torch.rand((), generator=cohort.shared_generator("crop")))


def _maps_by_stage(net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:  # noqa: ARG001
    return {f"{number:04d}": one for number, one in enumerate(net.stages(x)[1])}
