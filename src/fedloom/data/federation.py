"""A federation: who holds what.

Samples live once, in shared columns (tensors whose first axis is the sample). A client is a list of positions in
those columns, so ten thousand clients cost no more memory than their data. Each client has a train, a validation
and a test part; the global test set belongs to an evaluation-only node that never trains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.targets import IGNORED, target_kind
from fedloom.data.federation_html import federation_html
from fedloom.data.input_plan import InputPlan
from fedloom.data.leak_groups import Units


def _nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True, repr=False)
class Ragged:
    """Lists of positions, one per client, stored as one vector: client k has ``order[starts[k]:starts[k + 1]]``.

    Args:
        order: The positions of all clients, one client after the other.
        starts: Where each client's positions start, and at last the number of all positions.
    """

    order: Tensor
    starts: Tensor

    @staticmethod
    def of(lists: Sequence[np.ndarray | Tensor | Sequence[int]]) -> Ragged:
        """Pack one list of positions per client.

        Args:
            lists: The positions of each client.
        """
        parts = [np.asarray(part, dtype=np.int64) for part in lists]
        starts = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=starts[1:])
        order = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        return Ragged(torch.from_numpy(order), torch.from_numpy(starts))

    @staticmethod
    def by_owner(positions: np.ndarray, owners: np.ndarray, clients: int) -> Ragged:
        """Pack positions that name their owner: ``positions[i]`` goes to client ``owners[i]``, in the given order.

        Args:
            owners: The client of each position.
        """
        starts = np.zeros(clients + 1, dtype=np.int64)
        np.cumsum(np.bincount(owners, minlength=clients), out=starts[1:])
        order = positions[np.argsort(owners, kind="stable")].astype(np.int64, copy=False)
        return Ragged(torch.from_numpy(order), torch.from_numpy(starts))

    @staticmethod
    def empty(clients: int) -> Ragged:
        """Empty lists for all clients."""
        return Ragged(_nothing(), torch.zeros(clients + 1, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return f"<Ragged: {len(self):,} lists, {len(self.order):,} positions>"

    def __getitem__(self, client: int) -> Tensor:
        return self.order[int(self.starts[client]) : int(self.starts[client + 1])]

    @cached_property
    def sizes(self) -> Tensor:
        """How many positions each client has."""
        return self.starts[1:] - self.starts[:-1]

    @property
    def owners(self) -> Tensor:
        """The client of each entry of ``order``."""
        return torch.repeat_interleave(torch.arange(len(self)), self.sizes)


@dataclass(frozen=True, repr=False)
class Federation:
    """Columns of samples, and the positions of each client's samples in them.

    Args:
        columns: Tensors whose first axis is the sample: at least ``x`` (inputs) and ``y`` (targets). Several input
            columns are called ``x/NAME`` each.
        train: The positions of each client's training samples.
        test: The positions of each client's test samples.
        valid: The positions of each client's validation samples.
        classes: The number of classes or labels that the targets name; where targets are numbers, how many a sample
            has.
        global_test: The positions of the global test set, which an evaluation-only node holds.
        communal: The positions of samples that the server and all clients may see.
        names: The clients' names; without them clients are numbered.
        class_names: The names of the classes, of the labels, or of the numbers of a sample, where it has several.
        title: What the federation is called in figures.
        withheld: A class, and the clients from whose train and validation parts it was removed.
        later: Concept drift: pairs of a round and the federation from that round on.
        counted: How many samples each client counts as having, if not those held here (a subsample for choosing
            methods).
        group: Numbers of samples that share raw material. The communal set shares no group with the test sets.
        plan: What is done to the inputs of a user's data: the columns of a table, images, sounds.
        notes: What was made of a user's own data, in sentences: the kind of target, what is done to each column.
        communal_labelled: Whether the communal samples have targets; otherwise these are ``IGNORED``.
        server: The positions of the server's own samples, which no client holds.
        server_labelled: Whether these have targets; otherwise these are ``IGNORED``.
        server_classes: How many classes their targets name, in a numbering of their own if they are of another data
            set.
        server_is_foreign: Whether they are of another data set, so that its labels are not the task's classes.
        seen: The classes of all tasks of a stream so far, sorted; None where there is no stream.
        tasks: The classes of each task of a stream.
    """

    columns: Mapping[str, Tensor]
    train: Ragged
    test: Ragged
    valid: Ragged
    classes: int
    global_test: Tensor = field(default_factory=_nothing)
    communal: Tensor = field(default_factory=_nothing)
    names: Sequence[str] = ()
    class_names: Sequence[str] = ()
    title: str = ""
    withheld: tuple[int, tuple[int, ...]] | None = None
    later: Sequence[tuple[int, Federation]] = ()
    counted: Tensor | None = None
    group: Tensor | None = None
    notes: Sequence[str] = ()
    plan: InputPlan | None = None
    communal_labelled: bool = True
    server: Tensor = field(default_factory=_nothing)
    server_labelled: bool = True
    server_classes: int = 0
    server_is_foreign: bool = False
    seen: Tensor | None = None
    tasks: Sequence[tuple[int, ...]] = ()
    read_with: Mapping[str, Any] | None = field(default=None, init=False, compare=False, repr=False)
    """The arguments of ``fl.read`` that read it; None if it was made or changed otherwise. ``replace`` drops them."""

    def __post_init__(self) -> None:
        if len(self.train) == 0:
            raise FedloomError("clients=0: a federation needs at least one client.")
        empty = (self.train.sizes == 0).nonzero()
        if len(empty) and self.seen is None:  # in a stream, a client may lack the classes of a task
            raise FedloomError(
                f"client {self.name(int(empty[0]))} has no training sample: use fewer clients or a milder partition."
            )

    def __repr__(self) -> str:
        parts = {"training": self.train, "validation": self.valid, "test": self.test}
        sizes = [f"{len(part.order):,} {name}" for name, part in parts.items() if len(part.order)]
        sizes += [f"{len(self.global_test):,} global test"] if len(self.global_test) else []
        title = f" {self.title}" if self.title else ""
        word = {"labels": "labels", "number": "numbers"}.get(target_kind(self.columns["y"]), "classes")
        classes = f", {self.classes} {word}" if self.classes > 1 else ""
        return f"<Federation{title}: {self.clients:,} clients, {' + '.join(sizes)} samples{classes}>"

    def _repr_html_(self) -> str:
        return federation_html(self)

    @property
    def clients(self) -> int:
        """How many clients train."""
        return len(self.train)

    @cached_property
    def points(self) -> Tensor:
        """How many samples each client has in all: train, validation and test."""
        return self.counted if self.counted is not None else self.train.sizes + self.valid.sizes + self.test.sizes

    @property
    def fingerprint_tensors(self) -> Sequence[Tensor]:
        """Further tensors that identify the data, besides columns and parts; a run's fingerprint includes them."""
        return ()

    def subsample(self, pick: Callable[[Tensor], Tensor], global_test: int) -> Federation:
        """The same clients with fewer samples; their numbers of points stay.

        Args:
            pick: Takes some positions from a client's list.
            global_test: How many samples of the global test set remain.
        """

        def few(lists: Ragged) -> Ragged:
            return Ragged.of([pick(lists[client]) for client in range(len(lists))])

        return replace(
            self,
            train=few(self.train),
            valid=few(self.valid),
            test=few(self.test),
            global_test=self.global_test[:global_test],
            later=tuple((since, after.subsample(pick, global_test)) for since, after in self.later),
            counted=self.points,
        )

    def name(self, client: int) -> str:
        """What a client is called: its natural name (a writer, a role) or its number.

        Args:
            client: The client's number.
        """
        return self.names[client] if self.names else str(client)

    def counts(self) -> np.ndarray:
        """Training samples per client and class, as a clients × classes table; those without a label do not count.

        Targets that are sequences (next-word tasks), numbers or several labels have no class; they are counted in one
        column.
        """
        labels = self.columns["y"]
        if target_kind(labels) != "classes":
            return self.train.sizes.numpy()[:, None].copy()
        own = labels[self.train.order]
        cell = self.train.owners * self.classes + own
        table = torch.bincount(cell[own != IGNORED], minlength=self.clients * self.classes)
        return table.reshape(self.clients, self.classes).numpy()

    def at(self, round_number: int) -> Federation:
        """The federation as it stands in a round.

        Args:
            round_number: The round, counted from 1.
        """
        changed = [federation for since, federation in self.later if since <= round_number]
        return changed[-1] if changed else self

    def with_communal_samples(self, positions: Tensor) -> Federation:
        """The same federation with other communal samples, such as the exemplars among them.

        Args:
            positions: Their sorted positions.
        """
        return replace(self, communal=positions)

    def with_validation_as_test(self) -> Federation:
        """The same clients with their validation parts in the place of their test parts, and no global test set.

        It is for choosing between methods without using their test data.
        """
        if not int(self.valid.sizes.sum()):
            raise FedloomError(
                "no client has a validation part, but methods must not be chosen on test data: set task.valid_share, "
                "for instance to 0.2."
            )
        later = tuple((since, federation.with_validation_as_test()) for since, federation in self.later)
        return replace(self, test=self.valid, global_test=_nothing(), later=later, counted=self.points)

    @property
    def samples_are_independent(self) -> bool:
        """Whether what a model says of a sample depends on this sample alone; not so for the nodes of a graph."""
        return True

    def with_validation_part(self, share: float) -> Federation:
        """The same clients, each with a random share of its samples moved from its training to its validation part.

        Samples of one group move together, and every client keeps a training sample. It is for a federation whose
        clients have no validation parts. Data that change in later rounds are refused, since samples that are set aside
        in one round would be trained on in another; and so are data without all labels.

        Args:
            share: The share of a client's samples, as ``valid_share`` of a task.
        """
        if self.later:
            raise FedloomError(
                "clients' data change in later rounds, so no samples can be set aside for validation afterwards: build "
                "the task with valid_share, for instance 0.2."
            )
        y = self.columns["y"]
        if target_kind(y) == "classes" and bool((y[self.train.order] == IGNORED).any()):
            raise FedloomError(
                "some training samples have no label, so none can be set aside for validation afterwards: build the "
                "task with valid_share, for instance 0.2."
            )
        train, valid = [], []
        for client in range(self.clients):
            own = self.train[client]
            size = min(max(1, int(int(self.points[client]) * share + 0.5)), len(own) - 1)
            units = Units.among(None if self.group is None else self.group[own].numpy(), len(own))
            order = numpy_generator(0, "validation part", client).permutation(len(units.sizes))
            middle = np.cumsum(units.sizes[order]) - (units.sizes[order] + 1) / 2
            count = min(max(1, int((middle < size).sum())), len(order) - 1)
            chosen = np.isin(units.of, order[:count])
            train.append(own.numpy()[~chosen])
            valid.append(own.numpy()[chosen])
        if self.group is not None and not any(map(len, valid)):
            raise FedloomError(
                "every client's training samples belong together, so none can be set aside for validation afterwards: "
                "build the task with valid_share, for instance 0.2."
            )
        return replace(self, train=Ragged.of(train), valid=Ragged.of(valid))

    def repeat(self, times: int) -> Federation:
        """A federation of one client with that client several times, all with the same samples.

        Args:
            times: How many clients there are then.
        """
        lists = (Ragged.of([part[0]] * times) for part in (self.train, self.test, self.valid))
        train, test, valid = lists
        later = tuple((since, federation.repeat(times)) for since, federation in self.later)
        return replace(self, train=train, test=test, valid=valid, later=later)

    def as_one_client(self, without: Sequence[int] = ()) -> Federation:
        """The same data with one client that holds everybody's training samples, in client order.

        Args:
            without: Clients whose data are left out.
        """
        order = (
            torch.cat([self.train[k] for k in range(self.clients) if k not in without]) if without else self.train.order
        )
        later = tuple((since, federation.as_one_client(without)) for since, federation in self.later)
        one = Ragged(order, torch.tensor([0, len(order)]))
        nobody = Ragged.empty(1)
        return replace(self, train=one, test=nobody, valid=nobody, names=(), withheld=None, later=later, counted=None)
