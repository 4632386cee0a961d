"""The description is true and the picture is a picture, for a few clients and for many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import fedloom.data as fd


def test_one_class_per_client_is_described_so() -> None:
    y = torch.arange(1000) % 10
    made = fd.federate(fd.Samples({"x": torch.zeros(1000, 2), "y": y}, 10), fd.dirichlet(0), 10, global_share=0.0)
    facts = fd.describe(made)
    assert facts["effective_classes"] == pytest.approx(1)
    assert facts["label_distance"] == pytest.approx(0.9)
    assert facts["smallest_client"] == facts["largest_client"] == 80
    assert facts["train_samples"] + facts["test_samples"] == 1000


@pytest.mark.parametrize(("clients", "classes"), [(1, 2), (5, 10), (30, 60), (60, 10), (500, 3)])
def test_pictures_of_few_and_many_clients(tmp_path: Path, clients: int, classes: int) -> None:
    y = np.random.default_rng(0).integers(0, classes, 5000)
    made = fd.from_arrays(np.zeros((5000, 1)), y, clients=clients, partition="dirichlet(0.3)", classes=classes)
    path = tmp_path / "p.png"
    fd.plot_federation(made, path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_sequence_targets_are_drawn_by_size(tmp_path: Path) -> None:
    columns = {"x": torch.zeros(50, 4), "y": torch.zeros(50, 4, dtype=torch.int64)}
    made = fd.federate(fd.Samples(columns, 9), fd.power_law(), 5)
    fd.plot_federation(made, tmp_path / "p.png")
    assert "effective_classes" not in fd.describe(made)
