"""Mean and spread of the inputs: numpy's, for any shape, in little time and memory."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.data.input_statistics import PIECE, input_statistics

SHAPES = {"table": (3_000, 60), "images": (300, 3, 16, 16), "signals": (200, 9, 128), "one feature": (50, 1)}


@pytest.mark.parametrize("shift", [0.0, 1e4])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_mean_and_spread_are_numpys_over_all_training_samples(shape, shift):
    numbers = np.random.default_rng(1)
    x = (numbers.standard_normal(shape) + shift).astype(np.float32)
    x[: len(x) // 2] *= 3  # the first pieces are unlike the last ones
    made = fl.from_arrays(x, numbers.integers(0, 2, len(x)), clients=5)
    mean, std = input_statistics(made)
    seen = x[made.train.order.numpy()].astype(np.float64)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    np.testing.assert_allclose(mean.numpy(), seen.mean(axes), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(std.numpy(), seen.std(axes), rtol=1e-6)


def test_bytes_are_fractions_of_255_and_what_does_not_vary_has_spread_1():
    x = np.random.default_rng(2).integers(0, 256, (400, 2, 30)).astype(np.uint8)
    x[:, 1] = 7
    made = fl.from_arrays(x, np.arange(400) % 2, clients=4)
    mean, std = input_statistics(made)
    seen = x[made.train.order.numpy()] / 255
    torch.testing.assert_close(mean, torch.tensor(seen.mean((0, 2))).float())
    torch.testing.assert_close(std, torch.tensor([seen[:, 0].std(), 1.0]).float())


def test_a_sample_larger_than_a_piece_is_a_piece():
    x = np.random.default_rng(3).standard_normal((6, 2, PIECE)).astype(np.float32)
    made = fl.from_arrays(x, np.arange(6) % 2, clients=1)
    seen = x[made.train.order.numpy()].astype(np.float64)
    np.testing.assert_allclose(input_statistics(made)[1].numpy(), seen.std((0, 2)), rtol=1e-6)


HIGH_WATER = """
import numpy as np, fedloom as fl
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
def go(samples):
    x = np.random.default_rng(0).standard_normal((samples, 1000), dtype=np.float32)
    data = fl.from_arrays(x, np.arange(samples) % 2, clients=10)
    before = peak()
    fl.run(fl.task_of(data, "logistic"), rounds=1, eval_every=0, selection={"number": 2})
    return (peak() - before) * 1024 / x.nbytes
go(200)
print(go(20_000))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_run_holds_the_users_data_once():
    """80 MB of data: neither the statistics, nor the fingerprint, nor a round needs another copy."""
    done = subprocess.run([sys.executable, "-c", HIGH_WATER], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 0.3
