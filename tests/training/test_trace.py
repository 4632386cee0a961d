"""A user's module in steps: the numbers of the module itself, or a reason why not."""

import logging
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedloom as fl
from fedloom.core.local_work import LocalWork
from fedloom.core.model.adapted_model import AdaptedModel
from fedloom.core.task import Task
from fedloom.training.execution import decide
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import distance, federation, train_all

SIZES = [50, 33, 9, 5]
WORKS = {
    "sgd": LocalWork(epochs=2, batch_size=16, weight_decay=0.01),
    "adam": LocalWork(epochs=2, batch_size=16, optimizer="adam", lr=0.01),
}


class Net(nn.Module):
    """Two linear layers and a head, with dropout; subclasses say what the forward pass is."""

    def __init__(self, shape=(20,)):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.fc1, self.fc2 = nn.Linear(torch.Size(shape).numel(), 16), nn.Linear(16, 16)
            self.drop, self.out = nn.Dropout(0.3), nn.Linear(16, 5)


class Functional(Net):
    def forward(self, x):
        return self.out(F.relu(self.fc2(torch.relu(self.fc1(x)))))


class Flattened(Net):
    def forward(self, x, mask=None):
        x = x.flatten(1) if mask is None else x * mask
        return self.out(F.gelu(self.fc2(F.leaky_relu(self.fc1(x), 0.1))))


class Viewed(Net):
    def forward(self, x):
        x = x.view(x.size(0), -1).reshape(x.shape[0], -1)
        return F.log_softmax(self.out(self.fc2(F.elu(self.fc1(x.view(-1, 20))))), dim=1)


class Dropping(Net):
    def forward(self, x):
        return self.out(self.drop(F.relu(self.fc2(self.drop(F.relu(self.fc1(x)))))))


class Residual(Net):
    def forward(self, x):
        h = torch.tanh(self.fc1(torch.flatten(x, 1)))
        h = h + self.drop(F.relu(self.fc2(h))) * 0.5
        return self.out(torch.cat([h, h], dim=1)) if self.out.in_features == 32 else self.out(h)


