"""FedHARM: three samples and two clients by hand, its controls, mixed networks, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.model.architectures import Architectures
from fedloom.core.model.stages import stage_names
from fedloom.core.task import Task
from fedloom.methods.fedharm.fedharm import FedHARM
from fedloom.methods.requirements import WITH_STAGES
from fedloom.models import build
from support.checkpoints import WORK as LOCAL
from support.checkpoints import check_executions_and_workers_agree, checkpoint_tensors, final
from support.distillation import conv_task, replies_of
from support.folders import stop_after, written
from support.synthetic import cohort, distance, federation

WORK = {"epochs": 1, "batch_size": 8, "lr": 0.05}
NARROW = {"widths": (8, 8, 8, 8, 8, 16, 16)}


def linear_stage() -> nn.Module:
    """Two numbers, which are the only stage, and two classes: logits ``W f``."""
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 2, bias=False))
    model[1].weight.data = torch.tensor([[2.0, 1.0], [0.0, 0.0]])
    model.stages = ("0",)  # type: ignore[assignment]
    return model


def scaling_stage() -> nn.Module:
    """The same after a layer that multiplies each of the two numbers, so that its stage can be trained."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[0].weight.data, model[1].weight.data = torch.eye(2), torch.tensor([[2.0, 1.0], [0.0, 0.0]])
    model.stages = ("0",)  # type: ignore[assignment]
    return model


def three(model: nn.Module) -> Task:
    """Two clients; the samples (1, 2), (3, -1) and (0, 5) of classes 0, 0 and 1 are communal."""
    made = federation([3, 3], (2,), classes=2)
    columns = {
        "x": torch.cat([torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.0, 5.0]]), made.columns["x"][3:]]),
        "y": torch.cat([torch.tensor([0, 0, 1]), made.columns["y"][3:]]),
    }
    return Task("three", replace(made, columns=columns, communal=torch.arange(3)), model)


def mixed(sizes: tuple[int, ...] = (16, 12, 12)) -> Task:
    """Three clients, two with a residual network of two stages and one with seven inverted residual blocks."""
    made = federation(list(sizes), (1, 8, 8))
    models = (
        build("resnet8", (1, 8, 8), 5, 0, widths=(8, 16)),
        build("mini-efficientnet", (1, 8, 8), 5, 0, **NARROW),
    )
    architectures = Architectures(models, ("resnet8", "mini-efficientnet"), torch.tensor([0, 1, 0]))
    shared = replace(made, communal=torch.arange(0, sum(sizes), 3))
    return Task("mixed", shared, models[0], architectures=architectures)


def test_what_a_client_sends_is_by_hand() -> None:
    """The first entry moves the odds by 2, the second by 1: a descriptor of one entry is the sample's first number."""
    some = cohort(three(linear_stage()), "loop", LocalWork())
    rows = some.spread(some.task.initial_row())
    one = FedHARM(k=1)._collect(some, rows, Message())
    assert one["descriptors"].tolist() == [[[1.0], [3.0], [0.0]]] * 2
    turned = torch.tensor([[1.0, -3.0, 0.0, 0.0]]).expand(2, -1)  # W = ((1, -3), (0, 0)): the second entry counts more
    both = FedHARM(k=2)._collect(some, turned, Message())
    assert both["places"].tolist() == [[[1, 0]] * 3] * 2
    assert both["descriptors"][0].tolist() == [[2.0, 1.0], [-1.0, 3.0], [5.0, 0.0]]


def test_the_server_takes_the_mean_over_clients() -> None:
    first = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.0, 5.0]])
    state = FedHARM().aggregate({}, replies_of({"descriptors": torch.stack([first, -3 * first])}, (0.5, 0.5)))
    assert torch.equal(state["descriptors"], -first)
    assert FedHARM().lesson(state).shared.keys() == {"descriptors"}


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_step_on_the_communal_set_is_the_gradient_of_the_formula(execution: str) -> None:
    task, a, rate = three(scaling_stage()), 0.25, 0.1
    some = cohort(task, execution, LocalWork(batch_size=0, lr=rate))
    goal = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    method = FedHARM(a=a, k=2)
    rows = method.distil(some, some.spread(task.initial_row()), Message({"descriptors": goal}))
    x, y = task.inputs(torch.arange(3)), task.targets(torch.arange(3))
    model = scaling_stage()
    found = model[0](x)  # the first entry moves the odds more, so the order stays
    cosines = torch.stack([found[i] @ goal[i] / (found[i].norm() * goal[i].norm()) for i in range(3)])
    loss = (a * nn.functional.cross_entropy(model(x), y, reduction="none") + (1 - a) * (1 - cosines)).mean()
    gradients = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    assert torch.allclose(rows, (task.initial_row() - rate * gradients).expand(2, -1), atol=1e-6)


