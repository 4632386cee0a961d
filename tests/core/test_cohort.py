"""The primitives of a cohort."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.objective import CrossEntropy, SquaredError
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task
from fedloom.data.federation import Ragged
from support.synthetic import cohort, distance, federation, mlp, perturb, staged_tasks, train_all

EXECUTIONS = ("loop", "vectorised")


def test_the_gradient_is_that_of_the_mean_loss_over_all_data():
    task = Task("t", federation([700, 20]), mlp())
    rows = cohort(task, "vectorised", LocalWork()).gradient(task.initial_row().expand(2, -1))
    model = mlp()
    positions = task.federation.train[0]
    F.cross_entropy(model(task.inputs(positions)), task.targets(positions)).backward()
    expected = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    assert torch.allclose(rows[0], expected, atol=1e-6)


def test_scores_are_sums_over_each_clients_own_samples():
    task = Task("t", federation([30, 12]), mlp())
    scores = cohort(task, "loop", LocalWork()).evaluate(task.initial_row().expand(2, -1))
    for client in range(2):
        positions = task.federation.test[client]
        outputs = task.model(task.inputs(positions))
        right = (outputs.argmax(1) == task.targets(positions)).double().mean()
        assert torch.isclose(scores.mean_score[client], right)
        loss = F.cross_entropy(outputs, task.targets(positions)).double()
        assert torch.isclose(scores.mean_loss[client], loss, atol=1e-6)


def test_forward_gives_every_client_its_own_outputs_on_the_same_inputs():
    task = Task("t", federation([4, 4, 4]), mlp(dropout=0.5))
    rows = task.initial_row() + 0.1 * torch.randn(3, task.layout.width)
    inputs = torch.randn(6, 20)
    loop = cohort(task, "loop", LocalWork()).forward(rows, inputs)
    assert loop.shape == (3, 6, 5)
    assert torch.allclose(loop, cohort(task, "vectorised", LocalWork()).forward(rows, inputs), atol=1e-5)


def test_two_trainings_in_one_round_see_different_batches():
    task = Task("t", federation([40]), mlp())
    work = LocalWork(batch_size=8)
    some = cohort(task, "loop", work)
    start = some.spread(task.initial_row())
    assert not torch.equal(some.train(start), some.train(start))
    assert some.steps.tolist() == [10]


def test_a_sequence_loss_counts_the_positions_that_are_no_padding():
    outputs = torch.randn(2, 3, 4)
    targets = torch.tensor([[0, 1, IGNORED], [2, IGNORED, IGNORED]])
    losses, counts = CrossEntropy().losses(outputs, targets)
    assert counts.tolist() == [2, 1]
    whole = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    assert torch.isclose(losses.sum() / counts.sum(), whole)
    hits, asked = CrossEntropy().scores(F.one_hot(targets.clamp(min=0), 4).float(), targets)
    assert hits.tolist() == asked.tolist() == [2, 1]


def test_word_models_are_scored_per_position():
    class Echo(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(6, 6)
            self.table.weight.data = 10 * torch.eye(6)

        def forward(self, x):
            return self.table(x)

    words = federation([4], (3,), tokens=6, classes=6)
    targets = words.columns["x"].clone()
    targets[:, 2] = IGNORED
    words = type(words)({"x": words.columns["x"], "y": targets}, words.train, words.test, words.valid, 6)
    scores = cohort(Task("t", words, Echo()), "loop", LocalWork()).evaluate(
        Task("t", words, Echo()).initial_row()[None]
    )
    assert scores.counts.tolist() == [8]
    assert scores.mean_score.tolist() == [1.0]


def test_scoring_together_is_scoring_one_by_one():
    task = Task("t", federation([200, 30, 7]), mlp())
    rows = task.initial_row() + 0.1 * torch.randn(3, task.layout.width)
    together = cohort(task, "vectorised", LocalWork()).evaluate(rows)
    alone = cohort(task, "loop", LocalWork()).evaluate(rows)
    assert torch.equal(together.counts, alone.counts)
    assert torch.equal(together.score, alone.score)
    assert torch.allclose(together.loss, alone.loss)


def test_regression_outputs_of_one_number_meet_targets_of_any_shape():
    losses, _ = SquaredError().losses(torch.zeros(3, 1), torch.tensor([1.0, 2.0, 3.0]))
    assert losses.tolist() == [0.5, 2.0, 4.5]


STAGED = staged_tasks([40, 30, 21, 7])
UNEQUAL = staged_tasks([200, 7, 65])
COMMUNAL = torch.arange(1, 98, 4)
TEACHER = torch.randn(len(COMMUNAL), 5, generator=torch.Generator().manual_seed(1))


def towards_teacher(net, x, y, given):  # noqa: ARG001
    return (net(x) - TEACHER[y]).square().sum(1), torch.ones(len(y))


def two_views(x, generator):
    noise = torch.randn(len(x), 2, *x.shape[1:], generator=generator)
    return x.unsqueeze(1) + 0.1 * noise


def views_apart(net, x, y, given):  # noqa: ARG001
    """A loss of two views, which are one pass."""
    outputs = net(x.flatten(0, 1)).unflatten(0, (-1, 2))
    apart = (outputs[:, 0] - outputs[:, 1]).square().sum(1)
    return F.cross_entropy(outputs[:, 0], y, reduction="none") + apart, torch.ones(len(y))


@pytest.mark.parametrize("task", STAGED.values(), ids=STAGED)
@pytest.mark.parametrize("loss", [None, towards_teacher], ids=["task", "own"])
def test_training_on_the_communal_set_agrees_in_loop_and_vectorised(task, loss):
    work = LocalWork(epochs=2, batch_size=8)
    loop, vectorised = (train_all(task, execution, work, on=COMMUNAL, loss=loss) for execution in EXECUTIONS)
    assert distance(loop, vectorised) < 1e-5


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_training_on_samples_is_training_a_client_that_holds_exactly_these(execution):
    task = STAGED["mlp"]
    lists = Ragged.of([COMMUNAL])
    holder = Task("t", replace(task.federation, train=lists, test=lists, valid=Ragged.empty(1)), task.model)
    work = LocalWork(epochs=2, batch_size=8)
    assert torch.equal(train_all(task, execution, work, [0], on=COMMUNAL), train_all(holder, execution, work))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_an_own_loss_on_samples_gets_their_places(execution):
    """One step towards a teacher's outputs, written out."""
    task = STAGED["mlp"]
    row = train_all(task, execution, LocalWork(steps=1, batch_size=0), [0], on=COMMUNAL, loss=towards_teacher)[0]
    loss = (task.model(task.inputs(COMMUNAL)) - TEACHER).square().sum(1).mean()
    gradients = torch.autograd.grad(loss, list(task.model.parameters()))
    expected = task.initial_row() - 0.1 * torch.cat([g.reshape(-1) for g in gradients])
    assert torch.allclose(row, expected, atol=1e-5)


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_the_tasks_augmentation_is_left_off_the_communal_set_and_an_own_one_replaces_it(execution):
    def spoil(x, generator):  # noqa: ARG001
        return 0 * x

    task = STAGED["mlp"]
    spoils = replace(task, augment=spoil)
    work = LocalWork(epochs=1, batch_size=8)
    assert torch.equal(train_all(task, execution, work, on=COMMUNAL), train_all(spoils, execution, work, on=COMMUNAL))
    plain = train_all(task, execution, work)
    assert not torch.equal(train_all(spoils, execution, work), plain)
    assert torch.equal(train_all(spoils, execution, work, augment=lambda x, _: x), plain)


