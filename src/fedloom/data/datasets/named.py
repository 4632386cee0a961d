"""The named data sets: what the inputs are, how they are normalised, who the natural clients are, and the file.

``mean`` and ``std`` are per channel and meant for inputs in [0, 1] (uint8 images divided by 255) or, for signals, for
the inputs as they are. A new data set is an entry here, and a line in the table of ``registry/builtin.py``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.data.datasets.dataset import Dataset
from fedloom.data.datasets.images import HAR_COLUMNS, read_digits, read_har, read_har_columns, read_images, read_signs
from fedloom.data.datasets.texts import CHARACTERS, PIECE, WINDOW, WORDS, read_shakespeare, read_stackexchange
from fedloom.data.federate import Samples
from fedloom.data.partition.natural import Natural

HAR_MEAN = (0.0002, -0.0002, 0.0, 0.0054, -0.0022, -0.0077, 0.8091, 0.0209, 0.0845)
HAR_STD = (0.1897, 0.1178, 0.0988, 0.3998, 0.3659, 0.2483, 0.4110, 0.3969, 0.3434)
GREY = ((0.1307,), (0.3081,))


def _read_writers(path: Path) -> Samples:
    samples = read_images(path, 10, names=[str(digit) for digit in range(10)])
    if samples.natural is None:
        raise FedloomError(
            f"{path} does not say who wrote which digit: convert MNIST again with the two QMNIST label files beside it."
        )
    return samples


FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]

DIGITS = Dataset(
    "digits",
    "1,797 handwritten digits, 8×8; ships with scikit-learn",
    "BSD (scikit-learn), CC BY 4.0 (UCI)",
    "image",
    (1, 8, 8),
    10,
    read_digits,
    mean=(0.3053,),
    std=(0.3760,),
)
MNIST = Dataset(
    "mnist",
    "70,000 handwritten digits, 28×28",
    "not stated; QMNIST labels BSD",
    "image",
    (1, 28, 28),
    10,
    partial(read_images, classes=10, names=[str(digit) for digit in range(10)]),
    file="mnist.npz",
    natural="writer",
    clients=100,
    mean=GREY[0],
    std=GREY[1],
)
MNIST_WRITERS = Dataset(
    "mnist-writers",
    "MNIST by the person who wrote the digits",
    "not stated; QMNIST labels BSD",
    "image",
    (1, 28, 28),
    10,
    _read_writers,
    file="mnist.npz",
    natural="writer",
    partition=Natural(10),
    clients=None,
    mean=GREY[0],
    std=GREY[1],
)
FASHION_MNIST = Dataset(
    "fashion-mnist",
    "photographs of clothes, 28×28, 10 classes",
    "MIT",
    "image",
    (1, 28, 28),
    10,
    partial(read_images, classes=10, names=FASHION),
    file="fashion_mnist.npz",
    clients=100,
    mean=(0.2860,),
    std=(0.3530,),
)
CIFAR10 = Dataset(
    "cifar10",
    "colour photographs, 32×32, 10 classes",
    "not stated",
    "image",
    (3, 32, 32),
    10,
    partial(read_images, classes=10, names="class_names"),
    file="cifar10.npz",
    clients=100,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
)
CIFAR100 = Dataset(
    "cifar100",
    "colour photographs, 32×32, 100 classes",
    "not stated",
    "image",
    (3, 32, 32),
    100,
    partial(read_images, classes=100, labels="fine", names="fine_names"),
    file="cifar100.npz",
    clients=100,
    mean=(0.5071, 0.4867, 0.4408),
    std=(0.2675, 0.2565, 0.2761),
)
GTSRB = Dataset(
    "gtsrb",
    "German traffic signs, 32×32, 43 classes",
    "not stated",
    "image",
    (3, 32, 32),
    43,
    read_signs,
    file="gtsrb.npz",
    clients=50,
    mean=(0.3419, 0.3120, 0.3214),
    std=(0.2712, 0.2584, 0.2644),
)
HAR = Dataset(
    "har",
    "human activity from smartphone motion, 9 channels × 128 steps, 30 subjects",
    "free with citation (Anguita 2013, Reyes-Ortiz 2015)",
    "signal",
    (9, 128),
    6,
    read_har,
    file="uci_har.npz",
    natural="subject",
    partition=Natural(10),
    clients=None,
    mean=HAR_MEAN,
    std=HAR_STD,
)
HAR_IN_COLUMNS = Dataset(
    "har-columns",
    "human activity in two input columns, accelerometer 6 × 128 and gyroscope 3 × 128",
    "free with citation (Anguita 2013, Reyes-Ortiz 2015)",
    "signal",
    {name: (len(channels), 128) for name, channels in HAR_COLUMNS.items()},
    6,
    read_har_columns,
    file="uci_har.npz",
    natural="subject",
    partition=Natural(10),
    clients=None,
    mean={name: tuple(HAR_MEAN[channel] for channel in channels) for name, channels in HAR_COLUMNS.items()},
    std={name: tuple(HAR_STD[channel] for channel in channels) for name, channels in HAR_COLUMNS.items()},
)
SHAKESPEARE = Dataset(
    "shakespeare",
    "next character of Shakespeare's plays, by role",
    "public domain text",
    "characters",
    (WINDOW,),
    len(CHARACTERS),
    read_shakespeare,
    file="shakespeare_roles.tsv.gz",
    natural="role",
    partition=Natural(200),
    clients=None,
)
STACKEXCHANGE = Dataset(
    "stackexchange",
    "next word of Stack Exchange posts and comments, by user",
    "CC BY-SA",
    "words",
    (PIECE,),
    WORDS + 4,
    read_stackexchange,
    file="stackexchange_users.tsv.gz",
    natural="user",
    partition=Natural(50),
    clients=None,
)
