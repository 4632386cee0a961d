"""Keyed dropout: the right rate, and a function of nothing but its key."""

import torch
from torch import nn

from fedloom.training.keyed_dropout import KeyedDropout, _mix, _mix_words, step_key, with_keyed_dropout


def test_the_share_of_dropped_units_is_p_and_the_mean_is_kept():
    layer = KeyedDropout(0.3, layer=2)
    out = layer.drop(torch.ones(400, 500), torch.tensor(12345))
    assert abs(float((out == 0).float().mean()) - 0.3) < 0.005
    assert abs(float(out.mean()) - 1) < 0.01


def test_masks_differ_between_keys_layers_and_steps_and_repeat_for_the_same():
    x, key = torch.ones(10, 100), torch.tensor(7)
    first = KeyedDropout(0.5, 0).drop(x, key)
    assert torch.equal(first, KeyedDropout(0.5, 0).drop(x, key))
    for other in (KeyedDropout(0.5, 1).drop(x, key), KeyedDropout(0.5, 0).drop(x, step_key(key, 1))):
        agreement = float(((first == 0) == (other == 0)).float().mean())
        assert 0.4 < agreement < 0.6


def test_words_of_32_bits_are_mixed_as_numbers_of_64_bits_are():
    numbers = torch.tensor([0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, *range(12345, 1 << 32, 98765431)])
    assert torch.equal(_mix_words(numbers.to(torch.int32)).long() & 0xFFFFFFFF, _mix(numbers))


def test_many_clients_at_once_are_the_clients_one_by_one():
    layer, keys, x = KeyedDropout(0.4, 1), torch.tensor([5, 6, 7]), torch.ones(3, 8, 20)
    together = layer.drop(x, keys)
    for k in range(3):
        assert torch.equal(together[k], layer.drop(x[k], keys[k]))


def test_a_padded_batch_drops_the_same_units_of_its_real_samples():
    layer, key = KeyedDropout(0.5, 0), torch.tensor(3)
    assert torch.equal(layer.drop(torch.ones(9, 30), key)[:5], layer.drop(torch.ones(5, 30), key))


def test_a_models_dropout_is_replaced_and_evaluation_drops_nothing():
    model = with_keyed_dropout(nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.9))))
    assert isinstance(model[1][0], KeyedDropout)
    assert "noise_key" not in "".join(model.state_dict())
    model.eval()
    x = torch.randn(2, 4)
    assert torch.equal(model(x), model[0](x))
