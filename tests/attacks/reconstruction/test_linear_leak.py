"""The division needs no loss and no whole model: any loss of a task, and whatever a method calls what it sends."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.audits.leaks_of_run import leaks_of_run
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError
from fedloom.core.objective import SquaredError
from support.synthetic import federation

ONE_STEP = {"rounds": 1, "local": {"epochs": 1, "batch_size": 0, "lr": 0.1}, "eval_every": 0}
NET = [nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)]


def one_each(targets=None, objective=None, clients=3, outputs=3):
    """Clients with one sample each."""
    made = federation([1] * clients, shape=(5,), classes=3)
    if targets is not None:
        made = replace(made, columns={**made.columns, "y": targets}, classes=targets[0].numel())
    model = nn.Sequential(*NET[:2], nn.Linear(7, outputs))
    task = fl.task_of(made, model)
    return task if objective is None else replace(task, objective=objective)


def assert_exact(found):
    assert found
    for one in found:
        torch.testing.assert_close(one.rebuilt, one.originals, atol=1e-4, rtol=0)


def test_one_sample_one_step_and_squared_error_by_hand():
    x, y = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([3.0])
    w, b = torch.tensor([[0.2, 0.4, -0.1], [0.3, 0.0, 0.5]]), torch.tensor([0.1, -0.2])
    v = torch.tensor([[0.7, -0.3]])
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(w), model[0].bias.copy_(b), model[2].weight.copy_(v)
    made = federation([1, 1], shape=(3,))
    columns = {"x": torch.cat([x, x]), "y": torch.cat([y, y])}
    task = fl.task_of(replace(made, columns=columns, classes=1), model)
    task = replace(task, objective=SquaredError(), prepare=None)
    h = torch.tanh(w @ x[0] + b)
    db = (v[0] @ h - y[0]) * v[0] * (1 - h**2)  # of half the squared distance
    seen, _ = updates_of_run(task, **ONE_STEP)
    sent = task.layout.views(seen[0].change)
    torch.testing.assert_close(sent["0.bias"].float(), -0.1 * db, atol=1e-6, rtol=0)
    torch.testing.assert_close(sent["0.weight"].float(), -0.1 * db[:, None] * x, atol=1e-6, rtol=0)
    assert_exact(leaks_of_run(task, "fedavg", "linearleak", **ONE_STEP))


@dataclass(frozen=True)
class Cubed(fl.Loss):
    """A loss of one's own."""

    kinds = ("number",)

    def losses(self, outputs, targets):
        return (outputs.flatten() - targets).abs() ** 3, torch.ones(len(targets))


@pytest.mark.parametrize(
    "task",
    [
        one_each(torch.tensor([0.3, -2.0, 1.0]), outputs=1),
        one_each(torch.tensor([0.3, -2.0, 1.0]), Cubed(), outputs=1),
        one_each(torch.randn(3, 3, generator=torch.Generator().manual_seed(1))),
        one_each(torch.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=torch.uint8)),
        one_each(objective=fl.CrossEntropy(smoothing=0.2, class_weights=(1.0, 5.0, 2.0))),
    ],
    ids=["number", "own loss", "several numbers", "labels", "weighted classes"],
)
def test_one_sample_is_exact_to_1e_4_under_every_loss(task):
    assert_exact(leaks_of_run(task, "fedavg", "linearleak", **ONE_STEP))


def test_a_trap_reads_rows_of_a_regression_too():
    made = federation([40, 40], shape=(12,))
    numbers = replace(made, columns={**made.columns, "y": made.columns["x"].sum(1)}, classes=1)
    task = fl.task_of(numbers, "mlp")
    found = leaks_of_run(task, "fedavg", "trapweights", **ONE_STEP)
    assert all(one.recognised > 0.2 for one in found)
    noisy = leaks_of_run(task, "fedavg", "trapweights", **ONE_STEP, sample_privacy={})
    assert all(one.recognised == 0 for one in noisy)


SENT = [
    *("fedsgd", "scaffold", "scaffold:option=1", "fedper", "fedrep", "fedbabu", "cfl", "fesem", "ifca", "fedu"),
    "fedseq:max_clients=2",
]


@pytest.mark.parametrize("method", SENT)
def test_it_reads_what_a_method_declares_whatever_it_is_called(method):
    assert_exact(leaks_of_run(one_each(clients=4), method, "linearleak", **ONE_STEP))


def test_it_reads_an_update_of_a_method_of_one_s_own():
    @dataclass(frozen=True)
    class Difference(fl.FedAvg):
        sends = {"gain": fl.Update("what the model learned at this site")}  # noqa: RUF012

        def client_update(self, cohort, message):
            return fl.Reply({"gain": super().client_update(cohort, message).tensors["row"] - message["row"]})

        def aggregate(self, server, replies):
            return {**server, "row": server["row"] + replies.mean("gain")}

    assert_exact(leaks_of_run(one_each(), Difference(), "linearleak", **ONE_STEP))


def test_a_trap_reaches_models_that_are_sent_to_each_client_and_those_that_clients_choose_from():
    task = fl.task("digits", clients=4, model="mlp")
    plain = leaks_of_run(task, "fedavg", "trapweights", **ONE_STEP)
    for method in ("cfl", "fesem", "ifca", "scaffold", "fedsgd"):
        found = leaks_of_run(task, method, "trapweights", **ONE_STEP)
        assert [one.recognised for one in found] == pytest.approx([one.recognised for one in plain], abs=0.02), method


def test_what_is_not_sent_is_not_read():
    with pytest.raises(FedloomError, match=r"linearleak needs the weights 0\.weight .* lgfedavg does not send them"):
        leaks_of_run(one_each(), "lgfedavg", "linearleak", **ONE_STEP)
    task = fl.task("digits", clients=3, model="mlp")
    with pytest.raises(FedloomError, match=r"trapweights needs the weights .* fedper does not send them"):
        leaks_of_run(task, "fedper", "trapweights", **ONE_STEP)


class StepByStep(nn.Module):
    """A linear layer that sees the steps of a sequence one by one."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).mean(1))


def test_a_layer_that_sees_a_sequence_step_by_step_gives_no_sample_away_and_is_refused():
    task = fl.task_of(federation([4, 4], shape=(5, 4), classes=3), StepByStep())
    with pytest.raises(FedloomError, match="begins with something else"):
        leaks_of_run(task, "fedavg", "linearleak", **ONE_STEP)


@pytest.mark.parametrize("attack", ["classfishing", "gradientinversion"])
def test_what_needs_classes_says_so(attack):
    made = fl.task("digits", clients=3, model="mlp")
    numbers = replace(made.federation, columns={**made.federation.columns, "y": torch.rand(1797, 10)}, classes=10)
    task = replace(made, federation=numbers, objective=SquaredError())
    with pytest.raises(FedloomError, match=f"{attack} needs classes .* linearleak and trapweights read samples under"):
        leaks_of_run(task, "fedavg", attack, **ONE_STEP)
