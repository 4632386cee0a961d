"""FedCA: its two terms by hand, FedSimCLR without them, and what travels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.seeds import generator
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.small_images import ONE_STEP, SEED, adapted, nt_xent_by_hand, project, two_clients, views
from support.synthetic import cohort, distance

METHOD = fl.FedCA(projection=4, temperature=0.7, dictionary=2, alignment=0.5, base_epochs=1)
SETTINGS = {"local": ONE_STEP, "weight_by": "uniform"}


@pytest.mark.slow
def test_without_its_terms_it_is_fedsimclr_to_the_byte(tmp_path):
    plain = final(tmp_path / "plain", fl.FedSimCLR(projection=4), two_clients(), **SETTINGS)
    neither = fl.FedCA(projection=4, dictionary=0, alignment=0)
    assert same(plain.server["row"], final(tmp_path / "ca", neither, two_clients(), **SETTINGS).server["row"])
    assert not same(plain.server["row"], final(tmp_path / "both", METHOD, two_clients(), **SETTINGS).server["row"])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_round_with_dictionary_and_alignment_by_hand(tmp_path, execution):
    task = adapted(METHOD)
    how = {**SETTINGS, "execution": execution}
    first, second = (final(tmp_path / str(r), METHOD, two_clients(), rounds=r, **how).server for r in (1, 2))
    base, start, negatives = first["base"], first["row"], first["dictionary"]
    assert torch.equal(base, second["base"])
    assert not torch.equal(base, task.initial_row())
    assert negatives.shape == (4, 4)  # two images of each of two clients
    torch.testing.assert_close(negatives.norm(dim=1), torch.ones(4))
    rows = []
    for client in range(2):
        now, both = start.clone().requires_grad_(), views(METHOD, task, client, number=2)
        z, b = ([project(task, row, both[:, k]) for k in range(2)] for row in (now, base))
        apart = [(F.normalize(z[k], dim=1) - F.normalize(b[k], dim=1)).square().sum(1).mean() for k in range(2)]
        loss = nt_xent_by_hand(*z, 0.7, negatives) + 0.5 * (apart[0] + apart[1]) / 2
        rows.append(start - 0.1 * torch.autograd.grad(loss, now)[0])
    assert distance(torch.stack(rows).mean(0), second["row"]) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_dictionary_holds_projections_of_the_drawn_images_by_the_row_just_trained(tmp_path, execution):
    method = fl.FedCA(projection=4, dictionary=2, alignment=0)
    task, work = adapted(method, two_clients(7)), {**ONE_STEP, "lr": 1.0}
    some = cohort(task, execution, LocalWork(**work), seed=SEED)
    server = method.start(task)
    sent = method.client_update(some, method.broadcast(server, [0, 1]))
    expected = []
    for client in range(2):
        row = task.initial_row()
        row[~task.layout.columns("head")] = sent.tensors["encoder"][client]
        drawn = torch.randperm(7, generator=generator(SEED, "fedca dictionary", 1, client))[:2].sort().values
        x = task.inputs(task.federation.train[client][drawn])
        expected.append(F.normalize(project(task, row, x), dim=1))
        assert distance(expected[-1], F.normalize(project(task, task.initial_row(), x), dim=1)) > 0.01  # it has trained
    torch.testing.assert_close(sent.tensors["representations"], torch.stack(expected))
    how = {"local": work, "execution": execution, "rounds": 1}
    torch.testing.assert_close(
        final(tmp_path / "run", method, two_clients(7), **how).server["dictionary"], torch.cat(expected)
    )


def test_a_client_with_fewer_images_than_the_dictionary_takes_sends_those_it_has():
    many = fl.FedCA(projection=4, dictionary=5, alignment=0)
    history = fl.run(two_clients(), many, rounds=2, local=ONE_STEP)
    encoder = 4 * int((~adapted(many).layout.columns("head")).sum())
    first, second = (record for record in history.records if record["round"])
    assert first["bytes_up"] == second["bytes_up"] == 2 * (encoder + 3 * 4 * 4)
    assert (first["bytes_down"], second["bytes_down"]) == (2 * encoder, 2 * (encoder + 6 * 4 * 4))


def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, METHOD, two_clients(7))


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="alignment=-1: it must be at least 0"):
        fl.FedCA(alignment=-1)
    with pytest.raises(FedloomError, match="dictionary=-1: it must be at least 0"):
        fl.FedCA(dictionary=-1)
    with pytest.raises(FedloomError, match="a base model that is trained on the communal set, but the task has none"):
        fl.run(two_clients(communal=0), "fedca", rounds=1)
