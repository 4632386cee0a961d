"""FedMD: transfer learning, consensus, digest and revisit, by hand."""

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from support.checkpoints import final
from support.distillation import conv_task, replies_of, three_samples, unlabelled
from support.synthetic import cohort, distance, perturb

EXECUTIONS = ("loop", "vectorised")


def test_the_consensus_of_two_clients_on_three_samples():
    sent = torch.tensor([[[4.0, 0.0], [0.0, 4.0], [8.0, 8.0]], [[0.0, 4.0], [4.0, 0.0], [0.0, 0.0]]])
    state = fl.FedMD().aggregate({}, replies_of({"outputs": sent}, (0.5, 0.5)))
    assert state["outputs"].tolist() == [[2.0, 2.0], [2.0, 2.0], [4.0, 4.0]]


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_digest_by_hand(execution):
    """Outputs (x, x) for 1, 2, 4 towards (0, 9): each sample's slope is (x, -x) / 2, their mean (7, -7) / 6. Then
    nothing is revisited, since the local work has no steps."""
    task = three_samples()
    some = cohort(task, execution, LocalWork(epochs=0, batch_size=0, lr=0.1))
    goal = torch.tensor([[0.0, 9.0]]).expand(3, -1)
    rows = fl.FedMD().distil(some, some.spread(task.initial_row()), Message({"outputs": goal}))
    assert torch.allclose(rows, torch.tensor([[1 - 0.7 / 6, 1 + 0.7 / 6]]).expand(2, -1))


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_transfer_learning_is_the_communal_set_first_and_then_the_clients_own_data(execution):
    task, work = conv_task(), LocalWork(epochs=2, batch_size=8)
    some, same = (cohort(task, execution, work) for _ in range(2))
    start = same.spread(task.initial_row())
    public = same.train(start, on=task.federation.communal, work=work.for_epochs(3))
    assert torch.equal(fl.FedMD(transfer_epochs=3).learn(some, start), same.train(public))


def test_a_client_is_transferred_once():
    """A client that has a model of its own sends it as it is."""
    task = conv_task()
    some = cohort(task, "loop", LocalWork(batch_size=8))
    rows = torch.stack([perturb(task.initial_row(), seed) for seed in range(3)])
    some.keep("row", rows, only=torch.tensor([True, False, True]))
    after = fl.FedMD().learn(some, some.kept_rows("row", rows))
    assert torch.equal(after[[0, 2]], rows[[0, 2]])
    assert not torch.equal(after[1], rows[1])


def test_after_digesting_a_client_revisits_its_own_data():
    task, work = conv_task(), LocalWork(batch_size=8)
    goal = Message({"outputs": torch.zeros(len(task.federation.communal), 5)})
    some, same = (cohort(task, "loop", work) for _ in range(2))
    rows = fl.FedMD().distil(some, some.spread(task.initial_row()), goal)

    def digest(net, x, y, _):
        return (net(x) - goal["outputs"][y]).abs().mean(1), torch.ones(len(y))

    near = same.train(same.spread(task.initial_row()), on=task.federation.communal, loss=digest)
    assert distance(rows, same.train(near)) < 1e-6


def test_a_round_is_the_two_waves(tmp_path):
    task = conv_task()
    state = final(tmp_path / "run", fl.FedMD(), task, rounds=2)
    assert state.server["outputs"].shape == (len(task.federation.communal), 5)
    assert bool(state.client_states.has["row"].all())


def test_what_fedmd_cannot_use_is_refused():
    with pytest.raises(FedloomError, match="its samples have no labels: set transfer_epochs=0"):
        fl.FedMD().check(unlabelled(conv_task()), LocalWork())
    fl.FedMD(transfer_epochs=0).check(unlabelled(conv_task()), LocalWork())
    with pytest.raises(FedloomError, match="transfer_epochs=-1"):
        fl.FedMD(transfer_epochs=-1)
    with pytest.raises(FedloomError, match="digest_epochs=0"):
        fl.FedMD(digest_epochs=0)
