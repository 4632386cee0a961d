"""Error feedback: whatever the step, what was sent and what is left is the sum of all updates."""

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, small_model

STEPS = [fl.TopK(0.1), fl.RandomK(0.1), fl.Sign(), fl.LowRank(2)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_nothing_is_lost_in_the_long_run(step):
    task, random, sender = small_model(), torch.Generator().manual_seed(0), MemorySender(range(2))
    step, width = step.for_task(task), task.layout.width
    updates = [torch.randn(2, width, generator=random) for _ in range(8)]
    received = torch.zeros(2, width)
    for rows in updates:
        received += step.decode(*step.encode(rows, sender), width)
        sender.round += 1
    assert torch.allclose(received + sender.kept["error"], sum(updates), atol=1e-4)
    for _ in range(150):
        received += step.decode(*step.encode(torch.zeros(2, width), sender), width)
        sender.round += 1
    assert (received - sum(updates)).norm() < 0.05 * sum(updates).norm()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_without_it_nothing_is_kept(step):
    task, sender = small_model(), MemorySender(range(2))
    plain = type(step)(error_feedback=False).for_task(task)
    plain.encode(torch.ones(2, task.layout.width), sender)
    assert sender.kept == {}


@pytest.mark.parametrize("step", [fl.RandomK(), fl.Sign()], ids=lambda step: type(step).__name__)
def test_behind_a_step_that_moves_entries_it_is_refused(step):
    name = type(step).__name__.lower()
    with pytest.raises(FedloomError, match=f"put {name} first, or set error_feedback=false"):
        fl.run(fl.task("digits", clients=2), "fedavg", rounds=1, channel=[fl.RandomMask(), step])
