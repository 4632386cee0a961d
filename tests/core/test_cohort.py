"""The primitives of a cohort."""

import torch
import torch.nn.functional as F
from torch import nn

from fedloom.core.local_work import LocalWork
from fedloom.core.objective import CrossEntropy, SquaredError
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task
from support.synthetic import cohort, federation, mlp


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
