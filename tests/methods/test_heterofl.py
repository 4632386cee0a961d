"""HeteroFL: every weight is the mean over the clients that have it, and with one width it is FedAvg."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.corners import corner_columns
from fedloom.core.errors import FedloomError
from fedloom.methods.heterofl import average_corners
from support.checkpoints import checkpoint_tensors

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
WIDE, NARROW = "mlp:hidden=[16]", "mlp:hidden=[4]"


def mixed(wide=(0, 1), narrow=(2, 3)):
    return fl.task("digits", clients=4, models={WIDE: list(wide), NARROW: list(narrow)}, seed=1)


def play(task, method="heterofl", **settings):
    return fl.run(task, method, seed=2, local=WORK, **{"rounds": 2, **settings})


def test_every_entry_is_the_mean_over_those_who_have_it():
    row = torch.tensor([9.0, 9.0, 9.0, 9.0])
    wide = (torch.tensor([0, 1, 2]), torch.tensor([[1.0, 2.0, 3.0]]))
    narrow = (torch.tensor([0]), torch.tensor([[4.0], [7.0]]))
    found = average_corners(row, [wide, narrow], torch.tensor([0.5, 0.25, 0.25]))
    assert found.tolist() == [0.5 * 1 + 0.25 * 4 + 0.25 * 7, 2.0, 3.0, 9.0]  # nobody has the last


def test_with_one_width_it_is_fedavg():
    task = fl.task("digits", clients=4, model=WIDE, seed=1)
    same = fl.task("digits", clients=4, models={WIDE: 1.0}, seed=1)
    expected = play(task, "fedavg")
    torch.testing.assert_close(play(task).row, expected.row, rtol=0, atol=1e-6)
    torch.testing.assert_close(play(same).row, expected.row, rtol=0, atol=1e-6)
    assert play(same).total("bytes_up") == expected.total("bytes_up")


def test_narrow_clients_send_and_get_their_corner_only(tmp_path):
    widths = {"wide": 64 * 16 + 16 + 160 + 10, "narrow": 64 * 4 + 4 + 40 + 10}
    history = play(mixed(), out=tmp_path / "run")
    assert history.total("bytes_up") == history.total("bytes_down") == 2 * 2 * 4 * sum(widths.values())
    assert len(history.row) == widths["wide"]
    assert checkpoint_tensors(tmp_path / "run")["server/row"].shape == (widths["wide"],)


def test_weights_outside_the_corner_change_only_in_rounds_with_wide_clients():
    task = mixed(wide=[0], narrow=[1, 2, 3])
    outside = torch.ones(task.layout.width, dtype=torch.bool)
    outside[corner_columns(task.layout, task.of_architecture(1).layout)] = False
    seen = set()
    for seed in range(4):
        history = fl.run(task, "heterofl", seed=seed, local=WORK, rounds=1, selection={"number": 1})
        wide = history.records[-1]["selected"] == [0]
        changed = history.row != task.initial_row()
        assert bool(changed[outside].any()) == wide
        assert bool(changed[~outside].any())
        seen.add(wide)
    assert seen == {True, False}


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


def test_models_that_are_no_widths_of_one_network_are_refused():
    task = fl.task("digits", clients=4, models={WIDE: 0.5, "mlp:hidden=[16,8]": 0.5})
    with pytest.raises(FedloomError, match=r"mlp:hidden=\[16,8\] is not the server's model made narrower"):
        play(task)
    wider = fl.task("digits", clients=4, models={NARROW: 0.5, WIDE: 0.5})
    with pytest.raises(FedloomError, match=r"made narrower: its tensor .* has shape"):
        play(wider)


@pytest.mark.slow
def test_the_same_bytes_with_workers(tmp_path):
    assert torch.equal(play(mixed()).row, play(mixed(), workers=2, out=tmp_path / "run").row)
