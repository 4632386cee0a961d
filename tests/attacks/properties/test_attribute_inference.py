"""A column of records: what the model tells beyond the other columns, of its own records and of no others."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes
from torch import nn

import fedloom as fl
from fedloom.attacks.properties.attribute_inference import AttributeGuesses, attribute_inference
from fedloom.audits.shadow_models import train_on
from fedloom.core.errors import FedloomError
from fedloom.data.federation import Federation, Ragged
from support.synthetic import federation

SEX = 1
"""A column of scikit-learn's diabetes data that has two values."""
RECORDS = 100


def diabetes(seed):
    """Records of patients, with whether the disease progressed more than usual: a client's, others, the attacker's."""
    found = load_diabetes(scaled=False)
    x = ((found.data - found.data.mean(0)) / found.data.std(0)).astype(np.float32)
    columns = {
        "x": torch.from_numpy(x),
        "y": torch.from_numpy((found.target > np.median(found.target)).astype("int64")),
    }
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    parts = order.tensor_split([RECORDS, 2 * RECORDS])
    made = Federation(columns, Ragged.of([parts[0].sort().values]), Ragged.empty(1), Ragged.empty(1), 2)
    return fl.task_of(made, "mlp"), parts


def test_a_model_that_looks_at_the_column_only_gives_it_away_and_one_that_does_not_gives_nothing():
    """The class is the column: ``x_1`` is 1 for class 1. The other columns are noise."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (200,), generator=draw)
    x = torch.randn(200, 3, generator=draw)
    x[:, 1] = y
    everything = torch.arange(200)
    made = Federation({"x": x, "y": y}, Ragged.of([everything]), Ragged.empty(1), Ragged.empty(1), 2)
    model = nn.Sequential(nn.Linear(3, 2))
    task = fl.task_of(made, model)
    knows, blank = torch.zeros(8), torch.zeros(8)
    knows[1], knows[4], knows[6] = -5.0, 5.0, 5.0
    # the attacker's own records say nothing: their class and their column have nothing in common
    own = torch.cat([everything[y == 0][:20], everything[y == 1][:20]])
    x[own, 1] = (torch.arange(40) % 2).float()
    asked = everything[~torch.isin(everything, own)]
    found = attribute_inference(task, knows, asked, own, [1])
    nothing = attribute_inference(task, blank, asked, own, [1])
    assert found.right > 0.9 > 0.7 > found.baseline
    assert found.told_by_the_model
    assert nothing.right == nothing.imputed
    assert not nothing.told_by_the_model


@pytest.mark.slow
def test_an_overfitted_model_tells_of_its_own_records_and_of_no_others():
    told = {"own": list[AttributeGuesses](), "others": list[AttributeGuesses]()}
    for seed in range(3):
        task, (members, others, own) = diabetes(seed)
        work = {"lr": 0.3, "batch_size": 16, "epochs": 100}
        row = train_on(task, members.sort().values, {"rounds": 1, "seed": seed, "local": work})
        told["own"].append(attribute_inference(task, row, members, own, [SEX]))
        told["others"].append(attribute_inference(task, row, others, own, [SEX]))
    own, others = told["own"], told["others"]
    assert sum(one.right - one.imputed for one in own) / 3 > 0.03 > 0 > sum(one.right - one.imputed for one in others)
    assert sum(one.gained for one in own) > 5 * sum(one.lost for one in own)
    assert not any(one.told_by_the_model for one in others)


def test_a_gain_by_chance_is_none():
    assert AttributeGuesses(0.8, 0.5, 0.7, gained=12, lost=2, records=100).told_by_the_model
    assert not AttributeGuesses(0.71, 0.5, 0.7, gained=8, lost=7, records=100).told_by_the_model
    assert not AttributeGuesses(0.7, 0.75, 0.6, gained=12, lost=2, records=100).told_by_the_model, "the frequent value"
    assert not AttributeGuesses(0.7, 0.5, 0.7, gained=0, lost=0, records=100).told_by_the_model


def test_what_cannot_be_guessed_is_refused():
    task, (members, _, own) = diabetes(0)
    row = task.initial_row()
    with pytest.raises(FedloomError, match="there is no input column 10: there are 10, from 0"):
        attribute_inference(task, row, members, own, [10])
    with pytest.raises(FedloomError, match=r"have \d+ values in the sensitive column.*choose a column of categories"):
        attribute_inference(task, row, members, own, [0])
    images = fl.task_of(federation([20, 20], shape=(1, 8, 8), classes=3), "cnn-small")
    with pytest.raises(FedloomError, match="of records in a table"):
        attribute_inference(images, images.initial_row(), torch.arange(3), torch.arange(9), [0])
