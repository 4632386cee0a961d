"""Tensors in shared memory come back as they were written."""

import os

import pytest
import torch

from fedloom.engines.shared_tensors import ALIGNMENT, SharedTensors

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool,
]  # fmt: skip


@pytest.fixture
def shared():
    made = SharedTensors()
    yield made
    made.close()


def write_and_read(shared, tensors):
    return shared.read(shared.write(tensors))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (7,), (2, 3, 5)], ids=str)
def test_every_dtype_and_shape_comes_back(shared, dtype, shape):
    tensor = torch.randint(0, 2, shape).to(dtype)
    back = write_and_read(shared, {"before": torch.ones(5), "it": tensor, "after": torch.ones(3)})
    assert back["it"].dtype == dtype
    assert back["it"].shape == shape
    assert torch.equal(back["it"], tensor)
    assert back["before"].tolist() == [1] * 5
    assert back["after"].tolist() == [1] * 3


def test_nothing_but_empty_tensors_comes_back_too(shared):
    back = write_and_read(shared, {"none": torch.zeros(0, 4), "neither": torch.zeros(2, 0, dtype=torch.int64)})
    assert {name: (tuple(t.shape), t.dtype) for name, t in back.items()} == {
        "none": ((0, 4), torch.float32),
        "neither": ((2, 0), torch.int64),
    }
    assert write_and_read(shared, {}) == {}


def test_a_spread_row_and_a_transposed_one_are_written_by_value(shared):
    spread, turned = torch.arange(3.0).expand(4, 3), torch.arange(6.0).view(2, 3).T
    back = write_and_read(shared, {"spread": spread, "turned": turned})
    assert torch.equal(back["spread"], spread)
    assert torch.equal(back["turned"], turned)


def test_every_tensor_starts_at_a_cache_line(shared):
    header = shared.write({str(size): torch.arange(float(size)) for size in (1, 15, 16, 17, 100)})
    assert [offset for *_, offset in header] == [0, 64, 128, 192, 320]
    assert all(view.data_ptr() % ALIGNMENT == 0 for view in shared.read(header).values())


def test_a_shared_block_grows_with_what_is_written_and_keeps_its_size(shared):
    assert write_and_read(shared, {"small": torch.ones(2)})["small"].tolist() == [1, 1]
    large = torch.randn(100_000)
    assert torch.equal(write_and_read(shared, {"large": large})["large"], large)
    assert os.fstat(shared.file).st_size >= large.nbytes
    assert write_and_read(shared, {"small": torch.zeros(2)})["small"].tolist() == [0, 0]


def test_views_are_of_the_same_memory_and_another_process_reads_what_grew_after_the_fork(shared):
    shared.write({"small": torch.ones(2)})
    asks, replies = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        size = int.from_bytes(os.read(asks[0], 8), "little")
        seen = shared.read([("large", "float32", (size,), 0)])["large"].numpy()  # torch's threads are gone in a fork
        os.write(replies[1], int(seen.sum()).to_bytes(8, "little"))
        os._exit(0)
    shared.write({"large": torch.ones(50_000)})
    os.write(asks[1], (50_000).to_bytes(8, "little"))
    assert int.from_bytes(os.read(replies[0], 8), "little") == 50_000
    assert os.waitpid(child, 0)[1] == 0
    for end in (*asks, *replies):
        os.close(end)


def test_a_shared_block_leaves_no_name_in_any_file_system(shared):
    shared.write({"it": torch.ones(1000)})
    target = os.readlink(f"/proc/self/fd/{shared.file}")
    assert not os.path.exists(target)
