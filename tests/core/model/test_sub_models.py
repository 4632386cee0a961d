"""Federated dropout: which columns belong to a sub-model, and that its training is that of the smaller model."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.model.sub_models import FederatedDropout, SubModelDraw, chain_layers
from fedloom.core.task import Task
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import federation


def mlp(*hidden):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden[0]), nn.ReLU(), nn.Linear(hidden[0], hidden[1]), nn.Tanh(), nn.Linear(hidden[1], 3))  # fmt: skip # noqa: E501


def cnn(*maps):
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, maps[0], 3, padding=1), nn.GELU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(maps[0], maps[1], 3, bias=False), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(maps[1], maps[2]), nn.ELU(), nn.Linear(maps[2], 3)),
    )


def test_columns_by_hand():
    """A chain 2-3-1: of the hidden units 0 and 2, the weights are columns 0, 1 and 4, 5, the biases 6 and 8; of the
    output, weights 9 and 11, bias 12."""
    first, last = chain_layers(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    units, nothing = torch.tensor([0, 2]), torch.zeros(1, dtype=torch.int64)
    assert first.columns(units, nothing).tolist() == [0, 1, 4, 5, 6, 8]
    assert last.columns(torch.tensor([0]), units).tolist() == [9, 11, 12]


@pytest.mark.parametrize("make", [mlp, cnn])
@pytest.mark.parametrize("work", [LocalWork(epochs=2, batch_size=8, lr=0.1), LocalWork(batch_size=8, optimizer="adam", lr=0.01), LocalWork(batch_size=8, lr=0.1, momentum=0.9, weight_decay=0.01)])  # fmt: skip # noqa: E501
def test_training_with_zeros_is_training_the_smaller_model(make, work):
    torch.manual_seed(0)
    sizes = (10, 8) if make is mlp else (6, 4, 10)
    whole = make(*sizes)
    sub_models = FederatedDropout(keep=0.5).sub_models(whole)
    small = make(*sub_models.kept)
    task = Task("t", federation([24, 24], shape=(1, 8, 8), classes=3), whole)
    columns = sub_models.columns_of(SubModelDraw(0, 1, 0, [0, 1]).seeds)
    row, setting = task.initial_row(), RunSetting(work, 0, 1)
    rows = sub_models.cut(row, columns)
    masked = Cohort([0, 1], LocalTrainer(task, "loop"), setting, 1).train(sub_models.spread(rows, columns))
    smaller = Cohort([0, 1], LocalTrainer(replace(task, model=small), "loop"), setting, 1).train(rows)
    assert sub_models.width == replace(task, model=small).layout.width
    torch.testing.assert_close(sub_models.cut(masked, columns), smaller, atol=1e-5, rtol=1e-5)
    assert not torch.equal(smaller, rows)
    assert torch.equal(masked, sub_models.spread(sub_models.cut(masked, columns), columns))  # all others stay 0


def test_every_client_and_round_has_another_sub_model_of_the_same_size():
    sub_models = FederatedDropout(keep=0.5).sub_models(mlp(20, 20))
    drawn = [tuple(sub_models.columns(seed).tolist()) for round_number in (1, 2) for seed in SubModelDraw(0, round_number, 0, [0, 1, 2]).seeds]  # fmt: skip # noqa: E501
    assert len(set(drawn)) == 6
    assert {len(columns) for columns in drawn} == {64 * 10 + 10 + 10 * 10 + 10 + 10 * 3 + 3}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)), "a BatchNorm1d"),
        (nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 2)), "a Sigmoid"),
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)), "a LayerNorm"),
        (nn.Sequential(nn.Linear(4, 2)), "a hidden layer"),
        (nn.Sequential(nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 1, groups=2), nn.Conv2d(4, 2, 1)), "in groups"),
        (nn.Sequential(nn.Conv1d(1, 2, 1), nn.ReLU(), nn.Linear(8, 2)), "mixes positions"),
        (nn.LSTM(3, 4), "a LSTM"),
    ],
)
def test_models_whose_units_cannot_be_cut_are_refused(model, said):
    with pytest.raises(FedloomError, match=said):
        chain_layers(model)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_that_means_nothing_is_refused(share):
    with pytest.raises(FedloomError, match="above 0 and at most 1"):
        fl.FederatedDropout(keep=share)
