"""Local training by DP-SGD: ``w <- w - lr * (sum_i clip(g_i, C) + N(0, (noise * C)²)) / b``.

The sum is over a Poisson draw of the client's samples and b is its expected size, the same in every step (Abadi et al.,
Deep Learning with Differential Privacy, CCS 2016, https://arxiv.org/abs/1607.00133). What follows uses nothing but
this noisy gradient, so it costs no privacy: momentum, Adam, weight decay, a method's pull. All clients of a cohort step
together; a step without any sample still adds noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.pull import Affine
from fedloom.core.seeds import generator
from fedloom.core.trainer import StepNoise, TrainingRequest
from fedloom.privacy.sampling import sampling_rate
from fedloom.privacy.secure_random import secure_normal, secure_uniform
from fedloom.training.batches import Assignment, BatchStep, places_of
from fedloom.training.dpsgd.sample_gradients import clipped_gradient_sums
from fedloom.training.keyed_dropout import step_key
from fedloom.training.optimizers.make import make_optimizer
from fedloom.training.step_rates import rate_of_step

if TYPE_CHECKING:
    from fedloom.training.local_trainer import LocalTrainer


def train_privately(
    trainer: LocalTrainer,
    request: TrainingRequest,
    assignments: list[Assignment],
    privacy: StepNoise,
    rates: Tensor | None,
) -> Tensor:
    """The rows after training all clients together by DP-SGD."""
    if request.on is not None:
        raise FedloomError(
            "sample_privacy protects clients' own samples, and this method also trains on samples that all of them "
            "have: use fedavg, fedprox, scaffold or fedrep."
        )
    if request.has_own_loss or request.steps or request.augment is not None or request.cycle is not None:
        raise FedloomError(
            "sample_privacy clips the gradients of the task's loss, and this method trains by a loss or in steps of "
            "its own: use fedavg, fedprox, scaffold or fedrep."
        )
    layout, moving = trainer.layout, [slot.name for slot in trainer.layout.moving(request.part)]
    stacks, received = trainer.stacks(request.rows), layout.stacks(request.rows)
    given = {name: layout.pieces(rows) for name, rows in request.given_to_pull.items()}
    pull = request.pull.pull if isinstance(request.pull, Affine) else request.pull
    optimizer, keys = make_optimizer(request.work, request.lr, [stacks[name] for name in moving]), trainer.keys(request)
    seeded = [generator(request.seed, "sample_privacy", request.round, c) for c in request.clients if privacy.seeded]
    expected = torch.tensor([sampling_rate(one.samples, one.batch_size) * one.samples for one in assignments])
    for number in range(max(one.steps for one in assignments)):
        active = [place for place, one in enumerate(assignments) if one.steps > number]
        places = places_of(active)
        cut = slice(places) if isinstance(places, int) else places
        generators = [seeded[place] for place in active] if seeded else []
        batch = draw_batches([assignments[place] for place in active], places, generators)
        x, y = trainer.batch(request, batch, []), trainer.task.targets(batch.positions)
        part, piece = optimizer.part(places), {name: stack[cut] for name, stack in stacks.items()}
        piece.update(zip(moving, part.values, strict=True))
        noise_keys = step_key(keys[cut], number) if trainer.drops else keys[cut]
        assert batch.mask is not None  # noqa: S101
        sums = clipped_gradient_sums(trainer, piece, moving, (x, y, batch.mask), noise_keys, privacy.clip)
        add_noise(sums, privacy.multiplier * privacy.clip, generators)
        gradients = [g.div_(expected[cut].view(-1, *[1] * (g.dim() - 1))) for g in sums]
        if pull is not None:
            for i, name in enumerate(moving):
                extra = {key: rows[name][cut] for key, rows in given.items()}
                gradients[i] = gradients[i] + pull(part.values[i], received[name][cut], **extra)
        if rates is not None:
            part.lr = rate_of_step(rates, places, torch.full((len(assignments),), number))
        part.step(gradients)
        if not isinstance(places, int):
            optimizer.put_back(part, places)
    return layout.unstack(stacks)


def add_noise(sums: list[Tensor], deviation: float, generators: list[torch.Generator]) -> None:
    """Add independent Gaussian noise to every number of clients' sums, in place.

    Args:
        sums: A stack of clients per tensor.
        deviation: The deviation of the noise.
        generators: A generator per client if the run is seeded; none otherwise.
    """
    width = sum(g[0].numel() for g in sums)
    if generators:
        normal = torch.stack([torch.randn(width, generator=one, dtype=torch.float64) for one in generators])
    else:
        normal = secure_normal(len(sums[0]) * width).view(-1, width)
    pieces = torch.split(normal.mul_(deviation), [g[0].numel() for g in sums], dim=1)
    for g, noise in zip(sums, pieces, strict=True):
        g.add_(noise.reshape(g.shape))


def draw_batches(work: Sequence[Assignment], places: int | Tensor, generators: Sequence[torch.Generator]) -> BatchStep:
    """The batches of one step: each sample of a client is in it with the same probability, independently of the others.

    A batch has no fixed size, so nothing is ever cut off: clients that step together are padded to the largest batch
    that was drawn. Who is drawn must be as secret as the noise, so it comes from the operating system's generator,
    unless the run asks for its seed by name.

    Args:
        work: What each of these clients does.
        places: Their places in the cohort.
        generators: The generators of these clients if the run is seeded; none otherwise.
    """
    drawn = [
        one.positions[_chances(one.samples, generators[k] if generators else None) < _rate(one)]
        for k, one in enumerate(work)
    ]
    widest = max(1, *(len(some) for some in drawn)) if drawn else 1
    padded = [
        torch.cat([some, one.positions[:1].expand(widest - len(some))]) for some, one in zip(drawn, work, strict=True)
    ]
    positions = torch.stack(padded)
    mask = (torch.arange(widest) < torch.tensor([[len(some)] for some in drawn])).float()
    return BatchStep(places, positions, mask)


def _rate(one: Assignment) -> float:
    return sampling_rate(one.samples, one.batch_size)


def _chances(count: int, generator: torch.Generator | None) -> Tensor:
    """Uniform numbers of at least 0 and below 1."""
    if generator is not None:
        return torch.rand(count, generator=generator, dtype=torch.float64)
    return 1 - torch.from_numpy(secure_uniform(count))
