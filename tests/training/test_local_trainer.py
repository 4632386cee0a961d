"""Local training: two executions that agree, and each client as if it were alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.models import build
from fedloom.training.keyed_dropout import with_keyed_dropout
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import Branching, cohort, decorrelation, distance, federation, mlp, mlp_features, train_all

UNEQUAL = [100, 70, 64, 33, 7, 5]
WORKS = {
    "sgd": LocalWork(epochs=3, batch_size=16),
    "decay": LocalWork(epochs=3, batch_size=16, weight_decay=0.01),
    "nesterov": LocalWork(epochs=2, batch_size=16, momentum=0.9, nesterov=True, weight_decay=0.01, clip=1.0),
    "adam": LocalWork(epochs=2, batch_size=16, optimizer="adam", lr=0.01),
    "steps, whole data": LocalWork(steps=7, batch_size=0),
    "stragglers": LocalWork(epochs=4, batch_size=8, partial=0.8),
}
MODELS = {"chain": lambda: mlp(dropout=0.3), "branching": Branching}


def pull(rows, received):
    return 0.1 * (rows - received)


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.slow
def test_vectorised_equals_loop_for_unequal_clients_with_dropout(model, work):
    task = Task("t", federation(UNEQUAL), model())
    assert distance(train_all(task, "loop", work), train_all(task, "vectorised", work)) < 1e-5
    pulled = [train_all(task, execution, work, pull=pull) for execution in ("loop", "vectorised")]
    assert distance(*pulled) < 1e-5


FIFTY = {
    "mlp": (lambda: mlp(), (20,), 0),
    "cnn": (lambda: build("cnn-small", (1, 12, 12), 5, 0), (1, 12, 12), 0),
    "lstm": (lambda: build("char-lstm", (12,), 5, 0), (12,), 5),
}


@pytest.mark.parametrize("case", FIFTY.values(), ids=FIFTY)
@pytest.mark.slow
def test_vectorised_equals_loop_after_fifty_steps(case):
    make, shape, tokens = case
    task = Task("t", federation([40, 30, 25], shape, tokens=tokens), make())
    work = LocalWork(steps=50, batch_size=8, lr=0.05)
    loop, vectorised = (train_all(task, execution, work) for execution in ("loop", "vectorised"))
    assert distance(loop, vectorised) < 1e-5
    assert float((loop - task.initial_row()).norm()) > 0.01


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_client_trains_beside_others_as_it_would_alone(execution):
    task = Task("t", federation(UNEQUAL), mlp(dropout=0.3))
    work = LocalWork(epochs=2, batch_size=16)
    together = train_all(task, execution, work)
    for client in range(len(UNEQUAL)):
        assert distance(together[client : client + 1], train_all(task, execution, work, ids=[client])) < 1e-5


def test_the_loop_is_bare_torch():
    task = Task("t", federation([40]), mlp())
    work = LocalWork(epochs=2, batch_size=16, lr=0.1, momentum=0.9, weight_decay=0.01)
    row = train_all(task, "loop", work)[0]
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    from fedloom.training.batches import Assignment

    for positions in Assignment.of(0, task.federation.train[0], work, 3, 1):
        optimizer.zero_grad()
        F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
        optimizer.step()
    assert torch.allclose(row, task.layout.row(model), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("work", [WORKS["decay"], WORKS["adam"]], ids=["sgd", "adam"])
def test_columns_that_may_not_move_stay_to_the_byte(execution, work):
    task = Task("t", federation(UNEQUAL), mlp())
    rows = train_all(task, execution, work, part="head")
    body = task.layout.columns("body")
    assert torch.equal(rows[:, body], task.initial_row().expand(len(rows), -1)[:, body])
    assert bool((rows[:, ~body] != task.initial_row()[~body]).any(1).all())


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_pull_is_the_gradient_of_its_penalty(execution):
    """One full-batch step with the pull of FedProx from elsewhere equals a step on the penalised loss."""
    task = Task("t", federation([30]), mlp())
    work = LocalWork(steps=1, batch_size=0, lr=0.1)
    elsewhere = task.initial_row() + 0.1
    some = cohort(task, execution, work)

    def towards(rows, received, home):  # noqa: ARG001
        return 2.0 * (rows - home)

    row = some.train(some.spread(task.initial_row()), pull=towards, given={"home": elsewhere.expand(1, -1)})[0]
    plain = train_all(task, execution, work)[0]
    expected = plain - 0.1 * 2.0 * (task.initial_row() - elsewhere)
    assert torch.allclose(row, expected, atol=1e-6)


def test_a_method_may_bring_its_own_loss():
    def drift(net, x, y, given):
        apart = (net.features(x) - net.at(given["home"]).features(x)).square().sum(-1)
        return F.cross_entropy(net(x), y, reduction="none") + apart, torch.ones(len(x))

    task = Task("t", federation(UNEQUAL), Branching())
    work = LocalWork(epochs=2, batch_size=16)
    home = {"home": task.initial_row().expand(len(UNEQUAL), -1) + 0.1}
    loop, vectorised = (
        train_all(task, execution, work, loss=drift, given=home) for execution in ("loop", "vectorised")
    )
    assert distance(loop, vectorised) < 1e-5
    assert distance(loop, train_all(task, "loop", work)) > 1e-3


def test_batch_norm_is_trained_in_the_loop_and_its_statistics_move():
    model = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    task = Task("t", federation([32]), model)
    row = train_all(task, "loop", LocalWork(batch_size=16))[0]
    assert not torch.equal(task.layout.views(row)["1.running_mean"], torch.zeros(8))


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_augmentation_draws_from_the_clients_own_generator(execution):
    def jitter(x, generator):
        return x + torch.randn(x.shape, generator=generator)

    plain = Task("t", federation([33, 20, 9]), mlp())
    noisy = Task("t", plain.federation, mlp(), augment=jitter)
    work = LocalWork(epochs=2, batch_size=16)
    rows = train_all(noisy, execution, work)
    assert distance(rows, train_all(noisy, "loop", work)) < 1e-5
    assert distance(rows[1:2], train_all(noisy, execution, work, ids=[1])) < 1e-5
    assert distance(rows, train_all(plain, execution, work)) > 1e-3


def test_no_steps_leave_the_rows_as_they_are():
    task = Task("t", federation([8, 8]), mlp())
    assert torch.equal(train_all(task, "vectorised", LocalWork(steps=0)), task.initial_row().expand(2, -1))


FROZEN = {
    "weight of a chain": (lambda: mlp(dropout=0.2), ("1.weight",)),
    "bias of a chain": (lambda: mlp(dropout=0.2), ("1.bias",)),
    "layer of a chain": (lambda: mlp(dropout=0.2), ("1.weight", "1.bias")),
    "head of a chain": (mlp, ("4.weight", "4.bias")),
    "layer of a branch": (Branching, ("left.weight", "left.bias")),
}


@pytest.mark.parametrize("work", [WORKS["decay"], WORKS["adam"]], ids=["sgd", "adam"])
@pytest.mark.parametrize("case", FROZEN.values(), ids=FROZEN)
def test_what_is_frozen_is_a_constant_of_every_execution(case, work):
    build_model, frozen = case
    model = build_model()
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    task = Task("t", federation([20, 9, 33]), model)
    assert not {slot.name for slot in task.layout.slots} & set(frozen)
    trained = [train_all(task, execution, work) for execution in ("loop", "vectorised")]
    assert distance(*trained) < 1e-5
    assert not torch.equal(trained[0][0], task.initial_row())
    some = cohort(task, "vectorised", work)
    outputs = [LocalTrainer(task, e).outputs(trained[0], task.inputs(torch.arange(6))) for e in ("loop", "vectorised")]
    assert distance(*outputs) < 1e-5
    for name in frozen:
        assert torch.equal(some.trainer.model.get_parameter(name), model.get_parameter(name))


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_parameter_that_takes_no_part_does_not_move(execution):
    class Spare(Branching):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(3, 3)

    task = Task("t", federation([20, 9]), Spare())
    task.model.parts = {"head": ["head"]}
    rows = train_all(task, execution, LocalWork(batch_size=8))
    assert torch.equal(task.layout.views(rows)["spare.weight"], task.model.spare.weight.expand(2, -1, -1))


def repeated_layers():
    square, relu = nn.Linear(20, 20), nn.ReLU()
    return nn.Sequential(square, relu, square, relu, nn.Linear(20, 5))


def tied_weights():
    first, second = nn.Linear(20, 20), nn.Linear(20, 20)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second, nn.Linear(20, 5))


def one_relu_twice():
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(20, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 5))


@pytest.mark.parametrize("model", [repeated_layers, tied_weights, one_relu_twice])
def test_layers_used_twice_and_tied_weights_train_alike_in_both_executions(model):
    task = Task("t", federation([33, 20, 9]), model())
    work = LocalWork(epochs=3, batch_size=8)
    assert distance(train_all(task, "loop", work), train_all(task, "vectorised", work)) < 1e-5


class Residual(nn.Module):
    """Two parameters that are added: autograd gives both the very same gradient tensor."""

    def __init__(self):
        super().__init__()
        self.base, self.delta = nn.Parameter(torch.full((5, 20), 0.1)), nn.Parameter(torch.zeros(5, 20))

    def forward(self, x):
        return F.linear(x, self.base + self.delta)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("how", [{"weight_decay": 0.1}, {"momentum": 0.9, "nesterov": True}], ids=["decay", "nesterov"])
def test_parameters_that_share_a_gradient_step_as_torch_does(execution, how):
    task = Task("t", federation([30]), Residual())
    row = train_all(task, execution, LocalWork(steps=1, batch_size=0, lr=0.1, **how))[0]
    model = Residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **how)
    positions = task.federation.train[0]
    F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
    optimizer.step()
    assert torch.allclose(row, task.layout.row(model), atol=1e-6)


class Indexed(nn.Module):
    """A model with integer and boolean buffers, which have no mean."""

    def __init__(self):
        super().__init__()
        self.register_buffer("ids", torch.arange(19, -1, -1))
        self.register_buffer("mask", torch.arange(20) % 2 == 0)
        self.layer = nn.Linear(20, 5)

    def forward(self, x):
        return self.layer(torch.where(self.mask, x, 0.0)[..., self.ids])


def test_integer_buffers_are_the_models_own_in_both_executions():
    task = Task("t", federation([30, 20, 9]), Indexed())
    work = LocalWork(epochs=2, batch_size=8)
    assert task.layout.width == 105
    assert distance(train_all(task, "loop", work), train_all(task, "vectorised", work)) < 1e-5


class Twice(Branching):
    def forward(self, x):
        return self.head(self.drop(self.drop(self.features(x))))


def test_a_dropout_layer_used_twice_drops_other_units_the_second_time():
    task = Task("t", federation([30, 20, 9]), Twice())
    work = LocalWork(epochs=2, batch_size=8)
    assert distance(train_all(task, "loop", work), train_all(task, "vectorised", work)) < 1e-5
    model = with_keyed_dropout(Twice()).train()
    x = torch.ones(50, 8)
    assert not torch.equal(model.drop(x), model.drop(x))


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_pull_takes_one_number_per_client(execution):
    task = Task("t", federation([30, 20, 9]), mlp())
    work = LocalWork(epochs=2, batch_size=8)

    def pull(rows, received, mu):
        return mu * (rows - received)

    numbers = {"mu": torch.tensor([[0.0], [1.0], [0.0]])}
    rows, plain = train_all(task, execution, work, pull=pull, given=numbers), train_all(task, execution, work)
    assert distance(rows[[0, 2]], plain[[0, 2]]) < 1e-6
    assert distance(rows[1], plain[1]) > 1e-3


def test_a_last_batch_of_one_that_batch_norm_cannot_take_is_told_with_the_client():
    model = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
    task = Task("t", federation([32, 17]), model)
    with pytest.raises(
        FedloomError, match="last batch of client 1, which has 17 samples, leaves a single sample"
    ) as why:
        train_all(task, "loop", LocalWork(batch_size=16))
    assert "but BatchNorm1d needs two" in str(why.value)


def test_batch_norm_is_not_blamed_for_a_model_without_it():
    task = Task("t", federation([1]), nn.Sequential(nn.Linear(20, 8), nn.GroupNorm(8, 8), nn.Linear(8, 5)))
    with pytest.raises(ValueError, match="more than 1 value per channel") as why:
        train_all(task, "loop", LocalWork(batch_size=16))
    assert not isinstance(why.value, FedloomError)


@pytest.mark.parametrize("model", [lambda: mlp(dropout=0.3), Branching], ids=["chain", "branching"])
def test_a_loss_of_the_batch_leaves_padding_out_in_both_executions(model):
    task, work = Task("t", federation([31, 29, 12, 5]), model()), LocalWork(epochs=2, batch_size=16)
    given = {"margins": torch.linspace(0, 3, 20).view(4, 5)}
    loop, stacked = (train_all(task, how, work, loss=decorrelation, given=given) for how in ("loop", "vectorised"))
    assert distance(loop, stacked) < 1e-5

    def blind(net, x, y, given):
        net.mask = torch.ones_like(net.mask)
        return decorrelation(net, x, y, given)

    assert distance(loop, train_all(task, "vectorised", work, loss=blind, given=given)) > 1e-4


def test_a_step_on_a_loss_of_the_batch_is_autograds():
    task, margins = Task("t", federation([12]), mlp()), torch.linspace(-1, 1, 5)
    (row,) = train_all(task, "vectorised", LocalWork(batch_size=0, lr=0.5), loss=decorrelation, given={"margins": margins[None]})  # fmt: skip # noqa: E501
    leaf, (x, y) = task.initial_row().requires_grad_(), (task.inputs(torch.arange(12)), task.targets(torch.arange(12)))
    z = mlp_features(task, leaf, x)
    centred = z - z.mean(0)
    scaled = centred / (centred.square().mean(0) + 1e-4).sqrt()
    outputs = z @ task.layout.views(leaf)["4.weight"].t() + task.layout.views(leaf)["4.bias"]
    loss = F.cross_entropy(outputs - margins, y) + (scaled.t() @ scaled / 12).square().mean()
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert torch.allclose(row, (leaf - 0.5 * gradient).detach(), atol=1e-6)


@pytest.mark.parametrize(
    "execution", ["loop", "vectorised", pytest.param("compiled", marks=[pytest.mark.slow, pytest.mark.exhaustive])]
)
def test_a_loss_knows_the_number_of_its_clients_step(execution):
    task, work = Task("t", federation([40, 5, 23]), mlp()), LocalWork(epochs=2, batch_size=8, lr=0.25)
    factors = torch.arange(30.0).view(3, 10, 1).sin()  # of every client and step

    def loss(net, _, y, given):
        factor = given["factors"].index_select(0, net.step.view(1)).view(())
        return factor * net.tensors["4.bias"].sum() * torch.ones(len(y)), torch.ones(len(y))

    rows = train_all(task, execution, work, loss=loss, given={"factors": factors})
    bias = task.layout.views(task.initial_row())["4.bias"]
    for client, steps in enumerate([10, 2, 6]):
        moved = task.layout.views(rows[client])["4.bias"] - bias
        assert torch.allclose(moved, -0.25 * factors[client, :steps].sum().expand(5), atol=1e-6)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_loss_gets_tensors_of_any_shape_and_a_pull_only_what_matches_rows(execution):
    task, seen = Task("t", federation([9, 6]), mlp()), []

    def loss(net, x, y, given):
        seen.append({name: getattr(value, "shape", value) for name, value in given.items()})
        return net(x).square().sum(-1) * given["number"] + given["table"].sum(), torch.ones(len(y))

    def pull(rows, _, number, own):
        return number * (rows - own)

    start = task.initial_row().expand(2, -1)
    given = {"number": torch.tensor([0.5, 2.0]), "table": torch.zeros(2, 3, 4), "own": start + 1}
    rows = train_all(task, execution, LocalWork(steps=1, lr=0.1, batch_size=0), loss=loss, pull=pull, given=given)
    assert (seen[0]["number"], seen[0]["table"]) == ((), (3, 4))
    assert set(seen[0]["own"]) == {slot.name for slot in task.layout.slots}
    without = train_all(task, execution, LocalWork(steps=1, lr=0.1, batch_size=0), loss=loss, given=given)
    assert torch.allclose(rows - without, 0.1 * given["number"].unsqueeze(1).expand_as(rows), atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "given", "said"),
    [
        (lambda row: row, {}, r"one row of 421 numbers per client, got shape \(421,\) for 2 clients"),
        (lambda row: row.expand(2, -1)[:, 1:], {}, r"got shape \(2, 420\)"),
        (lambda row: row.expand(2, -1).double(), {}, "needs rows of float32, got torch.float64"),
        (lambda row: row.expand(2, -1), {"near": torch.zeros(421)}, r"given\['near'\] of cohort.train is of shape"),
        (lambda row: row.expand(2, -1), {"rate": 0.1}, r"given\['rate'\] of cohort.train is float for 2 clients"),
    ],
)
def test_rows_and_given_tensors_that_do_not_fit_the_clients_are_refused(rows, given, said):
    task = Task("t", federation([9, 6]), mlp())
    with pytest.raises(FedloomError, match=said):
        cohort(task, "loop", LocalWork()).train(rows(task.initial_row()), given=given)
