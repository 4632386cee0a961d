"""Federated dropout: what is sent, what a server does not believe, and runs whose clients train sub-models."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.channel.sub_model_step import SubModelStep
from fedloom.core.errors import FedloomError
from fedloom.core.model.sub_models import FederatedDropout, SubModelDraw

SUB_MODELS = FederatedDropout(keep=0.5).sub_models(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
STEP = SubModelStep(SUB_MODELS)
LOSS = "global_model/global_test/loss"
SENDER = SimpleNamespace(cohort=SimpleNamespace(setting=SimpleNamespace(seed=3), round=2, turn=0, ids=[5, 6]))


def test_a_clients_columns_are_sent_and_come_back_to_their_places():
    rows = torch.randn(2, SUB_MODELS.whole)
    sent, extras = STEP.encode(rows, SENDER)
    assert tuple(sent.shape) == (2, STEP.width(SUB_MODELS.whole)) == (2, 3 * 2 + 2 + 2 * 2 + 2)
    back = STEP.decode(sent, extras, SUB_MODELS.whole)
    columns = SUB_MODELS.columns_of(SubModelDraw(3, 2, 0, [5, 6]).seeds)
    assert torch.equal(back.gather(1, columns), rows.gather(1, columns))
    assert int((back != 0).sum()) == sent.numel()


@pytest.mark.parametrize("seed", [torch.tensor([[-1], [2]]), torch.tensor([1, 2]), torch.tensor([[1.0], [2.0]])])
def test_numbers_that_no_client_sends_are_refused(seed):
    with pytest.raises(ValueError, match="one number"):
        STEP.decode(torch.zeros(2, STEP.width(SUB_MODELS.whole)), {"seed": seed}, SUB_MODELS.whole)


def test_rows_of_another_width_are_refused():
    with pytest.raises(FedloomError, match="and a reply has 7"):
        STEP.width(7)


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=1.0, model="mlp", model_options={"hidden": [20, 10]})


def test_the_whole_model_as_a_sub_model_changes_nothing_but_a_seed(task):
    plain, whole = (fl.run(task, "fedavg", rounds=2, federated_dropout=how) for how in (None, {"keep": 1.0}))
    assert whole.last(LOSS) == pytest.approx(plain.last(LOSS), rel=1e-5)
    assert whole.total("bytes_down") == plain.total("bytes_down")
    assert whole.total("bytes_up") == plain.total("bytes_up") + 2 * 6 * 8


def test_only_the_weights_of_sub_models_go_down_and_up(task):
    history = fl.run(task, "fedprox", rounds=2, federated_dropout={"keep": 0.5}, downlink={"precision": "float16"})
    weights = 64 * 10 + 10 + 10 * 5 + 5 + 5 * 10 + 10
    assert history.total("bytes_down") == 2 * 6 * 2 * weights
    assert history.total("bytes_up") == 2 * 6 * (4 * weights + 8)


def test_it_learns():
    task = fl.task("digits", clients=6, alpha=1.0, model="mlp", model_options={"hidden": [100]})
    history = fl.run(task, "fedavg", rounds=12, federated_dropout={"keep": 0.75}, eval_every=12)
    assert history.last("global_model/global_test/accuracy") > 0.75


def test_workers_executions_and_a_stop(task, tmp_path):
    how = {"federated_dropout": {"keep": 0.5}, "selection": {"number": 4}}
    one, two = (fl.run(task, "fedavg", rounds=4, workers=workers, **how) for workers in (1, 2))
    assert one.records == two.records
    loop = fl.run(task, "fedavg", rounds=4, execution="loop", **how)
    assert loop.last(LOSS) == pytest.approx(one.last(LOSS), rel=1e-3)
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "run", **how)
    assert fl.resume(tmp_path / "run", rounds=4, task=task).records[3:] == one.records[3:]
