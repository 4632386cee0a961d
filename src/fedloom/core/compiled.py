"""The vectorised step through ``torch.compile``: seconds of compilation once, then the fastest small models.

Shapes never change, so there is one compilation per cohort size: every step takes all clients and a full batch; a
client with a smaller batch, or with none left, is masked, and stays as it was. Under plain SGD a chain of layers
goes backwards by hand: the loss gradient is scaled by minus the learning rate before it enters the chain, so each
weight's new value is one product accumulated onto the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fedloom.core.batches import Assignment, Step
from fedloom.core.noise import KeyedDropout, step_key
from fedloom.core.optimizer import Optimizer
from fedloom.core.stacked import NARROW, Pull, run_vmap
from fedloom.errors import FedloomError

if TYPE_CHECKING:
    from fedloom.core.local import Loom, Request

Stacks = dict[str, Tensor]


def train_compiled(loom: Loom, request: Request) -> Tensor:
    """The rows after local training of a cohort with the compiled step."""
    if request.loss is not None:
        raise FedloomError("execution 'compiled' has no methods with a loss of their own: use vectorised or loop.")
    task, layout = loom.task, loom.layout
    moving = tuple(slot.name for slot in layout.moving(request.part))
    stacks = layout.stacks(request.rows)
    received = layout.stacks(request.rows) if request.pull is not None else {}
    given = {name: layout.stacks(rows) for name, rows in request.given.items()}
    optimizer = Optimizer(request.work, request.lr, [stacks[name] for name in moving])
    plain = request.work.optimizer == "sgd" and request.work.momentum == 0 and request.work.clip is None
    call = _compiled(loom, _chain_step if plain and loom.chain is not None else _any_step)
    keys, augmenters = request.keys(), request.augmenters()
    lr = torch.tensor(request.lr)
    with torch.no_grad():
        for number, step in enumerate(lockstep(request.assignments)):
            x, y = task.inputs(step.positions), task.targets(step.positions)
            if task.augment is not None:
                from fedloom.core.local import augmented

                x = augmented(task.augment, x, step, augmenters)
            noise = step_key(keys, number)
            call(loom, moving, stacks, optimizer.state, received, given, request.pull, request.work, lr, x, y, step.mask, noise)
    return layout.unstack(stacks)


def _compiled(loom: Loom, step: Any) -> Any:
    if step not in loom.compiled:
        try:
            loom.compiled[step] = torch.compile(step, dynamic=False)
        except RuntimeError as error:
            raise FedloomError(f"torch.compile does not work here ({error}): use execution = 'vectorised'.") from None
    return loom.compiled[step]


def lockstep(work: Sequence[Assignment]) -> Iterator[Step]:
    """Every client's next batch at once, padded to one shape; a client that has finished is all padding."""
    size = max(one.batch_size for one in work)
    batches = [iter(one) for one in work]
    for _ in range(max((one.steps for one in work), default=0)):
        positions = torch.zeros(len(work), size, dtype=torch.int64)
        mask = torch.zeros(len(work), size)
        for place, own in enumerate(batches):
            batch = next(own, None)
            if batch is not None:
                positions[place, : len(batch)] = batch
                mask[place, : len(batch)] = 1
        yield Step(len(work), positions, mask)


