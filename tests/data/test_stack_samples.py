"""Samples as one array; what does not fit is named by its number, its shape and what to do."""

import numpy as np
import pytest
import torch
from scipy import sparse

from fedloom.core.errors import FedloomError
from fedloom.data.from_arrays import from_arrays
from fedloom.data.stack_samples import dense_array, stack_samples

Y = np.arange(20) % 2


def shapes(*given):
    return [np.zeros(shape) for shape in given]


def test_lists_arrays_and_tensors_of_one_shape_are_one_array():
    assert stack_samples([[1.0, 2.0], np.ones(2), torch.zeros(2, requires_grad=True)], "x").tolist() == [
        [1, 2], [1, 1], [0, 0]]  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        (
            shapes(*[(3, 18)] * 16, (3, 20), (3, 18)),
            r"x: sample 17 has shape \(3, 20\), and the others \(3, 18\): sequences of unequal length are \(steps, "
            r"channels\) each, so turn these around, or pad them\.",
        ),
        (
            shapes((3, 8, 8), (3, 8, 8), (1, 8, 8), (3, 9, 9)),
            r"sample 3 has shape \(1, 8, 8\), and most others \(3, 8, 8\): resize or pad them to one shape\.",
        ),
        ([1.0, [1.0, 2.0], 3.0], r"sample 2 has shape \(2,\), and the others \(\): give one shape for all samples\."),
        ([1.0, None], "x: sample 2 is None that is no array of numbers: give numbers of one shape"),
        ([np.zeros(2), {"a": 1}], "x: sample 2 is a dict that is no array of numbers"),
    ],
)
def test_the_sample_that_does_not_fit_is_named_with_a_remedy(samples, sentence):
    with pytest.raises(FedloomError, match=sentence) as caught:
        stack_samples(samples, "x")
    assert "\n" not in str(caught.value)


def test_arrays_of_channels_and_steps_say_which_sample_differs_and_that_time_comes_first():
    with pytest.raises(FedloomError, match=r"own data: sample 17 has shape \(3, 20\), and the others \(3, 18\)"):
        from_arrays(shapes(*[(3, 18)] * 16, (3, 20), *[(3, 18)] * 3), Y, clients=2)


def test_sparse_matrices_are_made_dense_within_the_memory_of_the_machine():
    matrix = sparse.random(20, 6, density=0.3, random_state=0, format="csr", dtype=np.float32)
    made = from_arrays(matrix, Y, clients=2)
    assert np.array_equal(made.columns["x"].numpy(), matrix.toarray())
    labels = sparse.csr_matrix(np.stack([Y, 1 - Y, Y], 1))
    assert from_arrays(matrix, labels, clients=2).columns["y"].tolist() == labels.toarray().tolist()
    wide = sparse.csr_matrix((20, 10**14), dtype=np.float32)
    with pytest.raises(FedloomError, match="own data, as an array that is not sparse, has 8 PB, and this machine"):
        dense_array(wide, "own data")


@pytest.mark.filterwarnings("error")
def test_a_memory_map_stays_one_and_warns_of_nothing(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    made = from_arrays(mapped, Y, clients=2)
    assert made.columns["x"].data_ptr() == mapped.ctypes.data
