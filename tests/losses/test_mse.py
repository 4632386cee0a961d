"""Mean squared error: torch's, per sample."""

import torch
import torch.nn.functional as F

from fedloom.losses.mse import MSE


def test_its_mean_is_torchs_and_its_score_is_the_squared_error():
    outputs, targets = torch.randn(30, 1), torch.randn(30)
    values, counts = MSE().losses(outputs, targets)
    assert torch.isclose(values.sum() / counts.sum(), F.mse_loss(outputs.flatten(), targets))
    assert torch.equal(MSE().scores(outputs, targets)[0], values)
    assert MSE.score == "squared_error"


def test_outputs_may_lack_the_last_axis():
    outputs, targets = torch.randn(30), torch.randn(30)
    assert torch.equal(MSE().losses(outputs, targets)[0], MSE().losses(outputs[:, None], targets)[0])
