"""FedSimSiam: a round by hand, and SimSiam with one client."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.network import Network
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import final
from support.small_images import ONE_STEP, SEED, adapted, hidden, layers, two_clients, views
from support.synthetic import distance

METHOD = fl.FedSimSiam(projection=8)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_round_is_the_mean_of_steps_on_negative_cosines_by_hand(tmp_path, execution):
    task = adapted(METHOD)
    settings = {"rounds": 1, "local": ONE_STEP, "weight_by": "uniform", "execution": execution}
    state = final(tmp_path, METHOD, two_clients(), **settings)

    def head(row: torch.Tensor, name: str, x: torch.Tensor) -> torch.Tensor:
        inside, norm, last = layers(task, row, f"{name}.0", f"{name}.1", f"{name}.3")
        x = F.layer_norm(F.linear(x, *inside), (len(norm[0]),), *norm)
        return F.linear(F.relu(x), *last)

    rows = []
    for client in range(2):
        now, both = task.initial_row().requires_grad_(), views(METHOD, task, client)
        z = [head(now, "projection", hidden(task, now, both[:, k])) for k in range(2)]
        p = [head(now, "predictor", one) for one in z]
        near = [F.cosine_similarity(p[k], z[1 - k].detach()).mean() for k in range(2)]
        loss = -(near[0] + near[1]) / 2
        rows.append(task.initial_row() - 0.1 * torch.autograd.grad(loss, now)[0])
    assert distance(torch.stack(rows).mean(0), state.server["row"]) < 1e-5


def test_with_one_client_it_is_simsiam_on_all_images(tmp_path):
    """One client's rounds are central training, by the trainer that everybody uses and a loss that is written out."""
    task = two_clients(6)
    alone = replace(task, federation=task.federation.as_one_client())
    local = {"epochs": 2, "batch_size": 4, "lr": 0.02}  # larger steps through layer norms let rounding grow
    state = final(tmp_path, METHOD, alone, rounds=2, local=local)
    adapted_task = METHOD.adapt_task(alone)
    work, row = LocalWork(**local), adapted_task.initial_row()

    def simsiam(net: Network, x: Tensor, y: Tensor, _: object) -> tuple[Tensor, Tensor]:
        z = [net.apply("projection", net.features(x[:, k])) for k in range(2)]
        near = sum(F.cosine_similarity(net.apply("predictor", z[k]), z[1 - k].detach()) for k in range(2))
        return -near / 2, torch.ones(len(y))

    for number in (1, 2):
        central = Cohort([0], LocalTrainer(adapted_task, "loop"), RunSetting(work, SEED, 2), number)
        row = central.train(row[None], loss=simsiam, augment=METHOD.augmentation.two_views)[0]
    assert distance(row, adapted_task.initial_row()) > 1e-2
    assert distance(row, state.server["row"]) < 1e-5
