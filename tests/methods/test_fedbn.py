"""FedBN: a round by hand, what stays with clients, and what it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.methods.fedbn import FedBN, outside_batchnorm
from support.checkpoints import WORK, final, same
from support.synthetic import cohort, distance, federation, mlp

SIZES = [32, 48, 16]
BATCHNORM = 4 * 6


def normed() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))


def task() -> Task:
    return Task("t", federation(SIZES), normed())


def test_two_rounds_by_hand(tmp_path):
    """Each client trains from the mean of the others' columns and its own BatchNorm."""
    own, shares = task(), torch.tensor(SIZES) / sum(SIZES)
    shared = outside_batchnorm(own)
    state = final(tmp_path / "run", "fedbn", own, rounds=2)
    rows = own.initial_row().expand(3, -1).clone()
    for number in (1, 2):
        some = cohort(own, "loop", LocalWork(**WORK))
        some.round = number
        rows = some.train(rows)
        rows[:, shared] = (shares @ rows[:, shared]).expand(3, -1)
    assert distance(rows[0, shared], state.server["row"][shared]) < 1e-5
    assert distance(rows[:, ~shared], state.client_states.rows["batchnorm"]) < 1e-5


def test_only_scales_shifts_and_statistics_stay():
    views = task().layout.views(~outside_batchnorm(task()))
    inside = {name for name, mask in views.items() if mask.all()}
    assert inside == {"1.weight", "1.bias", "1.running_mean", "1.running_var"}
    assert not any(mask.any() for name, mask in views.items() if name not in inside)


def test_batchnorm_does_not_travel():
    width = task().layout.width
    bytes_of = {m: fl.run(task(), m, rounds=1, local=WORK).total("bytes_up") for m in ("fedavg", "fedbn")}
    assert bytes_of == {"fedavg": 3 * 4 * width, "fedbn": 3 * 4 * (width - BATCHNORM)}


def test_a_client_predicts_with_its_own_batchnorm_and_a_new_one_with_the_initial_one():
    own, method = task(), FedBN()
    some, shared = cohort(own, "loop", LocalWork(**WORK)), outside_batchnorm(own)
    new = torch.linspace(-1, 1, int(shared.sum()))
    fresh = method.weights_for(fl.Message({"others": new}), some)
    assert all(same(row[~shared], own.initial_row()[~shared]) for row in fresh)
    method.client_update(some, fl.Message({"others": own.initial_row()[shared]}))
    later = method.weights_for(fl.Message({"others": new}), some)
    assert all(same(row[shared], new) for row in later)
    assert same(later[:, ~shared], some.kept["batchnorm"].rows)
    assert len({tuple(row.tolist()) for row in later[:, ~shared]}) == 3


def test_frozen_batchnorm_keeps_its_statistics_with_the_client():
    model = normed()
    model[1].requires_grad_(False)
    own = replace(task(), model=model)
    assert int((~outside_batchnorm(own)).sum()) == 2 * 6
    fl.run(own, "fedbn", rounds=1, local=WORK)


def test_a_model_without_batchnorm_is_refused():
    sentence = r"fedbn keeps BatchNorm layers .*, and task t has a model \(Sequential\) without BatchNorm: use"
    with pytest.raises(FedloomError, match=sentence):
        fl.run(Task("t", federation(SIZES), mlp()), "fedbn", rounds=1)
    with pytest.raises(FedloomError, match="is all BatchNorm, so nothing is shared: use local"):
        fl.run(Task("t", federation(SIZES, shape=(5,)), nn.BatchNorm1d(5)), "fedbn", rounds=1)


def inverted_digits(seed: int) -> Task:
    """Six clients with the same classes, of which every second one sees dark for bright."""
    found = fl.task("digits", clients=6, partition="iid", seed=seed).federation
    x = found.columns["x"].clone()
    for client in (1, 3, 5):
        mine = torch.cat([found.train[client], found.test[client]])
        x[mine] = x.max() - x[mine]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
    return fl.task_of(replace(found, columns={**found.columns, "x": x}), nn.Sequential(nn.Flatten(), *layers))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_where_clients_features_differ_it_beats_fedavg_by_far(seed):
    how = {"rounds": 20, "seed": seed, "local": {"lr": 0.05, "batch_size": 16}, "eval_every": 20}
    fedavg, fedbn = (
        fl.run(inverted_digits(seed), method, **how).last("client_model/own_test/accuracy/mean")
        for method in ("fedavg", "fedbn")
    )
    assert fedbn > fedavg + 0.3
