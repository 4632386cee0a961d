"""The way up of federated dropout: what is sent, and what a server does not believe."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fedloom.channel.sub_model_step import SubModelStep
from fedloom.core.errors import FedloomError
from fedloom.core.model.sub_models import FederatedDropout, SubModelDraw

SUB_MODELS = FederatedDropout(keep=0.5).sub_models(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
STEP = SubModelStep(SUB_MODELS)
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