def test_entries_are_picked_again_in_every_epoch() -> None:
    """Two epochs are one, and another one whose entries are those of the network that the first has left."""
    task, method = conv_task(), FedHARM(k=2, epochs=2)
    goal = Message({"descriptors": torch.ones(len(task.federation.communal), 6)})
    both, apart = (cohort(task, "loop", LocalWork(batch_size=0, lr=0.5)) for _ in range(2))
    start = both.spread(task.initial_row())
    once = replace(method, epochs=1)
    middle = once.distil(apart, start, goal)
    picked = [method._collect(apart, rows, goal)["places"] for rows in (start, middle)]
    assert not torch.equal(*picked)
    assert torch.equal(method.distil(both, start, goal), once.distil(apart, middle, goal))


def test_without_alignment_it_is_local_training_and_then_the_task_on_the_communal_set(tmp_path) -> None:
    """To the byte; the second wave has batches of its own."""
    task = conv_task()
    found = final(tmp_path, FedHARM(a=1.0, epochs=3), task, rounds=1, execution="loop")
    first, second = (cohort(task, "loop", LocalWork(**LOCAL)) for _ in range(2))
    second.turn = 1
    rows = first.train(first.spread(task.initial_row()))
    rows = second.train(rows, work=LocalWork(**{**LOCAL, "epochs": 3}), on=task.federation.communal)
    assert torch.equal(found.client_states.rows["row"], rows)


def test_nothing_travels_without_alignment_and_descriptors_with_it() -> None:
    """Three clients, 14 communal samples, 2 + 4 numbers of four bytes, up and down."""
    task = conv_task()
    samples = len(task.federation.communal)
    silent = fl.run(task, FedHARM(a=1.0), rounds=1, local=WORK, eval_every=0).records[-1]
    assert silent["bytes_up"] == silent["bytes_down"] == 0
    spoken = fl.run(task, FedHARM(k=2), rounds=1, local=WORK, eval_every=0).records[-1]
    assert spoken["bytes_up"] == spoken["bytes_down"] == 3 * samples * (2 + 4) * 4


@pytest.mark.parametrize("settings", [{"k": 4}, {"descriptor": "maps"}, {"descriptor": "pool", "k": (8,)}])
def test_loop_and_vectorised_agree(settings, tmp_path) -> None:
    rows = []
    for execution in ("loop", "vectorised"):
        fl.run(
            conv_task(), FedHARM(**settings), rounds=2, local=WORK, eval_every=0, execution=execution,
            out=tmp_path / execution,
        )  # fmt: skip
        rows.append(checkpoint_tensors(tmp_path / execution, "kept")["row"])
    assert distance(*rows) < 1e-4


def test_clients_with_the_same_network_and_data_agree_already() -> None:
    """Their mean descriptor is their own, so the cosine term is zero and a weight of it changes nothing but CE's."""
    task = conv_task()
    some = cohort(task, "loop", LocalWork(batch_size=0, lr=0.1))
    rows = some.spread(task.initial_row())
    own = FedHARM(k=4)._collect(some, rows, Message())["descriptors"][0]
    moved = FedHARM(k=4, a=0.0).distil(some, rows, Message({"descriptors": own}))
    assert float((moved - rows).abs().max()) < 1e-5


@pytest.mark.parametrize("align", ["last", {"mini-efficientnet": (2, 7)}])
def test_mixed_networks_learn_from_each_other(align) -> None:
    history = fl.run(mixed(), FedHARM(align=align, k=4), rounds=1, local=WORK)
    assert math.isfinite(history.records[-1]["metrics"]["client_model/own_test/accuracy/mean"])
    width = 4 if align == "last" else 4 + 8
    assert history.records[-1]["bytes_up"] == 3 * len(mixed().federation.communal) * width * 4


