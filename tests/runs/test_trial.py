"""A model that cannot be trained on its task, or not here, is refused before training, in one sentence."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from support.synthetic import federation, mlp, small_task


class Reshape(nn.Linear):
    def __init__(self, inputs, outputs, function):
        super().__init__(inputs, outputs)
        self.function = function

    def forward(self, x):
        return self.function(super().forward(x))


def broken():
    model = mlp()
    nn.init.constant_(model[4].bias, torch.nan)
    return model


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: mlp(classes=3), r"gives 3 outputs, but 5 classes need one for each: let it return shape \(2, 5\)\."),
        (lambda: mlp(classes=9), r"gives 9 outputs, but 5 classes"),
        (lambda: Reshape(20, 5, lambda y: y.sum(1)), r"outputs of shape \(2,\) for 2 samples, but 5 classes"),
        (lambda: Reshape(20, 5, lambda y: y.squeeze()), r"outputs of shape \(5,\) for 1 sample, but 5 classes"),
        (lambda: Reshape(20, 5, lambda y: y.unsqueeze(1)), r"outputs of shape \(2, 1, 5\) for 2 samples"),
        (lambda: Reshape(20, 5, lambda _: None), "returns a NoneType: return a tensor"),
        (lambda: mlp(inputs=784), r"cannot take samples of shape \(20,\): RuntimeError: .*"),
        (lambda: Reshape(20, 5, lambda y: {"logits": y, "z": y}), r"a dict of logits, z: .* output = 'logits' in its"),
        (lambda: Reshape(20, 5, lambda y: (y, y)), r"returns a tuple of 0, 1: declare .* output = 0 in its class"),
        (broken, "are NaN: check its weights"),
    ],
)
def test_a_model_that_does_not_fit_classes_is_refused_before_anything_is_written(model, said, tmp_path):
    with pytest.raises(FedloomError, match=said) as refused:
        fl.run(replace(small_task(), model=model()), "fedavg", rounds=1, out=tmp_path / "run")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def with_layers(*layers):
    return nn.Sequential(nn.Linear(20, 8), nn.Unflatten(1, (8, 1, 1)), *layers, nn.Flatten(), nn.Linear(8, 5))


@pytest.mark.parametrize("execution", ["loop", "vectorised", "compiled"])
@pytest.mark.parametrize(
    ("layers", "named"),
    [
        ([nn.GroupNorm(8, 8)], "GroupNorm '2'"),
        ([nn.BatchNorm2d(8), nn.GroupNorm(8, 8)], "GroupNorm '3'"),
        ([nn.InstanceNorm2d(8)], "InstanceNorm2d '2'"),
    ],
)
def test_a_layer_that_normalises_single_values_is_named_in_every_execution(layers, named, execution):
    with pytest.raises(FedloomError, match=f"^{named} of the model normalises single values, so that nothing"):
        fl.run(replace(small_task(), model=with_layers(*layers)), "fedavg", rounds=1, execution=execution)


class Complaint(nn.Module):
    """A layer with a complaint of its own."""

    def forward(self, x):
        raise ValueError("Expected more than 1 idea")


def test_a_complaint_of_a_users_own_layer_is_told_as_it_is():
    with pytest.raises(FedloomError, match=r"cannot take samples .*: ValueError: Expected more than 1 idea"):
        fl.run(replace(small_task(), model=with_layers(Complaint())), "fedavg", rounds=1)


def task_with_targets(y, model, **settings):
    x = np.random.default_rng(0).normal(size=(len(y), 3)).astype(np.float32)
    federation = fl.from_arrays(x, y, client=np.arange(len(y)) % 3, **settings)
    return fl.task_of(federation, model)


NUMBERS = np.linspace(0, 1, 60).astype(np.float32)
LABELS = (np.arange(120).reshape(60, 2) % 3 == 0).astype(np.uint8)
TOKENS = np.arange(240).reshape(60, 4) % 5


@pytest.mark.parametrize(
    ("y", "kind", "wrong", "right", "said"),
    [
        (NUMBERS, "number", nn.Linear(3, 2), nn.Linear(3, 1), "2 outputs, but a number needs one"),
        (NUMBERS, "number", nn.Linear(3, 2), Reshape(3, 1, lambda y: y.squeeze()), "2 outputs, but a number needs one"),
        (LABELS, "labels", nn.Linear(3, 1), nn.Linear(3, 2), "1 outputs, but 2 labels need one for each"),
        (
            TOKENS,
            "tokens",
            nn.Linear(3, 5),
            Reshape(3, 20, lambda y: y.unflatten(-1, (4, 5))),
            r"5 outputs, but 5 classes at 4 tokens need one for each: let it return shape \(2, 4, 5\)",
        ),
    ],
)
def test_outputs_fit_each_kind_of_target(y, kind, wrong, right, said):
    assert fl.run(task_with_targets(y, right, kind=kind), "fedavg", rounds=1).records
    with pytest.raises(FedloomError, match=said):
        fl.run(task_with_targets(y, wrong, kind=kind), "fedavg", rounds=1)


@dataclass(frozen=True)
class Odd:
    """An objective of the user's own: outputs may have any form that it takes."""

    score = "odd"
    wrong: bool = False

    def losses(self, outputs, targets):
        values = outputs.square().mean() if self.wrong else outputs.square().mean(1)
        return values, torch.ones(len(targets))

    scores = losses


def test_an_objective_of_the_users_own_says_which_outputs_fit():
    task = replace(small_task(), model=mlp(classes=3))
    assert fl.run(replace(task, objective=Odd()), "fedavg", rounds=1).records
    with pytest.raises(FedloomError, match=r"the loss Odd gives values as a tensor of shape \(\) for 2 samples"):
        fl.run(replace(task, objective=Odd(wrong=True)), "fedavg", rounds=1)


def test_a_model_or_data_on_another_device_are_refused():
    task = small_task()
    with pytest.raises(FedloomError, match=r"the model of task t is on the device meta .* CPU only"):
        fl.run(replace(task, model=mlp().to("meta")), "fedavg", rounds=1)
    columns = {**task.federation.columns, "x": task.federation.columns["x"].to("meta")}
    with pytest.raises(FedloomError, match=r"the data of task t is on the device meta \('x'\)"):
        fl.run(replace(task, federation=replace(task.federation, columns=columns)), "fedavg", rounds=1)


class LosesItsBatch(nn.Module):
    """A model that vmap cannot take: it asks for a value of its input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 5)

    def forward(self, x):
        return self.layer(x) * (1.0 if float(x.sum()) > 0 else 2.0)


def test_a_model_without_gradients_of_samples_is_refused_where_they_are_clipped():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    task = Task("t", federation([40, 25, 12]), LosesItsBatch())
    with pytest.raises(FedloomError, match="vmap, which cannot take this model"):
        fl.run(task, "fedavg", rounds=2, sample_privacy={"noise": 1.0, "clip": 1.0}, execution="loop")
