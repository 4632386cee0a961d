"""Centralised training: all samples in one place, nothing sent."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from support.checkpoints import WORK, final_row
from support.synthetic import SIZES, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_client_with_all_data_is_centralised_to_the_byte(tmp_path, execution):
    task = small_task()
    alone = replace(task, federation=task.federation.as_one_client())
    assert torch.equal(alone.federation.train[0], task.federation.train.order)
    one = final_row(tmp_path / "one", "fedavg", alone, execution=execution)
    all_of_it = final_row(tmp_path / "all", "centralised", task, execution=execution)
    assert one.numpy().tobytes() == all_of_it.numpy().tobytes()
    assert not torch.equal(one, final_row(tmp_path / "four", "fedavg", task, execution=execution))


def test_centralised_training_sends_nothing_and_is_scored_on_everybodys_test_part():
    history = fl.run(small_task(), "centralised", rounds=2, local=WORK)
    assert history.total("bytes_up") == history.total("bytes_down") == 0
    assert [client["train"] for client in history.clients] == SIZES
    assert history.records[-1]["steps"] == 2 * 7  # two epochs of ⌈112 / 16⌉ batches
    assert not any(name.startswith(("received_model", "trained_model")) for name in history.records[-1]["metrics"])
