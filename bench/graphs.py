"""FullGN training against a plain PyTorch Geometric loop that does the same work.

The plain loop is written the usual way: a ``MetaLayer`` per block with its update functions on concatenations, a
``DataLoader`` over ``Data`` objects, ``torch.optim.SGD``. Fedloom trains the same points through ``Cohort.train``:
shuffling, cutting points out of flows and packing batches count on both sides. So that collation is not all that is
measured, a second comparison gives the plain loop its batches ready-made, while Fedloom still makes its own. One torch
thread, batches of 128.

    python bench/graphs.py --repeat 7
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MetaLayer
from torch_geometric.utils import scatter

from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.models.fullgn import FullGN
from fedloom.models.graph_network_block import Block, Phi
from fedloom.tasks.task import task
from fedloom.training.local_trainer import LocalTrainer
from measure import Contenders, arguments, best_times, line

BATCH, RATE = 128, 0.01


class EdgeModel(nn.Module):
    """``e' = phi_e([v_src, v_dst, e, u])``."""

    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, src: Tensor, dst: Tensor, edge_attr: Tensor, u: Tensor, batch: Tensor) -> Tensor:
        """The new edges."""
        return self.mlp(torch.cat([src, dst, edge_attr, u[batch]], 1))


class NodeModel(nn.Module):
    """``v' = phi_v([v, sum of e' into v, u])``."""

    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, u: Tensor, batch: Tensor) -> Tensor:
        """The new nodes."""
        inward = scatter(edge_attr, edge_index[1], dim=0, dim_size=x.size(0), reduce="sum")
        return self.mlp(torch.cat([x, inward, u[batch]], 1))


class GlobalModel(nn.Module):
    """``u' = phi_u([sum of v', sum of e', u])``."""

    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, u: Tensor, batch: Tensor) -> Tensor:
        """The new graphs."""
        nodes = scatter(x, batch, dim=0, dim_size=u.size(0), reduce="sum")
        edges = scatter(edge_attr, batch[edge_index[0]], dim=0, dim_size=u.size(0), reduce="sum")
        return self.mlp(torch.cat([nodes, edges, u], 1))


def meta_layer(block: Block) -> MetaLayer:
    """A block's weights (the same tensors) in PyTorch Geometric's frame."""

    def mlp(phi: Phi) -> nn.Module:
        return nn.Sequential(phi.first, nn.ReLU(), phi.second, nn.ReLU(), phi.norm)

    return MetaLayer(EdgeModel(mlp(block.edge)), NodeModel(mlp(block.node)), GlobalModel(mlp(block.graph)))


class MetaStack(nn.Module):
    """FullGN as one would write it with PyTorch Geometric, on the weights of ours."""

    def __init__(self, model: FullGN) -> None:
        super().__init__()
        self.node, self.edge, self.graph, self.head = model.node, model.edge, model.graph, model.head
        shared = [] if model.shared is None else [meta_layer(model.shared)] * (model.blocks - 1)
        self.layers = nn.ModuleList([meta_layer(model.first), *shared])

    def forward(self, data: Data) -> Tensor:
        """The logits of each graph's last node."""
        x, edge_attr, u = self.node(data.x), self.edge(data.edge_attr), self.graph(data.u)
        for layer in self.layers:
            x, edge_attr, u = layer(x, data.edge_index, edge_attr, u, data.batch)
        return self.head(x[data.ptr[1:] - 1])


def data_objects(made: Task, positions: Tensor) -> list[Data]:
    """The points at some positions as PyTorch Geometric keeps graphs."""
    of_node, of_edge, of_graph = made.model.attributes
    objects = []
    for position in positions:
        row = made.inputs(position[None])[0]
        nodes, edges = row[2:4].tolist()
        cuts = list(accumulate([4, of_graph, nodes * of_node, edges * (2 + of_edge)]))
        graph, node, edge = (row[a:b] for a, b in pairwise(cuts))
        edge = edge.view(edges, 2 + of_edge)
        objects.append(
            Data(
                x=node.view(nodes, of_node),
                edge_index=edge[:, :2].t().contiguous(),
                edge_attr=edge[:, 2:],
                u=graph[None],
                y=made.targets(position[None]),
            )
        )
    return objects


def plain_loop(model: nn.Module, batches: Iterable[Data]) -> Callable[[], object]:
    """An epoch with PyTorch Geometric and torch.optim."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def work() -> None:
        for batch in batches:
            optimizer.zero_grad()
            F.cross_entropy(model(batch), batch.y).backward()
            optimizer.step()

    return work


def ours(made: Task, client: int) -> Callable[[], object]:
    """An epoch of one client through Fedloom."""
    trainer, setting = LocalTrainer(made, "loop"), RunSetting(LocalWork(lr=RATE, batch_size=BATCH), 0, 1)
    row = made.initial_row()

    def work() -> Tensor:
        cohort = Cohort([client], trainer, setting, 1)
        return cohort.train(cohort.spread(row))

    return work


CASES = {
    "synthetic flows": lambda: task("flows", clients=2, options={"largest": 2_000}),
    "n8n workflows": lambda: task("n8n"),
}
"""The largest client of each of them trains."""
QUICK_CASE = "synthetic flows"
"""The guard must run on a machine without public data sets."""


def main() -> None:
    """Measure all cases."""
    options = arguments("FullGN training against a plain PyTorch Geometric loop.")
    torch.set_num_threads(1)
    for name, make in CASES.items():
        if options.only not in name or (options.quick and name != QUICK_CASE):
            continue
        made = make()
        client = int(made.federation.train.sizes.argmax())
        train = made.federation.train[client]
        objects, model = data_objects(made, train), made.model
        loader = DataLoader(objects, BATCH, shuffle=True, generator=torch.Generator().manual_seed(0))
        ready = [Batch.from_data_list(objects[i : i + BATCH]) for i in range(0, len(objects), BATCH)]
        contenders: Contenders = {
            "plain loop": plain_loop(MetaStack(model), loader),
            "plain loop, collated": plain_loop(MetaStack(model), ready),
            "fedloom": ours(made, client),
        }
        best, steps = best_times(contenders, options.repeat), len(ready)
        nodes = made.federation.columns["x"][train, 2].float().mean()
        case = f"{name}, {len(train)} points"
        for contender, (cpu, wall) in best.items():
            more = {"steps_per_s": f"{steps / cpu:.1f}", "nodes_per_point": f"{nodes:.1f}"}
            bar = 1.0 if contender == "fedloom" else None
            line(case, contender, cpu, wall, best["plain loop"][0] / cpu, options.json, bar, **more)
        cpu, wall = best["fedloom"]
        line(f"{case}, collated", "fedloom", cpu, wall, best["plain loop, collated"][0] / cpu, options.json, 1.0)


if __name__ == "__main__":
    main()
