"""A model as one row.

The parameters of a model that train, then its float buffers, flattened in a fixed order, are a row; a cohort of B
clients is a matrix of B rows. What is frozen is not in it: it belongs to the model, is the same for everybody and
never travels. The layout knows where each tensor lies in the row and which part (body, head, ...) it belongs to, and
turns rows into tensors and back: views where torch allows it, one copy where it does not.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class Slot:
    """One tensor's place in a row."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    dtype: torch.dtype
    trains: bool
    part: str


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a model lies in its row.

    Args:
        slots: The tensors' places, in the order of the row.
    """

    slots: tuple[Slot, ...]

    @staticmethod
    def of(model: nn.Module) -> Layout:
        """The layout of a model: what trains first, then persistent float buffers, each in the model's own order.

        Frozen parameters, buffers of whole numbers (an index, a counter) and buffers that are not finite (a mask of
        ``-inf``) have nothing to average: they belong to the model, not to the row (``constants``).

        A model may declare its parts as ``parts = {"head": ["fc3.*"]}`` (name patterns, or names of modules); what no
        pattern names is the body. Without a declaration the last parametrised layer is the head.
        """
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not parameters:
            raise FedloomError(f"{type(model).__name__} has no trainable parameter: there is nothing to train.")
        for name, parameter in parameters.items():
            if not parameter.is_floating_point():
                raise FedloomError(
                    f"the parameter '{name}' of {type(model).__name__} is {parameter.dtype}, and only real numbers "
                    "are trained: store its real and imaginary parts, or freeze it (requires_grad=False)."
                )
        persistent = model.state_dict(keep_vars=True)
        buffers = {name: b for name, b in model.named_buffers() if name in persistent and _averages(b)}
        parts = _parts_of(model, list(parameters))
        slots, start = [], 0
        for name, tensor in [*parameters.items(), *buffers.items()]:
            stop, trains = start + tensor.numel(), name in parameters
            slots.append(Slot(name, tuple(tensor.shape), start, stop, tensor.dtype, trains, _part(name, parts)))
            start = stop
        return Layout(tuple(slots))

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self.slots[-1].stop

    @cached_property
    def trainable(self) -> tuple[Slot, ...]:
        """The slots that are trained: parameters, and no buffers."""
        return tuple(slot for slot in self.slots if slot.trains)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, in order of appearance."""
        return tuple(dict.fromkeys(slot.part for slot in self.slots))

    def moving(self, part: str | None) -> tuple[Slot, ...]:
        """The parameters that are trained when ``part`` is the only part trained (None: all of them)."""
        if part is None:
            return self.trainable
        self._check_part(part)
        return tuple(slot for slot in self.trainable if slot.part == part)

    def columns(self, part: str) -> Tensor:
        """A mask over a row's columns that is true where ``part`` lies."""
        mask = torch.zeros(self.width, dtype=torch.bool)
        for start, stop in self._spans(part):
            mask[start:stop] = True
        return mask

    def take(self, rows: Tensor, part: str) -> Tensor:
        """The columns of a part: of a row, or of a matrix of rows."""
        return torch.cat([rows[..., start:stop] for start, stop in self._spans(part)], dim=-1)

    def put(self, rows: Tensor, part: str, piece: Tensor) -> Tensor:
        """New rows in which a part is replaced."""
        out, done = rows.clone(), 0
        for start, stop in self._spans(part):
            out[..., start:stop] = piece[..., done : done + stop - start]
            done += stop - start
        return out

    def _spans(self, part: str) -> list[tuple[int, int]]:
        """The contiguous stretches of a row that make up a part."""
        self._check_part(part)
        spans: list[tuple[int, int]] = []
        for slot in self.slots:
            if slot.part == part and spans and spans[-1][1] == slot.start:
                spans[-1] = (spans[-1][0], slot.stop)
            elif slot.part == part:
                spans.append((slot.start, slot.stop))
        return spans

    def _check_part(self, part: str) -> None:
        if part not in self.parts:
            raise FedloomError(f"the model has no part '{part}': it has {', '.join(self.parts)}.")

    def constants(self, model: nn.Module) -> dict[str, Tensor]:
        """What a model saves and its row leaves out: frozen parameters, masks and tables, but no counters."""
        moves, saved = {slot.name for slot in self.slots}, model.state_dict(keep_vars=True)
        tensors = {**dict(model.named_parameters()), **{n: b for n, b in model.named_buffers() if n in saved}}
        return {n: t.detach() for n, t in tensors.items() if n not in moves and (t.dim() or t.is_floating_point())}

    def row(self, model: nn.Module) -> Tensor:
        """What trains of a model, and its float buffers, as a new row."""
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        return torch.cat([tensors[slot.name].detach().reshape(-1).float() for slot in self.slots])

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Each tensor as a view into a row (shape ``shape``) or into a matrix of rows (``B, *shape``)."""
        lead = rows.shape[:-1]
        return {s.name: rows[..., s.start : s.stop].view((*lead, *s.shape)) for s in self.slots}

    def stacks(self, rows: Tensor) -> dict[str, Tensor]:
        """Each tensor of B rows as a contiguous ``B, *shape`` copy: the form in which a cohort trains."""
        return {name: view.clone(memory_format=torch.contiguous_format) for name, view in self.views(rows).items()}

    def pieces(self, rows: Tensor) -> dict[str, Tensor]:
        """Stacks of rows, or of one number per client (B×1) in a shape that broadcasts against them."""
        if rows.shape[1] == 1:
            return {s.name: rows.view(len(rows), *[1] * len(s.shape)) for s in self.slots}
        return self.stacks(rows)

    @cached_property
    def trained_columns(self) -> Tensor | None:
        """A mask over the columns that are trained; None when all of them are."""
        if all(slot.trains for slot in self.slots):
            return None
        return torch.cat([torch.full((s.stop - s.start,), s.trains) for s in self.slots])

    def mask_trained(self, rows: Tensor) -> Tensor:
        """Rows with zeros in the columns that are not trained: running statistics have no gradient."""
        return rows if self.trained_columns is None else rows * self.trained_columns

    def take_trained(self, rows: Tensor) -> Tensor:
        """The columns of rows that are trained."""
        return rows if self.trained_columns is None else rows[..., self.trained_columns]

    def unstack(self, stacks: dict[str, Tensor]) -> Tensor:
        """The matrix of rows that contiguous stacks came from."""
        return torch.cat([stacks[s.name].detach().reshape(len(stacks[s.name]), -1) for s in self.slots], dim=1)

    def fill(self, model: nn.Module, row: Tensor) -> None:
        """Copy a row into a model that owns its memory."""
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        with torch.no_grad():
            for name, view in self.views(row).items():
                tensors[name].copy_(view)

    def bind(self, model: nn.Module, row: Tensor) -> None:
        """Make what lies in a row views of it: a change to the model changes the row, and the other way round."""
        views = self.views(row)
        for slot in self.slots:
            owner, leaf = _owner(model, slot.name)
            if slot.dtype != row.dtype:
                getattr(owner, leaf).copy_(views[slot.name])
            elif slot.trains:
                getattr(owner, leaf).data = views[slot.name]
            else:
                owner._buffers[leaf] = views[slot.name]


def part_of_parameters(model: nn.Module) -> dict[str, str]:
    """The part of each parameter of a model, frozen ones included."""
    names = [name for name, _ in model.named_parameters()]
    parts = _parts_of(model, [name for name, p in model.named_parameters() if p.requires_grad] or names)
    return {name: _part(name, parts) for name in names}


def in_single_precision(model: nn.Module, task: str) -> nn.Module:
    """A model that is wholly in another float type as a float32 copy, with one log line; any other model as it is.

    Args:
        task: The name of its task, for the log line.
    """
    kinds = {tensor.dtype for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()}
    if len(kinds) != 1 or kinds == {torch.float32}:
        return model
    kind = str(kinds.pop()).removeprefix("torch.")
    log.warning("task %s: the model is %s; it is trained in float32, and its float32 copy is task.model", task, kind)
    return copy.deepcopy(model).float()


def _averages(buffer: Tensor) -> bool:
    """Whether the mean of a buffer over clients means something."""
    return buffer.is_floating_point() and bool(buffer.isfinite().all())


def _owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    return model.get_submodule(path), leaf


def _parts_of(model: nn.Module, names: Sequence[str]) -> dict[str, list[str]]:
    """The patterns of each part; ``names`` are the parameters that train."""
    declared = getattr(model, "parts", None)
    if declared is None:
        last = names[-1].rpartition(".")[0]
        return {"head": [f"{last}.*" if last else "*"]}  # a bare layer is all head
    everything = [name for name, _ in model.named_parameters()]
    lists = declared.values() if isinstance(declared, Mapping) else [None]
    if not all(isinstance(patterns, list | tuple) for patterns in lists):
        raise FedloomError(
            f"{type(model).__name__}.parts is {declared!r}: give a dict of lists, for instance {{'head': ['fc3.*']}}."
        )
    for part, patterns in declared.items():
        for pattern in patterns:
            if not any(matches(name, [pattern]) for name in everything):
                raise FedloomError(
                    f"the pattern '{pattern}' of part '{part}' matches no parameter: the model has "
                    f"{', '.join(everything)}."
                )
    return dict(declared)


def _part(name: str, parts: dict[str, list[str]]) -> str:
    return next((part for part, patterns in parts.items() if matches(name, patterns)), "body")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of some patterns, or of some names of modules, matches the name of a tensor."""
    return any(fnmatchcase(name, p) or name.startswith(p + ".") for p in patterns)
