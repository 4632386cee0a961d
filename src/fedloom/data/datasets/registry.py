"""The named data sets and how to load one as a federation.

An entry says what the inputs are, how they are normalised, who the natural clients are and what the file is called;
``load`` puts reader, partitioner and split together. ``mean`` and ``std`` are per channel and meant for inputs in
[0, 1] (uint8 images divided by 255) or, for signals, for the inputs as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.inputs import Shape
from fedloom.data.datasets.images import HAR_COLUMNS, read_digits, read_har, read_har_columns, read_images, read_signs
from fedloom.data.datasets.texts import CHARACTERS, PIECE, WINDOW, WORDS, read_shakespeare, read_stackexchange
from fedloom.data.federate import Samples, federate
from fedloom.data.federation import Federation
from fedloom.data.folder import data_folder, find
from fedloom.data.partition.base import Partitioner
from fedloom.data.partition.label_skew import Dirichlet
from fedloom.data.partition.natural import Natural
from fedloom.data.partition.quantity_skew import Quantities
from fedloom.data.partition.registry import partitioner

Kind = Literal["image", "signal", "characters", "words"]
Channels = tuple[float, ...]
"""A number per channel."""
MODERATE = Dirichlet(0.5)
HAR_MEAN = (0.0002, -0.0002, 0.0, 0.0054, -0.0022, -0.0077, 0.8091, 0.0209, 0.0845)
HAR_STD = (0.1897, 0.1178, 0.0988, 0.3998, 0.3659, 0.2483, 0.4110, 0.3969, 0.3434)
GREY = ((0.1307,), (0.3081,))


@dataclass(frozen=True)
class Dataset:
    """One named data set: what it is, its file in the data folder, its reader and its defaults."""

    name: str
    description: str
    licence: str
    kind: Kind
    shape: Shape | Mapping[str, Shape]
    """The shape of one input, or of each input column by name; so are ``mean`` and ``std``."""
    classes: int
    read: Callable[..., Samples]
    file: str | None = None
    natural: str | None = None
    partition: Partitioner = MODERATE
    clients: int | None = 20
    mean: Channels | Mapping[str, Channels] = ()
    std: Channels | Mapping[str, Channels] = ()

    def is_present(self, folder: Path | None = None) -> bool:
        """Whether the data can be loaded now."""
        return self.file is None or ((folder or data_folder()) / self.file).is_file()

    def samples(self, folder: Path | None = None, **options: Any) -> Samples:
        """Read the samples; options go to the reader (``stride`` for shakespeare)."""
        path = None if self.file is None else find(self.name, self.file, folder)
        try:
            return self.read(path, **options)
        except TypeError as error:
            if "unexpected keyword argument" not in str(error):
                raise
            raise FedloomError(f"the data set {self.name} has no option {', '.join(options)}.") from None


def _read_writers(path: Path) -> Samples:
    samples = read_images(path, 10, names=[str(digit) for digit in range(10)])
    if samples.natural is None:
        raise FedloomError(
            f"{path} does not say who wrote which digit: convert MNIST again with the two QMNIST label files beside it."
        )
    return samples


FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]

_ALL = [
    Dataset(
        "digits",
        "1,797 handwritten digits, 8×8; ships with scikit-learn",
        "BSD (scikit-learn), CC BY 4.0 (UCI)",
        "image",
        (1, 8, 8),
        10,
        read_digits,
        mean=(0.3053,),
        std=(0.3760,),
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
    Dataset(
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
    ),
]
DATASETS: Mapping[str, Dataset] = {entry.name: entry for entry in _ALL}


def dataset(name: str) -> Dataset:
    """The entry of a data set by name; case does not matter, and - and _ are the same."""
    key = name.strip().lower().replace("_", "-")
    if key not in DATASETS:
        raise unknown("data set", name, DATASETS)
    return DATASETS[key]


def default_clients(entry: Dataset, partition: Partitioner) -> int | None:
    """The number of clients if nobody names one; None if the data say it: all natural clients with enough samples."""
    if isinstance(partition, Natural):
        return None
    return len(partition.sizes) if isinstance(partition, Quantities) else entry.clients or 100


def load(
    name: str,
    *,
    clients: int | None = None,
    partition: Partitioner | str | Mapping[str, Any] | None = None,
    seed: int = 0,
    test_share: float = 0.2,
    valid_share: float = 0.0,
    global_share: float = 0.15,
    communal_share: float = 0.0,
    folder: Path | None = None,
    **options: Any,
) -> Federation:
    """A named data set as a federation.

    Args:
        name: A name of ``fedloom list data``.
        clients: The number of clients; None is the data set's default, and all natural clients with enough samples
            where the partition is natural.
        partition: How the data are divided: a partitioner, ``"dirichlet(0.1)"``, or a mapping with ``name``; None is
            the data set's default.
        seed: The seed of all random choices.
        test_share: The share of each client's samples for testing.
        valid_share: The share of each client's samples for validation.
        global_share: The share of all samples for the global test set, where the data set has no official one.
        communal_share: The share of all samples that is set aside for everyone to see.
        folder: Where the data sets' files are; None is the data folder (``FEDLOOM_DATA``).
        **options: Options of the data set's reader.
    """
    entry = dataset(name)
    chosen = entry.partition if partition is None else partitioner(partition)
    clients = default_clients(entry, chosen) if clients is None else clients
    return federate(
        entry.samples(folder, **options),
        chosen,
        clients,
        seed=seed,
        test_share=test_share,
        valid_share=valid_share,
        global_share=global_share,
        communal_share=communal_share,
        title=entry.name,
    )