class Blocks(Net):
    """Modules in modules, a Sequential among them."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(self.fc1, nn.ReLU(), nn.Dropout(0.2), nn.Sequential(self.fc2, nn.Tanh()))
        del self.fc1, self.fc2

    def forward(self, x):
        return self.out(self.body(x))


class ByMode(Net):
    """Another pass in evaluation than in training."""

    def forward(self, x):
        h = F.relu(self.fc2(F.relu(self.fc1(x))))
        return self.out(h if self.training else 0.5 * h)


TRACED = {one.__name__: one for one in (Functional, Flattened, Viewed, Dropping, Residual, Blocks, ByMode)}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
@pytest.mark.parametrize("model", TRACED.values(), ids=TRACED)
@pytest.mark.slow
def test_a_traced_module_trains_and_predicts_as_the_untraced_one(model, work, monkeypatch):
    task = Task("t", federation(SIZES), model())
    traced = train_all(task, "vectorised", work)
    assert LocalTrainer(task, "vectorised").graph is not None
    lists = [task.federation.test[client] for client in range(4)]
    scores = [LocalTrainer(task, name).scores(traced, lists) for name in ("loop", "vectorised")]
    torch.testing.assert_close(scores[0].mean_loss, scores[1].mean_loss)
    assert distance(train_all(task, "loop", work), traced) < 1e-5
    monkeypatch.setattr(LocalTrainer, "graph", None)  # as torch.func.vmap runs it
    assert distance(train_all(task, "vectorised", work), traced) < 1e-5


def test_a_functional_module_gives_the_bytes_of_the_sequential():
    net = Functional()
    chain = nn.Sequential(nn.Flatten(), net.fc1, nn.ReLU(), net.fc2, nn.ReLU(), net.out)
    rows = [
        fl.run(fl.task_of(federation(SIZES), model), rounds=2, local={"lr": 0.1, "batch_size": 8}).row
        for model in (net, chain)
    ]
    assert torch.equal(*rows)


class Wide(Residual):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(32, 5)


def test_concatenations_are_traced_too():
    task = Task("t", federation(SIZES), Wide())
    assert LocalTrainer(task, "vectorised").graph is not None
    assert distance(train_all(task, "loop", WORKS["sgd"]), train_all(task, "vectorised", WORKS["sgd"])) < 1e-5


class OnShape(Net):
    def forward(self, x):
        return Functional.forward(self, x.flatten(1) if x.dim() > 2 else x)


class OnValues(Net):
    def forward(self, x):
        h = self.fc1(x)
        return self.out(self.fc2(h if h.sum() > 0 else -h))


class Twice(Net):
    def forward(self, x):
        return self.out(F.relu(self.fc2(F.relu(self.fc2(F.relu(self.fc1(x)))))))


class Double(torch.autograd.Function):
    """Doubles its input, and triples the gradient."""

    @staticmethod
    def forward(x):
        return 2 * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):  # noqa: ARG004
        return 3 * gradient

    generate_vmap_rule = True


class OwnGradient(Net):
    def forward(self, x):
        return self.out(Double.apply(self.fc2(F.relu(self.fc1(x)))))


class Blocked(Net):
    def forward(self, x):
        h = F.relu(self.fc1(x))
        with torch.no_grad():
            fixed = self.fc2(h)
        return self.out(h + fixed)


class Lucky(Net):
    def forward(self, x):
        return Functional.forward(self, x) * (1 if random.random() < 2 else 0)


class Counting(Net):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return Functional.forward(self, x)


class FreeDropout(Net):
    def forward(self, x):
        return self.out(F.dropout(self.fc2(F.relu(self.fc1(x))), 0.2, self.training))


class Scaled(Net):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return self.out(self.scale * self.fc2(F.relu(self.fc1(x))))


class Normalised(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        return self.out(self.norm(self.fc2(self.fc1(x))))


def hooked():
    model = Functional()
    model.fc1.register_forward_hook(lambda _, __, y: 2 * y)
    return model


def hooked_sequential():
    model = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 5))
    model[0].register_forward_hook(lambda _, __, y: 2 * y)
    return model


UNTRACED = {
    "a branch on shapes": (OnShape, "vectorised", "cannot be traced"),
    "a branch on values": (OnValues, "loop", "vmap cannot take it"),
    "a layer that is used twice": (Twice, "vectorised", "'fc2.weight' is not in a linear layer that is used once"),
    "a gradient of its own": (OwnGradient, "vectorised", "do not compute what the module computes"),
    "a block without gradients": (Blocked, "vectorised", "do not compute what the module computes"),
    "random numbers": (Lucky, "vectorised", "draws random numbers"),
    "attributes that change": (Counting, "vectorised", "changes its attributes"),
    "functional dropout": (FreeDropout, "loop", "vmap cannot take it"),
    "a parameter of no layer": (Scaled, "vectorised", "uses the tensor 'scale' outside of a layer"),
    "a layer of another kind": (Normalised, "vectorised", "its layer 'norm' is LayerNorm"),
    "a single layer": (lambda: nn.Linear(20, 5), "vectorised", "it is a single layer: put it into an nn.Sequential"),
    "a hook": (hooked, "vectorised", "its layer 'fc1' has a hook"),
    "a hook in a Sequential": (hooked_sequential, "vectorised", "its layer '0' has a hook"),
}


@pytest.mark.parametrize("case", UNTRACED.values(), ids=UNTRACED)
def test_what_cannot_be_traced_is_said_once_and_trains_to_the_numbers_of_the_loop(case, caplog):
    build, name, reason = case
    task = Task("t", federation(SIZES), build())
    with caplog.at_level(logging.WARNING, logger="fedloom"):
        chosen = decide(task, "auto", LocalWork(batch_size=16))
    assert chosen.name == name
    assert reason in chosen.reason
    assert len(caplog.records) == 1
    assert reason in caplog.text
    if name == "vectorised":
        assert distance(train_all(task, "loop", WORKS["sgd"]), train_all(task, "vectorised", WORKS["sgd"])) < 1e-5


def test_tracing_leaves_every_generator_and_the_module_as_they_were():
    task = Task("t", federation(SIZES), Lucky())
    random.seed(4)
    state, torch_state = random.getstate(), torch.get_rng_state()
    trainer = LocalTrainer(task, "vectorised")
    assert trainer.graph is None
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert trainer.model.training


class Convolutional(nn.Module):
    """An ordinary small CNN, with pooling as a function."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.conv, self.drop, self.out = nn.Conv2d(1, 4, 3), nn.Dropout(0.2), nn.Linear(36, 5)

    def forward(self, x):
        return self.out(self.drop(torch.flatten(F.max_pool2d(F.relu(self.conv(x)), 2), 1)))


def test_convolutions_run_client_by_client_and_agree_with_vmap():
    task = Task("t", federation(SIZES, (1, 8, 8)), Convolutional())
    chosen = decide(task, "auto", LocalWork(batch_size=16))
    assert (chosen.name, chosen.reason) == ("loop", "Conv2d run best one client at a time")
    assert "Conv2d" in decide(task, "vectorised", LocalWork(batch_size=16)).reason
    assert distance(train_all(task, "loop", WORKS["sgd"]), train_all(task, "vectorised", WORKS["sgd"])) < 1e-5


def test_the_reason_is_recorded_with_the_run():
    history = fl.run(fl.task_of(federation(SIZES), Scaled()), rounds=1)
    assert "because it uses the tensor 'scale' outside of a layer" in history.config["made_by"]["execution"]


@pytest.mark.parametrize("work", WORKS)
def test_modules_that_a_method_added_leave_the_steps_of_the_model(work):
    """The outputs do not depend on them, but weight decay moves them in every execution."""
    task = Task("t", federation(SIZES), AdaptedModel(Functional(), {"projection": nn.Linear(16, 4)}))
    assert LocalTrainer(task, "vectorised").graph is not None
    loop, whole = (train_all(task, execution, WORKS[work]) for execution in ("loop", "vectorised"))
    assert distance(loop, whole) < 1e-5
    moved = (task.layout.take(whole, "projection") - task.layout.take(task.initial_row(), "projection")).abs().max()
    assert (float(moved) > 0) == (WORKS[work].weight_decay > 0)
