"""Scarce labels: a share of each client's training samples keep theirs, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.targets import IGNORED
from fedloom.data.changes.label_share import with_label_share
from support.synthetic import cohort, federation, mlp


def test_a_share_of_each_clients_training_labels_stays_and_all_others():
    plain = fl.task("digits", clients=4, seed=1, valid_share=0.1).federation
    held = fl.task("digits", clients=4, seed=1, valid_share=0.1, label_share=0.1).federation
    assert torch.equal(held.train.order, plain.train.order)
    y = held.columns["y"]
    for client in range(4):
        own = y[held.train[client]]
        assert int((own != IGNORED).sum()) == pytest.approx(0.1 * len(own), abs=1)
        assert held.counts()[client].sum() == int((own != IGNORED).sum())
    for part in (held.valid.order, held.test.order, held.global_test):
        assert torch.equal(y[part], plain.columns["y"][part])


def test_a_client_with_one_sample_keeps_its_label():
    held = federation([1, 30])
    y = with_label_share(held, 0.1).columns["y"]
    assert y[0] != IGNORED
    assert int((y[1:] != IGNORED).sum()) == 3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_batch_without_labels_changes_nothing(execution):
    held = federation([8, 8])
    y = held.columns["y"].clone()
    y[:8] = IGNORED
    task = fl.task_of(held.__class__({**held.columns, "y": y}, held.train, held.test, held.valid, 5), mlp())
    group = cohort(task, execution, LocalWork(lr=0.1, batch_size=4))
    rows = group.spread(task.initial_row())
    trained = group.train(rows)
    assert torch.equal(trained[0], rows[0])
    assert not torch.equal(trained[1], rows[1])
    assert trained.isfinite().all()
    assert group.gradient(rows)[0].abs().max() == 0
    assert group.classes().sum(1).tolist() == [0, 8]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_samples_without_labels_do_not_count_in_a_batch(execution):
    """Training with ignored samples in one full batch is training on the labelled ones alone."""
    held = federation([12])
    y = held.columns["y"].clone()
    y[5:] = IGNORED
    work = LocalWork(lr=0.1, batch_size=12)
    some = fl.task_of(held.__class__({**held.columns, "y": y}, held.train, held.test, held.valid, 5), mlp())
    few = {name: column[:5] for name, column in held.columns.items()}
    alone = fl.task_of(held.__class__(few, fl.Ragged.of([np.arange(5)]), held.test, held.valid, 5), mlp())
    prepare = alone.prepare
    rows = [
        cohort(task, execution, work).train(task.initial_row().unsqueeze(0))
        for task in (alone, fl.Task("t", some.federation, some.model, prepare=prepare))
    ]
    assert torch.allclose(*rows, atol=1e-6)


@pytest.mark.parametrize("method", ["fedavg", "fedproto", "moon"])
def test_methods_bear_samples_without_labels(method):
    task = fl.task("digits", clients=3, label_share=0.05)
    history = fl.run(task, method, rounds=1)
    assert 0 <= history.last("client_model/own_test/accuracy/mean") <= 1


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(FedloomError, match=r"label_share=.*: it must be above 0 and at most 1"):
        fl.task("digits", clients=3, label_share=share)


def test_numbers_keep_their_targets():
    held = federation([40])
    measured = held.__class__({**held.columns, "y": torch.rand(40)}, held.train, held.test, held.valid, 1)
    with pytest.raises(FedloomError, match="label_share leaves classes out, but these targets are not classes"):
        with_label_share(measured, 0.5)
