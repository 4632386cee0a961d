"""HeteroFL: narrow clients train, send and predict with their corner of the wide network."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from support.checkpoints import checkpoint_tensors

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
WIDE, NARROW = "mlp:hidden=[16]", "mlp:hidden=[4]"


def mixed(wide=(0, 1), narrow=(2, 3)):
    return fl.task("digits", clients=4, models={WIDE: list(wide), NARROW: list(narrow)}, seed=1)


def play(task, method="heterofl", **settings):
    return fl.run(task, method, seed=2, local=WORK, **{"rounds": 2, **settings})


def test_narrow_clients_send_and_get_their_corner_only(tmp_path):
    widths = {"wide": 64 * 16 + 16 + 160 + 10, "narrow": 64 * 4 + 4 + 40 + 10}
    history = play(mixed(), out=tmp_path / "run")
    assert history.total("bytes_up") == history.total("bytes_down") == 2 * 2 * 4 * sum(widths.values())
    assert len(history.row) == widths["wide"]
    assert checkpoint_tensors(tmp_path / "run")["server/row"].shape == (widths["wide"],)


def test_clients_predict_with_their_corner_of_the_global_model():
    task = mixed()
    history = play(task)
    narrow = history.model(task, 2)
    assert narrow[-1].weight.shape == (10, 4)
    assert torch.equal(narrow[-1].weight, history.model(task)[-1].weight[:, :4])


def test_masked_outputs_leave_absent_classes_to_others():
    task = fl.task("digits", clients=2, partition="shards(2)", model="logistic", seed=1)
    one = {"rounds": 1, "seed": 2, "local": WORK, "selection": {"number": 1}}
    masked = [fl.run(task, f"heterofl:masked={value}", **one) for value in ("true", "false")]
    (client,) = masked[0].records[-1]["selected"]
    labels = task.targets(task.federation.train[client])
    absent = (labels.bincount(minlength=10) == 0).nonzero().flatten()
    moved = [history.row[:640].view(10, 64) - task.initial_row()[:640].view(10, 64) for history in masked]
    assert 0 < len(absent) < 10
    assert not moved[0][absent].any()  # it has none of these classes, and leaves their weights alone
    assert bool(moved[1][absent].any())


@pytest.mark.slow
def test_the_same_bytes_with_workers(tmp_path):
    assert torch.equal(play(mixed()).row, play(mixed(), workers=2, out=tmp_path / "run").row)