def _shares(loom: Loom, outputs: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Each client's mean loss over the samples that count, summed over clients."""
    losses, counts = loom.task.objective.losses(outputs.flatten(0, 1), y.flatten(0, 1))
    losses, counts = losses.view(mask.shape) * mask, counts.view(mask.shape) * mask
    return (losses.sum(1) / counts.sum(1).clamp(min=1)).sum()


def _chain_step(
    loom: Loom,
    moving: tuple[str, ...],
    stacks: Stacks,
    state: list[list[Tensor]],  # noqa: ARG001
    received: Stacks,
    given: dict[str, Stacks],
    pull: Pull | None,
    work: Any,
    lr: Tensor,
    x: Tensor,
    y: Tensor,
    mask: Tensor,
    noise: Tensor,
) -> None:
    """Plain SGD on a chain of layers, backwards by hand."""
    layers, inputs = loom.chain or [], []
    for name, layer in layers:
        inputs.append(x)
        x = _forward(name, layer, stacks, x, noise)
    gradient = -lr * torch.func.grad(lambda outputs: _shares(loom, outputs, y, mask))(x)
    active = -lr * (mask.sum(1) > 0)
    for (name, layer), x in zip(reversed(layers), reversed(inputs), strict=True):
        if not isinstance(layer, nn.Linear):
            gradient = torch.func.vjp(lambda x, n=name, m=layer: _forward(n, m, stacks, x, noise), x)[1](gradient)[0]  # type: ignore[misc]
            continue
        flat_x, flat_g = (t.flatten(1, -2) if t.dim() != 3 else t for t in (x, gradient))
        weight, bias = stacks[f"{name}.weight"], stacks.get(f"{name}.bias")
        if name != layers[0][0]:
            gradient = torch.bmm(flat_g, weight).view(x.shape)
        for leaf, value in ((f"{name}.weight", weight), (f"{name}.bias", bias)):
            if leaf not in moving or value is None:
                continue
            lead = active.view(-1, *[1] * (value.dim() - 1))
            extra = {key: rows[leaf] for key, rows in given.items()}
            start = value if work.weight_decay == 0 else value + lead * work.weight_decay * value
            if pull is not None:
                start = start + lead * pull(value, received[leaf], **extra)
            new = torch.baddbmm(start, flat_g.transpose(1, 2), flat_x) if value.dim() == 3 else start + flat_g.sum(1)
            value.copy_(new)


def _forward(name: str, layer: nn.Module, stacks: Stacks, x: Tensor, noise: Tensor) -> Tensor:
    if isinstance(layer, KeyedDropout):
        return layer.masked(x, noise)
    if isinstance(layer, nn.Flatten):
        return x.flatten(2)
    if not isinstance(layer, nn.Linear):
        out: Tensor = layer(x)
        return out
    weight, bias = stacks[f"{name}.weight"], stacks.get(f"{name}.bias")
    flat = x.flatten(1, -2) if x.dim() != 3 else x
    if weight.shape[1] < NARROW:
        wide = torch.bmm(weight, flat.transpose(1, 2))
        result = (wide if bias is None else wide + bias.unsqueeze(2)).transpose(1, 2)
    else:
        result = torch.bmm(flat, weight.transpose(1, 2))
        result = result if bias is None else result + bias.unsqueeze(1)
    return result.view(*x.shape[:-1], -1) if x.dim() != 3 else result


def _any_step(
    loom: Loom,
    moving: tuple[str, ...],
    stacks: Stacks,
    state: list[list[Tensor]],
    received: Stacks,
    given: dict[str, Stacks],
    pull: Pull | None,
    work: Any,
    lr: Tensor,
    x: Tensor,
    y: Tensor,
    mask: Tensor,
    noise: Tensor,
) -> None:
    """Any model that vmap takes, and any optimiser; clients without a batch keep their values and state."""

    def total(values: Stacks) -> Tensor:
        tensors = {**stacks, **values}
        if loom.chain is None:
            return _shares(loom, run_vmap(loom.model, tensors, x, noise), y, mask)
        out = x
        for name, layer in loom.chain:
            out = _forward(name, layer, tensors, out, noise)
        return _shares(loom, out, y, mask)

    values = {name: stacks[name] for name in moving}
    gradients = torch.func.grad(total)(values)
    if pull is not None:
        for name in moving:
            extra = {key: rows[name] for key, rows in given.items()}
            gradients[name] = gradients[name] + pull(values[name], received[name], **extra)
    active = mask.sum(1) > 0
    olds = [[tensor.clone() for tensor in group] for group in ([values[n] for n in moving], *state)]
    Optimizer(work, lr, [values[n] for n in moving], state).step([gradients[n] for n in moving])  # type: ignore[arg-type]
    for group, old in zip(([values[n] for n in moving], *state), olds, strict=True):
        for tensor, before in zip(group, old, strict=True):
            tensor.copy_(torch.where(active.view(-1, *[1] * (tensor.dim() - 1)), tensor, before))
