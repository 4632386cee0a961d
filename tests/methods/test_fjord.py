"""FjORD: a step trains the network of one random width, and nothing outside it gets a gradient."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedloom as fl
from fedloom.cli.app import main
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.model.architectures import Architectures
from fedloom.core.model.corners import corner_columns
from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.fjord import FjORD, draw_widths, masked_difference, widths_within
from support.synthetic import cohort, distance, federation, mlp, perturb

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
WIDE, NARROW = "mlp:hidden=[16]", "mlp:hidden=[4]"
ONE_STEP = LocalWork(steps=1, batch_size=0, lr=0.5)
NARROW_SEED, WIDE_SEED = 3, 7
"""Runs in which client 0 draws the second and the first of two widths for its first step."""


def of_widths(models, sizes=(33, 9, 50, 20), **how):
    """A task whose clients have some models in turn."""
    names = tuple(f"model {number}" for number in range(len(models)))
    made = how.pop("made", None) or federation(list(sizes), **how)
    owners = torch.arange(made.clients) % len(models)
    return Task("t", made, models[0], architectures=Architectures(tuple(models), names, owners))


def two_widths(**how):
    return of_widths([mlp(hidden=16, **how), mlp(hidden=4, **how)])


def update(task, method, execution="loop", work=ONE_STEP, seed=3, ids=None, start=None):
    """The rows of clients of the widest model after a training, and the widths that they drew."""
    own = task.of_architecture(0)
    row = own.initial_row() if start is None else start
    some = cohort(own, execution, work, ids or [0], seed)
    rows = method.client_update(some, Message({"row": row})).tensors["row"]
    return rows, draw_widths(some, len(widths_within(own)))[:, :, 0]


def digits(**how):
    return fl.task("digits", clients=4, models={WIDE: [0, 1], NARROW: [2, 3]}, seed=1, **how)


def play(task, method="fjord", **settings):
    return fl.run(task, method, seed=2, **{"rounds": 2, "local": WORK, **settings})


# -- what a step is


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_leaves_all_outside_the_drawn_width_as_it_was_to_the_byte(execution):
    task, drawn_widths = two_widths(), set()
    outside = torch.ones(task.layout.width, dtype=torch.bool)
    outside[corner_columns(task.layout, task.of_architecture(1).layout)] = False
    for seed in (NARROW_SEED, WIDE_SEED):
        (row,), drawn = update(task, FjORD(), execution, seed=seed)
        changed = row != task.initial_row()
        assert bool(changed[outside].any()) == (drawn.item() == 0)
        assert bool(changed[~outside].any())
        drawn_widths.add(drawn.item())
    assert drawn_widths == {0, 1}


def test_a_step_of_a_narrow_width_is_that_of_the_narrow_network():
    task, row = two_widths(), perturb(two_widths().initial_row(), 5)
    narrow = task.of_architecture(1)
    columns = corner_columns(task.layout, narrow.layout)
    (trained,), drawn = update(task, FjORD(), seed=NARROW_SEED, start=row)
    alone = cohort(narrow, "loop", ONE_STEP, [0], NARROW_SEED)
    assert drawn.tolist() == [[1]]
    assert distance(trained[columns], alone.train(row[columns].unsqueeze(0))[0]) < 1e-6


def two_products(hidden):
    return nn.Sequential(nn.Linear(1, hidden, bias=False), nn.Linear(hidden, 1, bias=False))


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_step_by_hand(execution):
    # f(x) = b1 a1 x + b2 a2 x of one sample, x = 2 and y = 1, with a = (0.5, 2), b = (3, -1); l = (f - y)^2 / 2
    one = Ragged.of([torch.tensor([0])])
    columns = {"x": torch.tensor([[2.0]]), "y": torch.tensor([[1.0]])}
    task = of_widths([two_products(2), two_products(1)], made=Federation(columns, one, one, Ragged.empty(1), 1))
    task, row = replace(task, objective=SquaredError()), torch.tensor([0.5, 2.0, 3.0, -1.0])
    work = LocalWork(steps=1, batch_size=0, lr=0.1)
    (narrow,), drawn = update(task, FjORD(), execution, work, NARROW_SEED, start=row)
    assert drawn.tolist() == [[1]]
    # f = 3, its error 2: a1 - 0.1 * 2 * b1 x, b1 - 0.1 * 2 * a1 x
    torch.testing.assert_close(narrow, torch.tensor([0.5 - 1.2, 2.0, 3.0 - 0.2, -1.0]))
    (wide,), drawn = update(task, FjORD(), execution, work, WIDE_SEED, start=row)
    assert drawn.tolist() == [[0]]
    # f = 3 - 4, its error -2
    torch.testing.assert_close(wide, torch.tensor([0.5 + 1.2, 2.0 - 0.4, 3.0 + 0.2, -1.0 + 0.8]))


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize(("alpha", "temperature"), [(1.0, 1.0), (0.4, 2.0)])
def test_a_step_of_distillation_is_autograds_on_the_two_networks(execution, alpha, temperature):
    task, start = two_widths(), perturb(two_widths().initial_row(), 5)
    (row,), drawn = update(task, FjORD(alpha, temperature), execution, seed=NARROW_SEED, start=start)
    assert drawn.tolist() == [[1]]
    own, leaf = task.federation.train[0], start.clone().requires_grad_()
    x, y = task.inputs(own), task.targets(own)
    small = task.of_architecture(1)
    corner = small.layout.views(leaf[corner_columns(task.layout, small.layout)])
    student = torch.func.functional_call(small.model, corner, (x,))
    teacher = torch.func.functional_call(task.model, task.layout.views(leaf), (x,))
    divergence = F.kl_div(
        F.log_softmax(student / temperature, 1), F.softmax(teacher.detach() / temperature, 1), reduction="batchmean"
    )
    taught = F.cross_entropy(teacher, y) + temperature**2 * divergence
    ((1 - alpha) * F.cross_entropy(student, y) + alpha * taught).backward()
    torch.testing.assert_close(row, (leaf - 0.5 * leaf.grad).detach(), rtol=0, atol=1e-6)


def test_distillation_changes_no_step_of_the_widest_network():
    (plain,), drawn = update(two_widths(), FjORD(), seed=WIDE_SEED)
    (taught,), _ = update(two_widths(), FjORD(alpha=1.0), seed=WIDE_SEED)
    assert drawn.tolist() == [[0]]
    torch.testing.assert_close(plain, taught, rtol=0, atol=1e-6)


def test_weight_decay_moves_weights_outside_the_drawn_width():
    task = two_widths()
    (row,), _ = update(task, FjORD(), work=replace(ONE_STEP, weight_decay=0.1), seed=NARROW_SEED)
    outside = torch.ones(task.layout.width, dtype=torch.bool)
    outside[corner_columns(task.layout, task.of_architecture(1).layout)] = False
    torch.testing.assert_close(row[outside], (1 - 0.5 * 0.1) * task.initial_row()[outside])


# -- what is drawn


def test_every_width_is_drawn_as_often_and_independently_of_who_trains_beside():
    task, work = two_widths(), LocalWork(steps=3000)
    alone, together = (draw_widths(cohort(task, "loop", work, ids), 3) for ids in ([2], [0, 1, 2, 3]))
    assert torch.equal(alone[0], together[2])
    counts = together.flatten().bincount(minlength=3)
    assert bool(((counts - 4000).abs() < 4 * (12000 * 2 / 9) ** 0.5).all())
    pairs = (together[:, :-1] * 3 + together[:, 1:]).flatten().bincount(minlength=9)  # a step and the next
    assert bool(((pairs / pairs.sum() - 1 / 9).abs() < 0.015).all())
    assert len({tuple(drawn.flatten().tolist()) for drawn in together}) == 4


def test_a_client_draws_the_widths_that_fit_into_its_own():
    sizes = [(8, 8), (8, 4), (4, 8), (4, 4), (4, 4)]
    models = [nn.Sequential(nn.Linear(20, a), nn.ReLU(), nn.Linear(a, b), nn.ReLU(), nn.Linear(b, 5)) for a, b in sizes]
    task = of_widths(models, (9, 9, 9, 9, 9))
    found = [widths_within(own) for own in task.by_architecture]
    assert [len(widths) for widths in found] == [4, 2, 2, 1, 1]  # two models of one width are one width
    assert all(own.layout in widths for own, widths in zip(task.by_architecture, found, strict=True))


def test_the_narrowest_clients_are_those_of_heterofl_to_the_byte():
    task = fl.task("digits", clients=4, models={WIDE: [0], NARROW: [1, 2, 3]}, seed=1)
    one = {"selection": {"number": 1}, "rounds": 1, "local": WORK, "seed": 2}
    found, expected = (fl.run(task, method, **one) for method in ("fjord", "heterofl"))
    assert found.records[-1]["selected"] != [0]
    assert torch.equal(found.row, expected.row)


# -- runs


@pytest.mark.parametrize("method", [FjORD(), FjORD(alpha=1.0, temperature=2.0)], ids=["plain", "distilled"])
@pytest.mark.parametrize("how", [{}, {"momentum": 0.9, "partial": 0.5}, {"optimizer": "adam", "lr": 0.01}])
def test_vectorised_equals_loop_for_unequal_clients_with_dropout(method, how):
    task, work = two_widths(dropout=0.3), LocalWork(**{"epochs": 3, "batch_size": 16, **how})
    loop, stacked = (update(task, method, name, work, ids=[0, 1, 2, 3])[0] for name in ("loop", "vectorised"))
    assert distance(loop, stacked) < 1e-5


@pytest.mark.slow
def test_compiled_equals_loop():
    task, work = two_widths(), LocalWork(epochs=2, batch_size=16)
    loop, compiled = (update(task, FjORD(alpha=1.0), name, work, ids=[0, 1, 2, 3])[0] for name in ("loop", "compiled"))
    assert distance(loop, compiled) < 1e-5


def test_narrow_clients_send_get_and_predict_with_their_corner():
    task = digits()
    widths = {"wide": 64 * 16 + 16 + 160 + 10, "narrow": 64 * 4 + 4 + 40 + 10}
    history = play(task)
    assert history.total("bytes_up") == history.total("bytes_down") == 2 * 2 * 4 * sum(widths.values())
    assert torch.equal(history.model(task, 2)[-1].weight, history.model(task)[-1].weight[:, :4])


def test_narrow_networks_inside_wide_clients_learn_too():
    task = fl.task("digits", clients=3, models={WIDE: [0, 1], NARROW: [2]}, seed=1)
    narrow = task.of_architecture(1)
    columns = corner_columns(task.layout, narrow.layout)
    work, test = LocalWork(epochs=8, batch_size=16, lr=0.1), task.federation.global_test

    def accuracy(row):
        with torch.no_grad():
            outputs = torch.func.functional_call(narrow.model, narrow.layout.views(row[columns]), (task.inputs(test),))
        return float((outputs.argmax(1) == task.targets(test)).float().mean())

    plain = cohort(task.of_architecture(0), "loop", work, [0])
    fedavg = accuracy(plain.train(plain.spread(task.initial_row()))[0])
    (row,), _ = update(task, FjORD(), work=work)
    (taught,), _ = update(task, FjORD(alpha=1.0), work=work)
    assert min(accuracy(row), accuracy(taught)) > fedavg + 0.1


@pytest.mark.parametrize("how", [{"label_share": 0.5}, {"stream": {"tasks": 2, "rounds": 1}}], ids=["labels", "stream"])
def test_distillation_with_missing_labels_and_on_streams(how):
    history = play(digits(**how), "fjord:alpha=1,temperature=2")
    assert bool(history.row.isfinite().all())
    assert history.last("global_model/global_test/accuracy") > 0.12


@pytest.mark.slow
def test_the_same_bytes_with_workers_after_a_stop_and_with_error_feedback(tmp_path):
    class Stop(Exception):  # noqa: N818
        pass

    def stop(record):
        if record["round"] == 2:
            raise Stop

    how = {"rounds": 3, "channel": [{"name": "topk", "fraction": 0.2}], "selection": {"number": 3}}
    expected = play(digits(), "fjord:alpha=0.5", **how).row
    assert torch.equal(play(digits(), "fjord:alpha=0.5", workers=2, out=tmp_path / "workers", **how).row, expected)
    with pytest.raises(Stop):
        play(digits(), "fjord:alpha=0.5", out=tmp_path / "run", observers=[stop], **how)
    assert torch.equal(fl.resume(tmp_path / "run", task=digits()).row, expected)


# -- what is refused


def convolutions(maps):
    layers = [nn.Conv2d(1, maps, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(maps, maps, 3), nn.Sigmoid()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * maps, 5))


def normalised(maps, norm):
    layers = [nn.Conv2d(1, maps, 3, padding=1), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(maps, 5))


class Scaled(nn.Module):
    """A network whose outputs depend on how many units it has, by more than zeros add."""

    def __init__(self, hidden):
        super().__init__()
        self.body, self.head = nn.Linear(20, hidden, bias=False), nn.Linear(hidden, 5, bias=False)

    def forward(self, x):
        return self.head(self.body(x) / self.body.out_features)


def test_a_masked_network_is_the_narrow_one():
    for models, shape in (([mlp(hidden=16), mlp(hidden=4)], (20,)), ([convolutions(6), convolutions(2)], (1, 8, 8))):
        task = of_widths(models, shape=shape)
        assert masked_difference(task, task.of_architecture(1)) < 1e-6


def test_samples_of_zeros_say_nothing_about_a_network():
    """A deployment's server has no others."""

    def unbiased(hidden):
        return nn.Sequential(nn.Linear(20, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, 5, bias=False))

    for models, same in (([unbiased(16), unbiased(4)], True), ([Scaled(16), Scaled(4)], False)):
        task = of_widths(models)
        columns = {name: torch.zeros_like(column) for name, column in task.federation.columns.items()}
        zeros = replace(task, federation=replace(task.federation, columns=columns))
        assert (masked_difference(zeros, zeros.of_architecture(1)) < 1e-6) == same


