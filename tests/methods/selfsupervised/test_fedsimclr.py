"""FedSimCLR: a round by hand, SimCLR with one client, what travels, and features that a probe can use."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.network import Network
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import check_executions_and_workers_agree, final
from support.small_images import ONE_STEP, SEED, adapted, nt_xent_by_hand, project, two_clients, views
from support.synthetic import distance, small_task

METHOD = fl.FedSimCLR(projection=4, temperature=0.7)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_round_is_the_mean_of_steps_on_nt_xent_by_hand(tmp_path, execution):
    task = adapted(METHOD)
    settings = {"rounds": 1, "local": ONE_STEP, "weight_by": "uniform", "execution": execution}
    state = final(tmp_path, METHOD, two_clients(), **settings)
    rows = []
    for client in range(2):
        now, both = task.initial_row().requires_grad_(), views(METHOD, task, client)
        loss = nt_xent_by_hand(*(project(task, now, both[:, k]) for k in range(2)), 0.7)
        rows.append(task.initial_row() - 0.1 * torch.autograd.grad(loss, now)[0])
    assert distance(torch.stack(rows).mean(0), state.server["row"]) < 1e-5
    head = task.layout.columns("head")
    assert torch.equal(state.server["row"][head], task.initial_row()[head])


def test_with_one_client_it_is_simclr_on_all_images(tmp_path):
    """One client's round is central training from the last round's row, by the trainer that everybody uses."""
    task = two_clients(6)
    alone = replace(task, federation=task.federation.as_one_client())
    state = final(tmp_path, METHOD, alone, rounds=2, local={**ONE_STEP, "epochs": 2, "steps": None, "batch_size": 4})
    adapted_task = METHOD.adapt_task(alone)
    work, row = LocalWork(epochs=2, batch_size=4, lr=0.1), adapted_task.initial_row()

    def simclr(net: Network, x: Tensor, y: Tensor, _: object) -> tuple[Tensor, Tensor]:
        one, two = (net.apply("projection", net.features(x[:, k])) for k in range(2))
        return nt_xent_by_hand(one, two, 0.7).expand(len(y)), torch.ones(len(y))

    for number in (1, 2):
        central = Cohort([0], LocalTrainer(adapted_task, "loop"), RunSetting(work, SEED, 2), number)
        row = central.train(row[None], loss=simclr, augment=METHOD.augmentation.two_views)[0]
    assert distance(row, state.server["row"]) < 1e-5


def test_the_body_and_the_projection_head_travel_and_the_head_does_not():
    history = fl.run(two_clients(), METHOD, rounds=2, local=ONE_STEP)
    task = adapted(METHOD)
    encoder = 4 * int((~task.layout.columns("head")).sum())
    assert [record["bytes_up"] for record in history.records if record["round"]] == [2 * encoder] * 2
    assert history.total("bytes_down") == history.total("bytes_up")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_it_learns_without_labels_is_better_for_a_probe_than_where_it_started():
    task = fl.task("digits", clients=5, alpha=0.3, seed=1)
    settings = {"prediction": ["linearprobe"], "seed": 1, "local": {"lr": 0.3, "epochs": 2, "batch_size": 64}}
    accuracy = "client_model/own_test/loss/mean"
    before, after = (fl.run(task, fl.FedSimCLR(flip=0, crop=0.4), rounds=r, **settings).last(accuracy) for r in (1, 8))
    assert after < before


@pytest.mark.slow
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, METHOD, two_clients(7))


def test_what_is_no_image_and_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(
        FedloomError, match="fedsimclr compares random views of images, and task t has samples that are not"
    ):
        fl.run(small_task(), "fedsimclr", rounds=1)
    with pytest.raises(FedloomError, match="temperature=0: it must be above 0"):
        fl.FedSimCLR(temperature=0)
