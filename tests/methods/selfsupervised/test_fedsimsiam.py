"""FedSimSiam: a round by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from support.checkpoints import final
from support.small_images import ONE_STEP, adapted, hidden, layers, two_clients, views
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
