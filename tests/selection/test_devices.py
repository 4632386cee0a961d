"""Devices: what a round costs in time and energy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedloom.core.seeds import numpy_generator
from fedloom.selection.devices import BATTERIES, Devices, draw_devices


def draw(clients=200, samples=None, seed=0):
    return draw_devices(numpy_generator(seed, "devices", 0), np.full(clients, 50.0) if samples is None else samples)


def two():
    return Devices(*(np.array(pair, dtype=float) for pair in ([1000, 1000], [500, 800], [4, 3], [10, 2], [5, 6])))


def test_energy_is_power_by_time_of_training_and_of_sending():
    assert two().latency.tolist() == [15, 8]
    assert two().energy == pytest.approx([4 * 10 + 2.22 * 5, 3 * 2 + 2.22 * 6])


def test_a_worker_pays_for_its_work_and_everybody_idles_until_the_slowest_is_done():
    devices, battery = two(), np.array([500.0, 800.0])
    both = devices.after_round(battery, np.array([True, True]))
    assert both == pytest.approx([500 - 51.1, 800 - 19.32 - 0.1 * 7])
    second = devices.after_round(battery, np.array([False, True]))
    assert second == pytest.approx([500 - 0.1 * 8, 800 - 19.32])
    assert devices.after_round(np.array([1.0, 1.0]), np.array([True, True])).tolist() == [0, 0]


def test_devices_lie_in_the_published_ranges():
    devices = draw()
    full = [mah * 3.85 * 3.6 for mah in BATTERIES]  # the smallest is 48,510 joules
    assert full[0] == pytest.approx(48510)
    assert {round(c) for c in devices.capacity} == {round(c) for c in full}
    level = devices.charge / devices.capacity
    assert 0.3 <= level.min() < 0.35
    assert 0.95 < level.max() <= 1
    assert 2.1 <= devices.power.min() < devices.power.max() <= 5.1
    assert 5 <= devices.sending.min() < devices.sending.max() <= 6.1
    assert 0.4 <= devices.training.min() < 1
    assert 10 < devices.training.max() <= 16


@given(st.integers(1, 40), st.floats(0.1, 1000))
def test_training_time_grows_with_a_clients_share_and_not_with_the_size_of_the_data_set(clients, factor):
    samples = np.arange(1.0, clients + 1)
    one, larger = draw(samples=samples), draw(samples=factor * samples)
    assert np.allclose(one.training, larger.training)
    equal = draw(clients)
    assert np.allclose(one.training / equal.training, samples / samples.mean())
    assert np.array_equal(one.capacity, equal.capacity)


def test_the_same_seed_gives_the_same_devices():
    assert np.array_equal(draw().charge, draw().charge)
    assert not np.array_equal(draw().charge, draw(seed=1).charge)
