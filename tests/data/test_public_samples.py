"""Samples of a file or of another data set: with the task's inputs, and none that is a test sample too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom.data as fd
from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.public_samples import append_samples, read_public_file


def made(samples=60, seed=0):
    x = np.random.default_rng(seed).integers(0, 4, (samples, 2)).astype(np.uint8)
    return fd.from_arrays(x, np.arange(samples) % 3, classes=3, clients=3, seed=seed, valid_share=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 50))
def test_no_appended_sample_equals_a_test_or_validation_sample(count, seed):
    """There are only 16 different inputs, so most of them do."""
    held = made(seed=seed)
    x = torch.from_numpy(np.random.default_rng(seed + 1).integers(0, 5, (count, 2)).astype(np.uint8))
    more = {"x": x, "y": torch.zeros(count, dtype=torch.int64)}
    measured = {tuple(row) for row in held.columns["x"][torch.cat([held.test.order, held.valid.order])].tolist()}
    measured |= {tuple(row) for row in held.columns["x"][held.global_test].tolist()}
    fresh = [row for row in x.tolist() if tuple(row) not in measured]
    if not fresh:
        with pytest.raises(FedloomError, match="every sample of other is also a test or validation sample"):
            append_samples(held, more, "server_set", "other")
        return
    joined, positions = append_samples(held, more, "server_set", "other")
    assert joined.columns["x"][positions].tolist() == fresh
    assert torch.equal(joined.columns["x"][: len(held.columns["y"])], held.columns["x"])
    dropped = count - len(fresh)
    assert any(f"{dropped} samples of other are test" in note for note in joined.notes) == bool(dropped)


def test_a_file_is_read_under_the_tasks_columns(tmp_path):
    held, path = made(), tmp_path / "public.npz"
    np.savez(path, x=np.full((3, 2), 9, np.uint8), y=np.array([2, 0, 1]))
    assert read_public_file(path, held, labelled=True)["y"].tolist() == [2, 0, 1]
    assert read_public_file(path, held, labelled=False)["y"].tolist() == [IGNORED] * 3
    np.savez(path, x=np.full((3, 5), 9, np.uint8))
    with pytest.raises(FedloomError, match=r"an input has shape \(5,\), but the task needs \(2,\)"):
        read_public_file(path, held, labelled=False)
    np.savez(path, x=np.full((3, 2), 0.5))
    with pytest.raises(FedloomError, match="the inputs are float32, but the task needs uint8"):
        read_public_file(path, held, labelled=False)
    with pytest.raises(FedloomError, match=r"none\.npz does not exist"):
        read_public_file(tmp_path / "none.npz", held, labelled=False)


def test_a_table_is_encoded_as_the_tasks_own(tmp_path):
    own, public = tmp_path / "own.csv", tmp_path / "public.csv"
    colours = ["red", "blue", "green"]
    own.write_text(
        "size,colour,label\n" + "".join(f"{i % 7 + 0.5},{colours[i % 3]},{'ab'[i % 2]}\n" for i in range(60))
    )
    public.write_text("colour,size\nblue,1.5\nred,2.5\n")
    held = fd.read(own, clients=2)
    samples = read_public_file(public, held, labelled=False)
    assert samples["x"].shape == (2, held.columns["x"].shape[1])
    assert held.plan is not None
    assert samples["x"][:, held.plan.features.index("size")].tolist() == [1.5, 2.5]
    places = [held.plan.features.index(name) for name in held.plan.features if "blue" in name]
    assert samples["x"][:, places].flatten().tolist() == [1.0, 0.0]
