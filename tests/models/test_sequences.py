"""Models of sequences of unequal length: padding changes no output."""

import pytest
import torch
import torch.nn.functional as F

from fedloom.models import build


def sequences(lengths, steps, channels=3):
    """Random sequences; padding is garbage where the last channel is 0, which models must not see."""
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(len(lengths), channels, 40, generator=draw)[:, :, :steps]
    real = (torch.arange(steps) < torch.tensor(lengths)[:, None]).float()[:, None]
    return torch.cat([values * real + 9 * (1 - real), real], 1)


@pytest.mark.parametrize("name", ["sequence-conv", "sequence-lstm"])
def test_more_padding_gives_the_same_outputs(name):
    model = build(name, (4, 12), 5, 0)
    lengths = [12, 7, 1, 3]
    short, longer = sequences(lengths, 12), sequences(lengths, 40)
    assert torch.allclose(model(short), model(longer), atol=1e-6)
    alone = short[1:2, :, :7]
    assert torch.allclose(model(short)[1], model(alone)[0], atol=1e-6)


def test_the_lstm_answers_with_its_state_at_the_last_real_step():
    model = build("sequence-lstm", (4, 12), 5, 0, hidden=8)
    x = sequences([12, 7], 12)
    for row, length in enumerate((12, 7)):
        states, _ = model.lstm(x[row : row + 1, :3, :length].transpose(1, 2))
        assert torch.allclose(model.features(x)[row], states[0, -1], atol=1e-6)


def test_the_mean_of_the_convolutions_is_over_real_steps():
    model = build("sequence-conv", (2, 6), 2, 0, width=4)
    x = sequences([6, 2], 6, channels=1)
    seen = F.relu(model.second(F.relu(model.first(x[1:, :1, :2]))))
    assert torch.allclose(model.features(x)[1], seen[0].mean(1), atol=1e-6)


@pytest.mark.parametrize("name", ["sequence-conv", "sequence-lstm"])
def test_several_clients_train_together_as_each_alone(name):
    model = build(name, (4, 12), 5, 0)
    weights = {key: torch.stack([value, value + 0.1]) for key, value in model.state_dict().items()}
    x = torch.stack([sequences([12, 7], 12), sequences([3, 9], 12)])
    call = torch.func.functional_call
    together = torch.func.vmap(lambda w, one: call(model, w, (one,)))(weights, x)
    for k in range(2):
        alone = call(model, {key: value[k] for key, value in weights.items()}, (x[k],))
        assert torch.allclose(together[k], alone, atol=1e-5)
