"""The canary: its change is the whole clip norm in its direction, and the neighbours' is nothing, or the opposite."""

import pytest
import torch

import fedloom as fl
from fedloom.audits.canary import CLIP, along_canary, canary_task
from fedloom.audits.privacy_cases import WORK


@pytest.mark.parametrize(("presence", "change"), [("in", 1.0), ("zero", 0.0), ("opposite", -1.0)])
def test_a_clipped_change_points_where_the_attacker_looks(presence, change):
    task = canary_task(3, 1, presence)
    history = fl.run(task, rounds=1, eval_every=0, local=WORK, weight_by="uniform")
    moved = 3 * history.row  # the mean of three, of whom two have samples of zeros
    clipped = moved * (CLIP / moved.norm()).clamp(max=1) if moved.norm() else moved
    assert float(along_canary(clipped)) == pytest.approx(change, abs=1e-5)


def test_a_model_that_has_moved_leaves_the_canary_as_large():
    task = canary_task(1, 1, "in")
    task.model[0].weight.data += 50 * CLIP * torch.randn(2, 2, generator=torch.Generator().manual_seed(0))
    history = fl.run(task, rounds=1, eval_every=0, local={**WORK, "lr": 0.1})
    assert float((history.row - task.initial_row()).norm()) > 100 * CLIP
