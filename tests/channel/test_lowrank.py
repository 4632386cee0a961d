"""Low-rank updates: a projection of each weight matrix, and what is sent of it."""

import pytest
import torch

import fedloom as fl
from fedloom.channel.lowrank import LowRank
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, small_model

TASK = small_model()
WIDTH = TASK.layout.width
ROWS = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))


def matrices(rows):
    return {name: view.flatten(2) for name, view in TASK.layout.views(rows).items() if view.dim() > 2}


def test_each_matrix_has_the_rank_and_vectors_are_as_they_were():
    found = send(LowRank(4, error_feedback=False).for_task(TASK), ROWS)
    for name, matrix in matrices(found).items():
        assert set(torch.linalg.matrix_rank(matrix, rtol=1e-4).tolist()) <= {3, 4}, name
    for name, view in TASK.layout.views(found).items():
        if view.dim() == 2:
            assert torch.equal(view, TASK.layout.views(ROWS)[name])


def test_it_is_the_nearest_point_of_the_subspace():
    step = LowRank(4, error_feedback=False).for_task(TASK)
    sent, extras = step.encode(ROWS, MemorySender())
    found = step.decode(sent, extras, WIDTH)
    assert torch.allclose(send(step, found), found, atol=1e-5)
    left = (ROWS - found).double()
    assert torch.allclose(
        left.square().sum(1), ROWS.double().square().sum(1) - sent.double().square().sum(1), rtol=1e-4
    )
    assert ((left * found).sum(1) / ROWS.norm(dim=1) ** 2).abs().max() < 1e-6


def test_on_average_a_matrix_keeps_the_share_of_its_rows():
    rows = ROWS[:1].expand(200, -1)
    found = send(LowRank(4, error_feedback=False).for_task(TASK), rows, MemorySender(range(200)))
    kept = matrices(found)["2.weight"].square().sum((1, 2)) / matrices(rows)["2.weight"].square().sum((1, 2))
    assert kept.mean() == pytest.approx(4 / 24, rel=0.05)


def test_what_is_sent_is_rank_times_length():
    step = LowRank(4).for_task(TASK)
    assert step.width(WIDTH) == 4 * 18 + 8 + 4 * 32 + 24 + 3 * 24 + 3
    head = int(TASK.layout.columns("head").sum())
    assert step.width(head) == head  # three rows: sent as they are


def test_a_row_that_is_no_part_of_the_model_and_a_wrong_place_are_refused():
    with pytest.raises(FedloomError, match="neither the model nor one of its parts"):
        LowRank().for_task(TASK).width(17)
    with pytest.raises(FedloomError, match="for_task"):
        LowRank().width(17)
    with pytest.raises(FedloomError, match="put lowrank first"):
        LowRank().check(fl.FedAvg(), TASK, (fl.TopK(),))
    with pytest.raises(FedloomError, match="rank=0: it must be at least 1"):
        LowRank(0)


@pytest.mark.parametrize("method", ["fedrep", "lgfedavg"])
def test_methods_that_send_a_part_of_the_model_can_use_it(method):
    history = fl.run(fl.task("digits", clients=3), method, rounds=2, channel=[LowRank(2)])
    assert history.stopped is None


def test_models_of_several_widths_are_refused_before_the_run(tmp_path):
    task = fl.task("digits", clients=4, models={"mlp:hidden=[60]": 0.5, "mlp:hidden=[8]": 0.5})
    with pytest.raises(FedloomError, match="lowrank acts on the weight matrices of one model"):
        fl.run(task, "heterofl", rounds=1, channel=["lowrank"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
