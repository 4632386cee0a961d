"""One named data set, and how it is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Shape
from fedloom.data.federate import Samples
from fedloom.data.folder import data_folder, find
from fedloom.data.partition.base import Partitioner
from fedloom.data.partition.label_skew import Dirichlet
from fedloom.registry.kinds import DATASETS

Kind = Literal["image", "signal", "characters", "words"]
Channels = tuple[float, ...]
"""A number per channel."""
MODERATE = Dirichlet(0.5)


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


def dataset(name: str) -> Dataset:
    """The entry of a data set by name, in any spelling."""
    entry: Dataset = DATASETS.find(name)
    return entry
