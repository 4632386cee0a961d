"""A model with added modules: its outputs, parts, stages and weights are the model's own."""

from __future__ import annotations

import torch
from torch import nn

from fedloom.core.model.adapted_model import AdaptedModel, add_modules, model_row, without_added_modules
from fedloom.core.task import Task
from support.synthetic import Branching, federation, mlp, perturb, small_task


def adapted_task() -> Task:
    return add_modules(small_task(), lambda: {"projection": nn.Linear(16, 3)})


def with_buffers() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))


def test_outputs_features_and_parts_are_the_models_own():
    task, adapted, x = small_task(), adapted_task(), torch.randn(3, 20)
    assert torch.equal(adapted.model(x), task.model(x))
    assert adapted.model.features(x).shape == (3, 16)
    sizes = {part: int(adapted.layout.columns(part).sum()) for part in adapted.layout.parts}
    own = {part: int(task.layout.columns(part).sum()) for part in task.layout.parts}
    assert sizes == {**own, "projection": 16 * 3 + 3}


def test_what_a_model_declares_is_still_found():
    model = mlp()
    model.stages, model.output = ("1", "4"), "logits"
    adapted = AdaptedModel(model, {"extra": nn.Linear(2, 2)})
    assert adapted.stages == ("model.1", "model.4")
    assert adapted.output == "logits"
    assert not hasattr(AdaptedModel(mlp(), {}), "stages")
    assert adapted.get_submodule(adapted.stages[0]) is model[1]


def test_the_row_of_the_model_alone_is_found_in_the_adapted_row():
    for model in (mlp(), Branching(), with_buffers()):
        task = Task("t", federation([9]), model)
        adapted = add_modules(task, lambda: {"projection": nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))})
        assert torch.equal(model_row(adapted, adapted.initial_row()), task.initial_row())
        other = perturb(adapted.initial_row(), 1)
        found = model_row(adapted, other)
        assert len(found) == task.layout.width
        last = task.layout.slots[-1].name
        assert torch.equal(task.layout.views(found)[last], adapted.layout.views(other)[f"model.{last}"])
        assert without_added_modules(adapted).model is model
    plain, row = small_task(), small_task().initial_row()
    assert model_row(plain, row) is row
    assert without_added_modules(plain) is plain


def test_added_weights_depend_on_the_models_weights_and_on_nothing_else():
    torch.manual_seed(1)
    one = adapted_task().initial_row()
    torch.manual_seed(2)
    assert torch.equal(one, adapted_task().initial_row())
    other = small_task()
    with torch.no_grad():
        other.model[1].bias += 1
    changed = add_modules(other, lambda: {"projection": nn.Linear(16, 3)})
    here, there = (task.layout.take(task.initial_row(), "projection") for task in (adapted_task(), changed))
    assert not torch.equal(here, there)