def test_groups_of_equally_many_maps_keep_widths_apart():
    task = of_widths([normalised(n, nn.GroupNorm(n // 2, n)) for n in (8, 4)], shape=(1, 8, 8))
    FjORD().check(task, LocalWork())


@pytest.mark.parametrize("norm", [lambda n: nn.GroupNorm(2, n), lambda n: nn.LayerNorm([n, 8, 8])])
def test_normalisation_over_all_widths_is_refused(norm):
    task = of_widths([normalised(n, norm(n)) for n in (8, 4)], shape=(1, 8, 8))
    said = r"fjord: model 0 with zeros beyond model 1 is not model 1, .*: use models of linear .* or heterofl\.$"
    with pytest.raises(FedloomError, match=said):
        fl.run(task, "fjord", rounds=1)


def test_running_statistics_are_refused():
    task = of_widths([normalised(n, nn.BatchNorm2d(n)) for n in (8, 4)], shape=(1, 8, 8))
    with pytest.raises(FedloomError, match=r"model 0 keeps statistics \(1.running_mean\).* without BatchNorm"):
        fl.run(task, "fjord", rounds=1)


def test_recurrent_layers_are_refused():
    class Recurrent(nn.Module):
        def __init__(self, hidden):
            super().__init__()
            self.lstm, self.head = nn.LSTM(1, hidden, batch_first=True), nn.Linear(hidden, 5)

        def forward(self, x):
            return self.head(self.lstm(x.unsqueeze(2))[0][:, -1])

    with pytest.raises(FedloomError, match="model 0 with zeros beyond model 1 is not model 1"):
        FjORD().check(of_widths([Recurrent(8), Recurrent(4)]), LocalWork())


def test_a_model_that_is_only_checked_against_narrower_ones_keeps_its_mode_and_weights():
    task = two_widths(dropout=0.3)
    before = task.initial_row()
    FjORD().check(task, LocalWork())
    assert task.model.training
    assert torch.equal(task.initial_row(), before)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("alpha=1.5", "alpha=1.5 in method fjord: it must be at least 0 and at most 1."),
        ("temperature=0", "temperature=0 in method fjord: it must be above 0."),
        ("temperature=inf", "temperature=inf in method fjord: it must be a finite number."),
    ],
)
def test_settings_that_mean_nothing_are_one_sentence(settings, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedloom", "run", "--task", "digits", "--method", f"fjord:{settings}"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == f"error: {said}\n"


def test_distillation_without_classes_is_refused():
    columns = {**federation([9, 9]).columns, "y": torch.randn(18)}
    task = replace(two_widths(), federation=replace(federation([9, 9]), columns=columns))
    with pytest.raises(FedloomError, match=r"alpha=1 distils probabilities of classes.*set alpha = 0\.$"):
        FjORD(alpha=1.0).check(task, LocalWork())
