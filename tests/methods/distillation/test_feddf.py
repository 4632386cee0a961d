"""FedDF: the ensemble, its distillation into the average, and clients with different models."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.model.architectures import Architectures
from fedloom.core.server_context import ServerContext
from fedloom.methods.distillation.feddf import ensemble, server_samples
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import final
from support.distillation import conv_task, three_samples
from support.synthetic import cohort, distance, small_task


def context(task):
    return ServerContext(LocalTrainer(task, "loop"), LocalWork(), 5, 1, 10, range(2), lambda samples, _: samples)


def test_the_ensemble_by_hand():
    """Logits (x, -x) and (3x, x) have the mean (2x, 0)."""
    task = three_samples()
    found = ensemble(context(task), {0: torch.tensor([[1.0, -1.0], [3.0, 1.0]])}, torch.arange(3))
    assert torch.allclose(found[:, 0], torch.sigmoid(2 * torch.tensor([1.0, 2.0, 4.0])))


def test_the_ensemble_of_linear_models_is_their_mean_model():
    task = three_samples()
    rows = torch.tensor([[1.0, -1.0], [3.0, 2.0]])
    found = ensemble(context(task), {0: rows}, torch.arange(3))
    one = ensemble(context(task), {0: rows.mean(0, keepdim=True)}, torch.arange(3))
    assert torch.allclose(found, one)


def test_without_distillation_it_is_fedavg_to_the_byte(tmp_path):
    rows = [
        final(tmp_path / str(i), method, conv_task()).server["row"]
        for i, method in enumerate(("fedavg", fl.FedDF(epochs=0), fl.FedDF(epochs=2)))
    ]
    assert torch.equal(rows[0], rows[1])
    assert distance(rows[0], rows[2]) > 1e-4


def test_the_server_distils_the_ensemble_of_the_clients_it_asked(tmp_path):
    """One round by hand: FedAvg's clients, their ensemble, and Adam on its cross-entropy."""
    task, work = conv_task(), LocalWork(epochs=2, batch_size=16)
    method = fl.FedDF(epochs=4, lr=0.01, batch_size=0)
    row = final(tmp_path / "run", method, task, rounds=1, execution="loop").server["row"]
    some = cohort(task, "loop", work, seed=3)
    rows = method.client_update(some, Message({"row": task.initial_row()})).tensors["row"]
    x = task.inputs(task.federation.communal)
    goal = torch.softmax(some.forward(rows, x).mean(0), 1)
    model = conv_task().model
    weights = some.samples / some.samples.sum()
    task.layout.fill(model, weights @ rows)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), goal).backward()
        optimizer.step()
    assert distance(row, task.layout.row(model)) < 1e-4


def mixed_task():
    """Clients 0 and 2 have a small convolutional network, client 1 a linear one."""
    task = conv_task()
    with torch.random.fork_rng():
        torch.manual_seed(8)
        flat = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    models = Architectures((task.model, flat), ("conv", "linear"), torch.tensor([0, 1, 0]))
    return replace(task, architectures=models)


def test_each_architecture_has_the_mean_of_its_own_clients(tmp_path):
    task, work = mixed_task(), LocalWork(epochs=2, batch_size=16)
    server = final(tmp_path / "run", fl.FedDF(epochs=0), task, rounds=1, execution="loop").server
    assert server.keys() == {"row/0", "row/1"}
    some = cohort(task.of_architecture(0), "loop", work, ids=[0, 2])
    rows = some.train(some.spread(task.of_architecture(0).initial_row()))
    assert distance(server["row/0"], some.samples.float() @ rows / some.samples.sum()) < 1e-5
    alone = cohort(task.of_architecture(1), "loop", work, ids=[1])
    assert distance(server["row/1"], alone.train(alone.spread(task.of_architecture(1).initial_row()))[0]) < 1e-5


def test_architectures_learn_from_the_ensemble_of_all(tmp_path):
    """Distillation brings the two models' outputs on the communal set nearer to each other."""
    task = mixed_task()

    def apart(epochs):
        server = final(tmp_path / str(epochs), fl.FedDF(epochs=epochs, lr=0.01), task, rounds=2).server
        x, both = task.inputs(task.federation.communal), []
        for number in (0, 1):
            own = task.of_architecture(number)
            both.append(torch.softmax(cohort(own, "loop", LocalWork()).forward(server[f"row/{number}"][None], x)[0], 1))
        return float((both[0] - both[1]).square().sum())

    assert apart(40) < apart(0) / 2


def test_clients_predict_with_the_model_of_their_architecture():
    task, method = mixed_task(), fl.FedDF()
    message = method.broadcast(method.start(task), [0, 1])
    for number in (0, 1):
        own = task.of_architecture(number)
        assert torch.equal(method.weights_for(message, cohort(own, "loop", LocalWork())), own.initial_row())


def test_the_server_uses_its_own_samples_if_it_has_some():
    task = conv_task()
    assert torch.equal(server_samples(task), task.federation.communal)
    own = replace(task, federation=replace(task.federation, server=torch.tensor([1, 2, 5])))
    assert server_samples(own).tolist() == [1, 2, 5]


def test_what_feddf_cannot_use_is_refused():
    with pytest.raises(FedloomError, match="feddf distils on samples that the server has"):
        fl.FedDF().check(small_task(), LocalWork())
    with pytest.raises(FedloomError, match="epochs=-1"):
        fl.FedDF(epochs=-1)
    with pytest.raises(FedloomError, match="lr=0"):
        fl.FedDF(lr=0.0)
    yogi = {"server_optimizer": {"kind": "yogi"}, "rounds": 1}
    with pytest.raises(
        FedloomError,
        match="server_optimizer steps after every mean of models, and feddf ends its rounds with a distilled",
    ):
        fl.run(conv_task(), "feddf", **yogi)
    fl.run(conv_task(), fl.FedDF(epochs=0), **yogi)