@pytest.mark.slow
def test_blocks_that_the_server_aligned_are_resumed_to_the_byte(tmp_path) -> None:
    method = FedHARM(align="kl", k=4, align_epochs=1)
    settings = {"rounds": 2, "local": WORK, "eval_every": 2}
    fl.run(mixed(), method, out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        fl.run(mixed(), method, out=tmp_path / "cut", observers=[stop_after(1)], **settings)
    fl.resume(tmp_path / "cut", task=mixed(), method=method)
    assert written(tmp_path / "whole") == written(tmp_path / "cut")
    blocks = checkpoint_tensors(tmp_path / "whole")["server/blocks"].tolist()
    assert blocks[0] == [1, 2]
    assert 1 <= blocks[1][0] < blocks[1][1] <= 7


@pytest.mark.slow
def test_executions_and_workers_agree(tmp_path) -> None:
    check_executions_and_workers_agree(tmp_path, FedHARM(k=4), conv_task())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"a": 1.5}, "a=1.5: it must be at least 0 and at most 1"),
        ({"k": 0}, "k=0: it must be at least 1"),
        ({"k": ()}, r"k=\(\): it must have at least 1 entry"),
        ({"epochs": 0}, "epochs=0: it must be at least 1"),
        ({"bins": 1}, "bins=1: it must be at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message) -> None:
    with pytest.raises(FedloomError, match=message):
        FedHARM(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"different numbers of them \(resnet8 2, mini-efficientnet 7\): use align = kl"),
        ({"align": {"mini-efficientnet": (7, 2)}}, "give increasing numbers from 1 to 7"),
        ({"align": {"mini-mobilenet": (1, 2)}}, "align names mini-mobilenet, but the networks are resnet8"),
        ({"align": "last", "k": 4000}, "k takes 4000 entries of a block's map, but a map of resnet8 has 256"),
        ({"align": "last", "k": (2, 4)}, r"k=\[2, 4\] is for 2 blocks, but 1 are aligned"),
        ({"align": "last", "descriptor": "maps"}, "different shapes: use descriptor = gradient"),
        ({"align": "last", "descriptor": "pool", "k": 999}, "crops 999 numbers .* the last map of resnet8 has 64"),
    ],
)
def test_networks_that_cannot_be_compared_are_refused(settings, message) -> None:
    with pytest.raises(FedloomError, match=message):
        FedHARM(**settings).check(mixed(), LocalWork())


def test_any_block_that_may_become_the_last_must_be_as_wide_as_the_crop() -> None:
    made = mixed()
    models = (made.model, build("mini-efficientnet", (1, 8, 8), 5, 0, widths=(8, 8, 8, 8, 8, 16, 64)))
    assert made.architectures is not None
    task = replace(made, architectures=replace(made.architectures, models=models))
    FedHARM(align="last", descriptor="pool", k=(24,)).check(task, LocalWork())
    with pytest.raises(FedloomError, match=r"crops 24 numbers .* the last map of mini-efficientnet has 8"):
        FedHARM(align="kl", descriptor="pool", k=(24,)).check(task, LocalWork())


def test_what_the_task_lacks_is_refused() -> None:
    task = conv_task()
    bare = replace(task, federation=replace(task.federation, communal=torch.tensor([], dtype=torch.int64)))
    with pytest.raises(FedloomError, match=r"fedharm needs samples .* set task.communal"):
        FedHARM().check(bare, LocalWork())
    unlabelled = replace(task, federation=replace(task.federation, communal_labelled=False))
    with pytest.raises(FedloomError, match="fedharm needs the classes of the communal samples"):
        FedHARM().check(unlabelled, LocalWork())
    plain = replace(task, model=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    with pytest.raises(FedloomError, match="stages of a model, and Sequential names none: use --model resnet8"):
        FedHARM().check(plain, LocalWork())
    FedHARM(a=1.0).check(plain, LocalWork())


def test_the_largest_k_that_a_network_takes_is_named_and_taken() -> None:
    """The thesis's 128, 256, 512 and 1,024 are more than the maps of small images have."""
    task = fl.task("digits", clients=3, model="resnet8", communal=0.1)
    with pytest.raises(FedloomError, match=r"at most 64 \(fedharm:k=64\)\.$"):
        FedHARM().check(task, LocalWork())
    FedHARM(k=64).check(task, LocalWork())


@pytest.mark.parametrize("name", WITH_STAGES)
def test_the_models_that_a_refusal_names_have_stages(name: str) -> None:
    assert len(stage_names(build(name, (1, 8, 8), 10, 0))) >= 3


def test_looking_at_the_shapes_of_maps_leaves_the_networks_as_they_are() -> None:
    """In training mode a forward pass would move the running statistics, with which every client starts."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 5))
    model.stages = ("1",)  # type: ignore[assignment]
    task = replace(conv_task(), model=model)
    before = task.initial_row().clone()
    FedHARM(k=2).check(task, LocalWork())
    assert torch.equal(task.initial_row(), before)
    assert model.training
