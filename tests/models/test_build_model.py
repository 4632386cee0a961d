"""Models: the specs' parameter counts, what goes in and comes out, and where initial weights come from."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.models import KINDS, MODELS, build, default_for

FITTING: dict[str, tuple[Any, int]] = {
    "logistic": ((1, 8, 8), 10),
    "mlp": ((64,), 10),
    "cnn": ((3, 32, 32), 10),
    "cnn-small": ((1, 8, 8), 10),
    "lenet": ((3, 32, 32), 10),
    "lenet-small": ((1, 28, 28), 10),
    "cnn-two": ((3, 32, 32), 10),
    "emnist-cnn": ((1, 28, 28), 62),
    "resnet-small": ((3, 32, 32), 10),
    "resnet8": ((1, 8, 8), 10),
    "resnet14": ((1, 8, 8), 10),
    "resnet20": ((3, 8, 8), 10),
    "mini-mobilenet": ((3, 16, 16), 10),
    "mini-efficientnet": ((3, 16, 16), 10),
    "conv1d": ((9, 128), 6),
    "char-lstm": ((80,), 80),
    "word-lstm": ((20,), 50),
    "tagger": ((20,), 12),
    "bag-of-words": ((20,), 12),
    "sequence-conv": ((4, 20), 3),
    "sequence-lstm": ((4, 20), 3),
    "late-fusion": ({"accelerometer": (6, 128), "gyroscope": (3, 128), "age": (1,)}, 6),
}


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def batch(name: str, shape: Any, classes: int, samples: int = 4) -> tuple[Any, Tensor]:
    source = torch.Generator().manual_seed(0)
    if name in ("word-lstm", "tagger"):
        x = torch.randint(classes, (samples, *shape), generator=source)
        return x, torch.randint(classes, (samples, *shape), generator=source)
    y = torch.randint(classes, (samples,), generator=source)
    if name in ("char-lstm", "bag-of-words"):
        return torch.randint(classes, (samples, *shape), generator=source), y
    if isinstance(shape, dict):
        return {column: torch.randn(samples, *one, generator=source) for column, one in shape.items()}, y
    return torch.randn(samples, *shape, generator=source), y


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "count"),
    [
        ("logistic", (1, 28, 28), 10, {}, 7_850),
        ("mlp", (1, 28, 28), 10, {"hidden": (200, 200)}, 199_210),
        ("mlp", (64,), 10, {"hidden": 32}, 2_410),
        ("cnn", (3, 32, 32), 10, {}, 3_491_530),
        ("lenet", (3, 32, 32), 10, {}, 797_962),
        ("lenet", (3, 32, 32), 100, {}, 815_332),
        ("lenet-small", (1, 28, 28), 10, {}, 61_706),
        ("cnn-two", (3, 32, 32), 10, {}, 69_706),
        ("cnn-two", (3, 32, 32), 43, {}, 122_539),
        ("emnist-cnn", (1, 28, 28), 62, {}, 1_206_590),
        ("resnet-small", (3, 32, 32), 10, {}, 77_850),
        ("resnet8", (3, 32, 32), 10, {}, 77_850),
        ("resnet14", (3, 32, 32), 10, {}, 175_066),
        ("resnet20", (3, 32, 32), 10, {}, 272_282),
        ("mini-mobilenet", (3, 32, 32), 10, {}, 64_452),
        ("mini-efficientnet", (3, 32, 32), 10, {}, 48_482),
        ("char-lstm", (80,), 80, {}, 133_520),
        ("word-lstm", (20,), 10_004, {}, 4_053_428),
        ("late-fusion", {"accelerometer": (6, 128), "gyroscope": (3, 128)}, 6, {}, 45_030),
    ],
)
def test_parameter_counts_are_those_of_the_studies(
    name: str, shape: Any, classes: int, options: dict[str, object], count: int
) -> None:
    assert size(build(name, shape, classes, 0, **options)) == count


def test_the_layers_of_the_cifar_cnn_are_those_of_the_study() -> None:
    layers = list(build("cnn", (3, 32, 32), 10, 0))
    assert [x.out_channels for x in layers if isinstance(x, nn.Conv2d)] == [32, 64, 128, 128, 256, 256]
    linears = [(x.in_features, x.out_features) for x in layers if isinstance(x, nn.Linear)]
    assert linears == [(4096, 512), (512, 512), (512, 10)]
    assert [x.p for x in layers if isinstance(x, nn.Dropout)] == [0.05, 0.1, 0.1]


def test_every_model_is_tried_here() -> None:
    assert set(FITTING) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_logits_and_gradients_reach_every_parameter(name: str) -> None:
    shape, classes = FITTING[name]
    model = build(name, shape, classes, 0).eval()
    x, y = batch(name, shape, classes)
    out = model(x)
    assert out.shape == (*y.shape, classes)
    F.cross_entropy(out.flatten(0, -2), y.flatten()).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_training_lowers_the_loss(name: str) -> None:
    shape, classes = FITTING[name]
    model = build(name, shape, classes, 0)
    x, y = batch(name, shape, classes)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(8):
        loss = F.cross_entropy(model.eval()(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", ["cnn-small", "resnet-small", "resnet14", "mini-mobilenet", "mini-efficientnet"])
def test_small_image_models_adapt_to_the_image(name: str, shape: tuple[int, ...]) -> None:
    assert build(name, shape, 7, 0)(torch.zeros(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize(
    "name", [name for name, kind in MODELS.items() if kind.fits((1, 32, 32)) and not kind.fits((1,))] + ["conv1d"]
)
def test_the_smallest_input_a_model_says_it_takes_does_fit(name: str) -> None:
    kind = MODELS[name]
    shapes = [(1, side, side) if name != "conv1d" else (1, side) for side in range(1, 33)]
    smallest = next(shape for shape in shapes if kind.fits(shape))
    assert build(name, smallest, 3, 0)(torch.zeros(2, *smallest)).shape == (2, 3)


def test_the_same_seed_gives_the_same_weights_and_leaves_torch_alone() -> None:
    before = torch.random.get_rng_state()
    a, b, c = (build("cnn-small", (1, 8, 8), 10, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not torch.equal(a["head.weight"], c["head.weight"])


def test_the_word_model_declares_both_factors_of_its_output_as_head() -> None:
    from fedloom.core.layout import Layout

    layout = Layout.of(build("word-lstm", (20,), 50, 0))
    heads = {slot.name.split(".")[0] for slot in layout.slots if slot.part == "head"}
    assert heads == {"projection", "output"}


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"word-lstm"}))
def test_the_default_head_of_other_models_is_their_last_layer(name: str) -> None:
    from fedloom.core.layout import Layout

    layout = Layout.of(build(name, *FITTING[name], seed=0))
    assert [slot.name for slot in layout.slots if slot.part == "head"] == ["head.weight", "head.bias"]


STAGES = {
    "resnet-small": (8, 16),
    "resnet8": (8, 16),
    "resnet14": (8, 16),
    "resnet20": (8, 16),
    "mini-mobilenet": (8, 8, 8, 8, 8, 8, 16),
    "mini-efficientnet": (8, 8, 8, 8, 8, 16, 16),
}
"""The models that name their stages, with the widths that they have here."""


def test_the_models_that_name_their_stages_are_tried_here() -> None:
    assert set(STAGES) == {name for name in MODELS if hasattr(build(name, *FITTING[name], seed=0), "stages")}


@pytest.mark.parametrize("name", STAGES)
def test_a_model_with_stages_has_them_in_order_and_trains_the_same_in_a_loop_and_vectorised(name: str) -> None:
    from fedloom.core.local_work import LocalWork
    from fedloom.core.task import Task
    from support.synthetic import distance, federation, train_all

    model: Any = build(name, (1, 16, 16), 5, 0, widths=STAGES[name])
    names = [found for found, _ in model.named_modules()]
    assert [names.index(stage) for stage in model.stages] == sorted(names.index(stage) for stage in model.stages)
    assert len(model.stages) == len(STAGES[name])
    task = Task("t", federation([12, 8], (1, 16, 16)), model)
    work = LocalWork(steps=3, batch_size=4, lr=0.05)
    loop, vectorised = (train_all(task, execution, work) for execution in ("loop", "vectorised"))
    assert distance(loop, vectorised) < 1e-5
    assert float((loop - task.initial_row()).norm()) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("name", ["char-lstm", "word-lstm"])
def test_an_lstm_trains_the_same_alone_and_vectorised_over_clients(
    name: str, dtype: torch.dtype, tolerance: float
) -> None:
    """At a rate where training is stable: at rate 1 this batch is learnt by heart and rounding grows 10^7-fold."""
    shape, classes, rate = (12,), 30, 0.1
    alone = [build(name, shape, classes, seed, hidden=24).to(dtype) for seed in range(3)]
    frame = build(name, shape, classes, 99, hidden=24).to(dtype)
    start = [dict(model.named_parameters()) for model in alone]
    stacks = {n: torch.stack([p[n].detach() for p in start]).requires_grad_() for n in start[0]}
    x, y = batch(name, shape, classes, samples=6)
    together = torch.func.vmap(lambda p: torch.func.functional_call(frame, p, (x,)))
    for _ in range(50):
        loss = torch.stack([F.cross_entropy(out.flatten(0, -2), y.flatten()) for out in together(stacks)]).sum()
        for stack, gradient in zip(stacks.values(), torch.autograd.grad(loss, list(stacks.values())), strict=True):
            stack.data.sub_(gradient, alpha=rate)
        for model in alone:
            tensors = list(model.parameters())
            gradients = torch.autograd.grad(F.cross_entropy(model(x).flatten(0, -2), y.flatten()), tensors)
            for tensor, gradient in zip(tensors, gradients, strict=True):
                tensor.data.sub_(gradient, alpha=rate)
    rows = torch.cat([stack.detach().flatten(1) for stack in stacks.values()], 1)
    for row, model in zip(rows, alone, strict=True):
        expected = nn.utils.parameters_to_vector(model.parameters()).detach()
        assert (row - expected).norm() <= tolerance * expected.norm()


def test_a_model_that_does_not_fit_says_which_ones_do() -> None:
    with pytest.raises(
        FedloomError, match=r"model 'lenet' takes images .*shape \(1, 8, 8\): models that fit are .*mlp"
    ):
        build("lenet", (1, 8, 8), 10, 0)


def test_an_unknown_model_is_met_with_a_suggestion() -> None:
    with pytest.raises(FedloomError, match="Did you mean 'lenet'"):
        build("lent", (3, 32, 32), 10, 0)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(FedloomError, match="no option 'hiden': it has hidden"):
        build("mlp", (64,), 10, 0, hiden=3)


def test_a_model_without_outputs_is_refused() -> None:
    with pytest.raises(FedloomError, match="classes=0"):
        build("mlp", (64,), 0, 0)


def test_every_kind_of_data_has_a_default_that_builds() -> None:
    shapes = {"table": (64,), "image": (1, 8, 8), "signal": (9, 128), "characters": (80,), "words": (20,)}
    assert set(shapes) == set(KINDS)
    for kind, shape in shapes.items():
        build(default_for(shape, 10, kind), shape, 10, 0)
    assert default_for((1, 28, 28), 10, "image") == "lenet-small"
    assert default_for((1, 28, 28), 62, "image") == "emnist-cnn"
    assert default_for((3, 32, 32), 10, "image") == "lenet"


def test_every_model_is_described_in_one_line() -> None:
    assert all(0 < len(kind.about) <= 110 and kind.about.endswith((".", ")")) for kind in MODELS.values())
