"""The named tasks over data sets, with local work that is known to train their models.

A new one is a line here, and a line in the table of ``registry/builtin.py``.
"""

from __future__ import annotations

from fedloom.core.local_work import LocalWork
from fedloom.tasks.dataset_task import DatasetBuilder

DIGITS = DatasetBuilder("digits", LocalWork(lr=0.1, batch_size=32))
MNIST = DatasetBuilder("mnist", LocalWork(lr=0.05, batch_size=32))
MNIST_WRITERS = DatasetBuilder("mnist-writers", LocalWork(lr=0.05, batch_size=20))
FASHION_MNIST = DatasetBuilder("fashion-mnist", LocalWork(lr=0.05, batch_size=32))
CIFAR10 = DatasetBuilder("cifar10", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4))
CIFAR10_CNN = DatasetBuilder("cifar10", LocalWork(lr=0.01, batch_size=64), model="cnn")
CIFAR100 = DatasetBuilder("cifar100", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4))
GTSRB = DatasetBuilder("gtsrb", LocalWork(lr=0.02, batch_size=32))
HAR = DatasetBuilder("har", LocalWork(lr=0.02, batch_size=32))
HAR_COLUMNS = DatasetBuilder("har-columns", LocalWork(lr=0.02, batch_size=32))
SHAKESPEARE = DatasetBuilder("shakespeare", LocalWork(lr=1.0, batch_size=100, weight_decay=1e-4))
STACKEXCHANGE = DatasetBuilder("stackexchange", LocalWork(lr=0.316, batch_size=16))
