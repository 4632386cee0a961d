"""Samples are checked against a run's schema."""

import numpy as np
import pytest
import torch

from fedloom.core.errors import FedloomError
from fedloom.data.tables.schema import DataSchema
from fedloom.data.tables.under_schema import conforming_samples

CHARACTERS = DataSchema(
    kind="columns", sites=("a",), shape=(3,), dtype="uint8", classes=5, target_shape=(2,), symbols=True
)


def test_sequences_of_symbols_are_checked_against_the_vocabulary():
    x, y = np.array([[0, 4, 1], [2, 2, 2]]), np.array([[1, -100], [4, 0]])
    made = conforming_samples(x, y, CHARACTERS, "mine.npz")
    assert made.columns["x"].dtype == torch.uint8
    assert made.columns["y"].tolist() == y.tolist()
    with pytest.raises(FedloomError, match="row 2 has an input outside 0 to 4"):
        conforming_samples(np.array([[0, 0, 0], [0, 5, 0]]), y, CHARACTERS, "mine.npz")
    with pytest.raises(
        FedloomError, match="the target 5 of row 1 is not a class of the task: its 5 classes are numbered"
    ):
        conforming_samples(x, np.array([[1, 5], [0, 0]]), CHARACTERS, "mine.npz")
    with pytest.raises(FedloomError, match="the inputs are float32, but the task needs uint8"):
        conforming_samples(x.astype(float), y, CHARACTERS, "mine.npz")
    with pytest.raises(FedloomError, match="row 1 has an input outside 0 to 255"):
        conforming_samples(x - 1, y, CHARACTERS.model_copy(update={"symbols": False}), "mine.npz")
