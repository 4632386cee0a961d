"""The sums of a task's metrics for some clients, added up batch by batch while their models are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.registry.user_errors import describe_error

Watch = Callable[[Tensor, Tensor], None]
"""Called with the outputs and the targets of each batch that is evaluated."""


class MetricSums:
    """Sums of metrics, a row per client.

    Args:
        metrics: The metrics.
        clients: How many clients there are.
    """

    def __init__(self, metrics: Sequence[Metric], clients: int) -> None:
        self.metrics, self.clients = metrics, clients
        self.sums: dict[str, dict[int, Tensor]] = {metric.name: {} for metric in metrics}

    def add(self, place: int, outputs: Tensor, targets: Tensor) -> None:
        """Add a batch of the client at a place."""
        for metric in self.metrics:
            found, rows = _sums(metric, outputs, targets), self.sums[metric.name]
            if not isinstance(found, Tensor):
                raise FedloomError(f"metric {metric.name}: sums must give a vector (a tensor), got {found!r}.")
            found, before = found.double(), rows.get(place)
            if found.dim() != 1 or len(found) != len(next(iter(rows.values()), found)):
                raise FedloomError(
                    f"metric {metric.name}: sums must give a vector of the same length for every batch, got one of the "
                    f"shape {list(found.shape)}."
                )
            rows[place] = found if before is None else before + found

    def of_client(self, place: int) -> Watch:
        """Adds each batch to the client at a place."""
        return lambda outputs, targets: self.add(place, outputs, targets)

    def in_order(self, sizes: Sequence[int]) -> Watch:
        """Adds batches of samples that belong to all clients in order, the given number to each."""
        owners = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
        seen = 0

        def watch(outputs: Tensor, targets: Tensor) -> None:
            nonlocal seen
            mine = owners[seen : seen + len(targets)]
            seen += len(targets)
            for place in sorted(set(mine.tolist())):
                self.add(place, outputs[mine == place], targets[mine == place])

        return watch

    def rows(self, one: Callable[[Watch], object]) -> dict[str, Tensor]:
        """The sums of each metric by its name: a row per client, of zeros for a client without samples.

        Args:
            one: Evaluates a single sample; needed where no client has any, to know the length of a row.
        """
        if self.metrics and not all(self.sums.values()):
            sample = MetricSums(self.metrics, 1)
            one(sample.of_client(0))
            rows = {name: torch.zeros_like(found[0]).unsqueeze(0) for name, found in sample.sums.items()}
            return {name: row.repeat(self.clients, 1) for name, row in rows.items()}
        return {name: self._stack(found) for name, found in self.sums.items()}

    def _stack(self, found: dict[int, Tensor]) -> Tensor:
        nothing = torch.zeros_like(next(iter(found.values())))
        return torch.stack([found.get(place, nothing) for place in range(self.clients)])


def _sums(metric: Metric, outputs: Tensor, targets: Tensor) -> Tensor:
    try:
        return metric.sums(outputs, targets)
    except FedloomError:
        raise
    except Exception as error:  # whatever a user's metric raises
        raise FedloomError(
            f"metric {metric.name}: sums cannot take outputs of shape {tuple(outputs.shape)} and targets of shape "
            f"{tuple(targets.shape)}: {describe_error(error)}."
        ) from error