@pytest.mark.parametrize("task", STAGED.values(), ids=STAGED)
def test_two_views_of_each_sample_agree_in_loop_and_vectorised(task):
    work = LocalWork(epochs=2, batch_size=16, lr=0.02)
    loop, vectorised = (
        train_all(task, execution, work, augment=two_views, loss=views_apart) for execution in EXECUTIONS
    )
    assert distance(loop, vectorised) < 1e-5


@pytest.mark.parametrize("task", STAGED.values(), ids=STAGED)
def test_what_is_collected_is_what_each_network_computes(task):
    rows = torch.stack([perturb(task.initial_row(), seed) for seed in range(4)])

    def everything(net, x, places):
        outputs, maps = net.stages(x)
        return {"logits": outputs, "features": net.features(x).flatten(1), "first": maps[0], "places": places}

    positions = torch.arange(98)  # more than one chunk
    loop, together = (cohort(task, name, LocalWork()).collect(rows, positions, everything) for name in EXECUTIONS)
    assert all(torch.allclose(loop[name], together[name], atol=1e-5) for name in loop)
    passed = cohort(task, "loop", LocalWork()).forward(rows, task.inputs(positions))
    assert torch.allclose(loop["logits"], passed, atol=1e-5)
    third = copy.deepcopy(task.model)
    task.layout.fill(third, rows[2])
    inside = third[: 1 + int(third.stages[0])](task.inputs(positions))
    assert torch.allclose(together["first"][2], inside, atol=1e-5)
    assert together["places"].tolist() == [list(range(98))] * 4


@pytest.mark.parametrize("task", UNEQUAL.values(), ids=UNEQUAL)
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_what_is_collected_of_clients_own_samples_is_what_each_network_computes(task, execution):
    """Clients of unequal sizes: after its own samples a client has none, however many the others have."""
    some = cohort(task, execution, LocalWork())
    rows = torch.stack([perturb(task.initial_row(), seed) for seed in range(3)])

    def look(net, x, places):
        return {"outputs": net(x), "places": places}

    for client, found in enumerate(some.collect_own(rows, look)):
        own = task.federation.train[client]
        alone = some.collect(rows[client : client + 1], own.sort().values, look)
        assert distance(found["outputs"][own.argsort()], alone["outputs"][0]) < 1e-5
        assert found["places"].tolist() == list(range(len(own)))


def test_networks_look_at_their_own_samples_together():
    task, calls = Task("t", federation([30, 12, 5]), mlp()), []

    def look(net, x, places):
        calls.append(len(places))
        return {"outputs": net(x)}

    cohort(task, "vectorised", LocalWork()).collect_own(task.initial_row().expand(3, -1), look)
    assert calls == [len(task.federation.train[0])]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_gradients_may_be_collected(execution):
    """The gradient of each sample's own largest output with respect to the first stage's map."""
    task = STAGED["conv"]

    def slopes(net, x, places):  # noqa: ARG001
        return {"slope": torch.func.grad(lambda inputs: net(inputs).logsumexp(1).sum())(x)}

    found = cohort(task, execution, LocalWork()).collect(task.initial_row().expand(4, -1), COMMUNAL, slopes)["slope"]
    x = task.inputs(COMMUNAL).requires_grad_()
    (expected,) = torch.autograd.grad(task.model(x).logsumexp(1).sum(), x)
    assert torch.allclose(found[3], expected, atol=1e-6)


def test_samples_that_are_no_sorted_positions_are_refused():
    task = STAGED["mlp"]
    for wrong, message in (
        (torch.tensor([3, 1]), "must be sorted"),
        (torch.tensor([], dtype=torch.int64), "needs task.communal"),
        (torch.tensor([True]), "a vector of positions"),
    ):
        with pytest.raises(FedloomError, match=message):
            train_all(task, "loop", LocalWork(), on=wrong)
