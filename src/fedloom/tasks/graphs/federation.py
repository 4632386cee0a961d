"""A federation whose clients hold graphs: a sample is the copy of a node at a client.

The column ``x`` is a copy's number and ``y`` its class (-1 where it has none). A node's part (train, validation or
test) travels with every copy, so a node that two clients hold is trained on, or tested, at both. The global test set
is the test nodes in the whole graph, which only the evaluating node sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.data.federation import Federation, Ragged
from fedloom.models.graph import Graphs
from fedloom.tasks.graphs.labelled_graph import LabelledGraph
from fedloom.tasks.graphs.split import GraphSplit


@dataclass(frozen=True, repr=False)
class GraphFederation(Federation):
    """Clients with a graph each; ``graphs`` has them and the whole graph."""

    graphs: Graphs = field(kw_only=True)

    @staticmethod
    def of(source: LabelledGraph, divided: GraphSplit) -> GraphFederation:
        """From a whole graph with its nodes' classes and parts, and its division."""
        if source.parts is None:
            raise FedloomError(f"{source.name} does not say which nodes are for training and which are for testing.")
        graphs, parts, ids = divided.graphs, source.parts, divided.graphs.ids
        copies = [graphs.positions(block) for block in range(graphs.clients + 1)]

        def positions(part: str) -> Ragged:
            return Ragged.of([some[parts[part][ids[some]]] for some in copies[:-1]])

        return GraphFederation(
            columns={"x": torch.arange(graphs.copies), "y": source.labels[ids]},
            train=positions("train"),
            test=positions("test"),
            valid=positions("valid"),
            classes=source.classes,
            global_test=copies[-1][parts["test"][ids[copies[-1]]]],
            names=divided.names,
            class_names=source.class_names,
            title=source.name,
            graphs=graphs,
        )

    def __post_init__(self) -> None:
        empty = (self.train.sizes == 0).nonzero().flatten().tolist()
        if len(self.train) and empty:
            others = f" (and {len(empty) - 1} others)" if len(empty) > 1 else ""
            raise FedloomError(
                f"client {self.name(empty[0])}{others} holds no node with a training label: use fewer clients, "
                "another seed of the split, or label more nodes."
            )
        super().__post_init__()

    @property
    def points(self) -> Tensor:
        """How many nodes each client holds, labelled or not."""
        return super().points if self.clients != self.graphs.clients else self.graphs.sizes

    @property
    def fingerprint_tensors(self) -> list[Tensor]:
        """What the data are besides their columns: who holds which node, and the whole graph's edges and features."""
        whole = self.graphs.original(self.graphs.whole)
        return [self.graphs.ids, whole.edges, whole.features.columns, whole.features.values]

    @property
    def samples_are_independent(self) -> bool:
        """What a model says of a node depends on its neighbours."""
        return False

    def with_validation_part(self, share: float) -> GraphFederation:
        """Refused: a node that was trained on has told its neighbours."""
        raise FedloomError(
            "the nodes of clients' graphs cannot be set aside for validation afterwards: build the task with "
            "valid_share, for instance 0.2."
        )

    def subsample(self, pick: Callable[[Tensor], Tensor], global_test: int) -> GraphFederation:
        """The federation itself: a graph cannot be subsampled."""
        return self

    def as_one_client(self, without: Sequence[int] = ()) -> GraphFederation:
        """One client with the whole graph; it trains on the training nodes of all clients but those in ``without``."""
        ids = self.graphs.ids
        known = [ids[self.train[client]] for client in range(self.clients) if client not in without]
        trained = torch.isin(ids[self.graphs.positions(self.graphs.whole)], torch.cat(known))
        nobody = Ragged.empty(1)
        return replace(
            self,
            train=Ragged.of([self.graphs.positions(self.graphs.whole)[trained]]),
            test=nobody,
            valid=nobody,
            names=(),
            withheld=None,
            counted=None,
        )
