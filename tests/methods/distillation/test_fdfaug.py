"""FD of FD+FAug: means of the other clients, and the loss, by hand."""

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.methods.distillation.fdfaug import means_of_other_holders
from support.checkpoints import final
from support.distillation import three_samples
from support.synthetic import cohort, distance, small_task


def test_the_mean_of_others_by_hand():
    """Three clients and two labels: client 0 has both, 1 has label 0, 2 has label 1."""
    means = torch.tensor([[[8.0], [2.0]], [[4.0], [99.0]], [[99.0], [6.0]]])
    has = torch.tensor([[True, True], [True, False], [False, True]])
    expected = {0: [4.0, 6.0], 1: [8.0, 4.0], 2: [6.0, 2.0]}
    for client, values in expected.items():
        assert means_of_other_holders(means, has, client).flatten().tolist() == values
    assert means_of_other_holders(means[:2], has[:2], 0).flatten().tolist() == [4.0, 0.0]  # nobody else has label 1


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_step_is_the_gradient_of_both_cross_entropies(execution):
    """Client 0 has 1 and 2 of class 0, of which others say (0.2, 0.8); of client 1's class 1 nobody says anything."""
    task = three_samples()
    some = cohort(task, execution, LocalWork(batch_size=0, lr=0.1))
    means = torch.tensor([[[0.2, 0.8], [0.0, 0.0]]]).expand(2, -1, -1)
    fl.FDFAug(gamma=0.5).client_update(some, Message(each={"means": means}))
    for client, soft in ((0, 0.5), (1, 0.0)):
        positions = task.federation.train[client]
        outputs = task.model(task.inputs(positions))
        loss = F.cross_entropy(outputs, task.targets(positions))
        loss = loss + soft * F.cross_entropy(outputs, torch.tensor([[0.2, 0.8]]).expand(len(positions), -1))
        gradient = torch.autograd.grad(loss, task.model[0].weight)[0].flatten()
        assert torch.allclose(some.kept["row"].rows[client], task.initial_row() - 0.1 * gradient, atol=1e-6)


def test_clients_send_the_mean_probabilities_of_their_labels():
    task = three_samples()
    some = cohort(task, "loop", LocalWork(epochs=0))
    method = fl.FDFAug()
    reply = method.client_update(some, method.broadcast(method.start(task), [0, 1])).tensors
    assert reply["means"].tolist() == [[[0.5, 0.5], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.5]]]
    assert reply["counts"].tolist() == [[2.0, 0.0], [0.0, 1.0]]


def test_without_its_term_it_is_local_training(tmp_path):
    local, plain, other = (
        final(tmp_path / str(i), method, small_task(), selection={"number": 3}).client_states.rows["row"]
        for i, method in enumerate(("local", fl.FDFAug(gamma=0.0), fl.FDFAug(gamma=5.0)))
    )
    assert distance(local, plain) < 1e-5
    assert distance(local, other) > 1e-3


def test_a_client_that_is_not_asked_keeps_what_it_said_last(tmp_path):
    one = final(tmp_path / "one", fl.FDFAug(), small_task(), rounds=1, selection={"number": 2}).server
    assert int(one["has"].any(1).sum()) == 2
    more = final(tmp_path / "more", fl.FDFAug(), small_task(), rounds=6, selection={"number": 2}).server
    assert int(more["has"].any(1).sum()) > 2


def test_a_negative_weight_is_refused():
    with pytest.raises(FedloomError, match="gamma=-1"):
        fl.FDFAug(gamma=-1.0)
