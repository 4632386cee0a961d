"""A task's model evaluated with given rows: outputs, features, gradients, losses and scores on given samples.

Nothing is trained here, and neither dropout nor augmentation takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs, map_inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.metric import Scores
from fedloom.core.model.model_output import chosen_output
from fedloom.core.network import Collect, features
from fedloom.core.task import Task
from fedloom.training.functional_network import FunctionalNetwork
from fedloom.training.gradients import clip_
from fedloom.training.keyed_dropout import KeyedDropout, with_keyed_dropout
from fedloom.training.layer_graph import LayerGraph, sequential_graph
from fedloom.training.metric_sums import MetricSums, Watch
from fedloom.training.stacked import gradients_of, run_stacked
from fedloom.training.stacked_operations import Untraceable
from fedloom.training.trace import trace

EVALUATION_BATCH = 512
EVALUATION_CHUNK = 64


class Evaluator:
    """A working copy of one task's model, and passes of it with the weights of given rows."""

    def __init__(self, task: Task, execution: str) -> None:
        self.task, self.layout, self.execution = task, task.layout, execution
        self.model = with_keyed_dropout(task.model)
        self.model.train()
        self.drops = [layer for layer in self.model.modules() if isinstance(layer, KeyedDropout)]
        self.frozen = {name: p for name, p in self.model.named_parameters() if not p.requires_grad}
        if any(isinstance(layer, nn.Conv2d) for layer in self.model.modules()):
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.format = torch.channels_last
        else:
            self.format = torch.contiguous_format

    @cached_property
    def graph(self) -> LayerGraph | None:
        """The model as steps on stacked tensors; None if ``untraceable_reason`` says why it is not."""
        return self._graph_or_reason if isinstance(self._graph_or_reason, LayerGraph) else None

    @property
    def untraceable_reason(self) -> str:
        """Why the model is not a graph of operations; empty if it is."""
        return self._graph_or_reason if isinstance(self._graph_or_reason, str) else ""

    @cached_property
    def _graph_or_reason(self) -> LayerGraph | str:
        if self.task.has_named_inputs:
            return "it takes several input columns"
        graph = sequential_graph(self.model)
        if graph is not None:
            return graph
        try:
            return trace(self.model, lambda: self.task.inputs(self.task.sample.expand(2, 3)))
        except Untraceable as reason:
            return str(reason)

    def _load(self, row: Tensor) -> None:
        self.layout.fill(self.model, row)
        self.model.eval()

    def stacks(self, rows: Tensor) -> dict[str, Tensor]:
        """The tensors of a cohort's rows; of a graph also what is frozen, which is the same for each row."""
        stacks = self.layout.stacks(rows)
        if self.graph is None:  # vmap finds in the model what is frozen
            return stacks
        return stacks | {name: frozen.expand(len(rows), *frozen.shape) for name, frozen in self.frozen.items()}

    @torch.no_grad()
    def outputs(self, rows: Tensor, inputs: Inputs) -> Tensor:
        """The outputs of every row on the same prepared inputs: B×n×..."""
        if self.execution == "loop":
            return torch.stack([self._outputs_of_one(row, inputs) for row in rows])
        x = map_inputs(lambda tensor: tensor.expand(len(rows), *tensor.shape), inputs)
        return run_stacked(self.model, self.graph, self.stacks(rows), x, None)

    def _outputs_of_one(self, row: Tensor, inputs: Inputs) -> Tensor:
        self._load(row)
        return self._pass(inputs)

    def _pass(self, inputs: Inputs) -> Tensor:
        return chosen_output(self.model, self.model(inputs))

    @torch.no_grad()
    def features(self, row: Tensor, positions: Tensor) -> Tensor:
        """What the head sees of some samples under one row: n×features."""
        self._load(row)
        return torch.cat(
            [
                features(self.model, self.task.inputs(chunk)).flatten(1)
                for chunk in torch.split(positions, EVALUATION_BATCH)
            ]
        )

    @torch.no_grad()
    def collect(self, rows: Tensor, positions: Tensor, function: Collect) -> dict[str, Tensor]:
        """What a function finds of every row's network on the same samples, by name: B×n×..."""
        stacks = None if self.execution == "loop" else self.layout.stacks(rows)
        chunks: list[dict[str, Tensor]] = []
        for places in torch.split(torch.arange(len(positions)), EVALUATION_BATCH):
            x = self.task.inputs(positions[places])
            if stacks is None:
                chunks.append(self._collect_in_turn(rows, x, places, function))
            else:
                chunks.append(self._collect_together(stacks, x, places, function))
        return {name: torch.cat([chunk[name] for chunk in chunks], dim=1) for name in chunks[0]}

    def _collect_together(
        self, stacks: dict[str, Tensor], x: Inputs, places: Tensor, function: Collect
    ) -> dict[str, Tensor]:
        mask = torch.ones(len(places))

        def one(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return dict(function(FunctionalNetwork(self.model, tensors, mask), x, places))

        self.model.eval()
        found: dict[str, Tensor] = torch.func.vmap(one, randomness="error")(stacks)
        return found

    @torch.no_grad()
    def collect_each(self, rows: Tensor, lists: Sequence[Tensor], function: Collect) -> list[dict[str, Tensor]]:
        """What a function finds of each row's network on its own list of samples, by name: n×..."""
        if self.execution == "loop":
            found = [self.collect(rows[i : i + 1], own, function) for i, own in enumerate(lists)]
            return [{name: tensor[0] for name, tensor in one.items()} for one in found]
        positions = torch.nn.utils.rnn.pad_sequence(list(lists), batch_first=True)
        sizes, stacks = torch.tensor([len(own) for own in lists]), self.layout.stacks(rows)
        pieces: list[list[dict[str, Tensor]]] = [[] for _ in lists]

        def one(tensors: dict[str, Tensor], x: Inputs, mask: Tensor) -> dict[str, Tensor]:
            return dict(function(FunctionalNetwork(self.model, tensors, mask), x, places))

        self.model.eval()
        for places in torch.split(torch.arange(positions.shape[1]), EVALUATION_CHUNK):
            there = (sizes > places[0]).nonzero().flatten()
            real = places < sizes[there, None]
            some = {name: stack[there] for name, stack in stacks.items()}
            x = self.task.inputs(positions[there][:, places])
            chunk: dict[str, Tensor] = torch.func.vmap(one, randomness="error")(some, x, real.float())
            for place, client in enumerate(there.tolist()):
                pieces[client].append({name: tensor[place][real[place]] for name, tensor in chunk.items()})
        return [{name: torch.cat([piece[name] for piece in own]) for name in own[0]} for own in pieces]

    def _collect_in_turn(self, rows: Tensor, x: Inputs, places: Tensor, function: Collect) -> dict[str, Tensor]:
        found, mask = [], torch.ones(len(places))
        for row in rows:
            self._load(row)
            found.append(function(FunctionalNetwork(self.model, self.layout.views(row), mask), x, places))
        return {name: torch.stack([one[name] for one in found]) for name in found[0]}

    def gradients(self, rows: Tensor, lists: Sequence[Tensor], work: LocalWork) -> Tensor:
        """The gradient of each row's mean loss on its list of samples, with the work's weight decay and clipping."""
        task, layout = self.task, self.layout
        out = torch.zeros(len(lists), layout.width)
        moving = {slot.name for slot in layout.trainable}
        parameters = {name: p for name, p in self.model.named_parameters() if name in moving}
        for place, positions in enumerate(lists):
            self._load(rows[place])
            for parameter in parameters.values():
                parameter.requires_grad_(True)
            views, total = layout.views(out[place]), 0.0
            for chunk in torch.split(positions, EVALUATION_BATCH):
                losses, counts = task.objective.losses(self._pass(task.inputs(chunk)), task.targets(chunk))
                gradients = gradients_of(losses.sum(), list(parameters.values()))
                for name, gradient in zip(parameters, gradients, strict=True):
                    views[name] += gradient
                total += float(counts.sum())
            out[place] /= total or 1.0
        if work.clip is not None:
            clip_([out], work.clip)
        decay, trained = work.gradient_decay * rows, layout.trained_columns
        return out + (decay if trained is None else decay * trained)

    def scores(self, rows: Tensor, lists: Sequence[Tensor], metrics: MetricSums | None = None) -> Scores:
        """Loss and score of each row on its own list of samples, in batched passes where the model allows it.

        Args:
            rows: A row per list.
            lists: Positions of samples.
            metrics: Where the sums of metrics are added, the row's place in ``rows`` being the client's.
        """
        if self.execution != "loop" and self.graph is not None:
            return self._scores_together(rows, list(lists), metrics)
        watch = [None if metrics is None else metrics.of_client(place) for place in range(len(lists))]
        sums = [[column.sum() for column in self.sample_scores(rows[i], lists[i], watch[i])] for i in range(len(lists))]
        return Scores(*(torch.stack(column) for column in zip(*sums, strict=True)))

    @torch.no_grad()
    def _scores_together(self, rows: Tensor, lists: list[Tensor], metrics: MetricSums | None) -> Scores:
        """Loss and score of many rows, each on samples of its own, in batched passes."""
        task, sizes = self.task, torch.tensor([len(positions) for positions in lists])
        sums = torch.zeros(3, len(lists), dtype=torch.float64)
        widest, stacks = int(sizes.max()), self.stacks(rows)
        positions = torch.nn.utils.rnn.pad_sequence(lists, batch_first=True)
        for start in range(0, widest, EVALUATION_CHUNK):
            chunk = positions[:, start : start + EVALUATION_CHUNK]
            some = sizes > start
            chunk, places = chunk[some], some.nonzero().flatten()
            seen = {name: stack[some] for name, stack in stacks.items()}
            outputs = run_stacked(self.model, self.graph, seen, task.inputs(chunk), None)
            outputs, targets = outputs.flatten(0, 1), task.targets(chunk).flatten(0, 1)
            losses, counts = task.objective.losses(outputs, targets)
            scores, _ = task.objective.scores(outputs, targets)
            real = (torch.arange(start, start + chunk.shape[1]) < sizes[some, None]).double()
            for row, values in zip(sums, (losses, scores, counts), strict=True):
                row[places] += (values.view(chunk.shape).double() * real).sum(1)
            if metrics is not None:
                outputs = task.predictions(outputs)
                ends, wide = real.sum(1).long().tolist(), chunk.shape[1]
                for i, place in enumerate(places.tolist()):
                    own = slice(i * wide, i * wide + ends[i])
                    metrics.add(place, outputs[own], targets[own])
        return Scores(*sums)

    @torch.no_grad()
    def sample_scores(
        self, row: Tensor, positions: Tensor, watch: Watch | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, score and count of one row for each of some samples; ``watch`` sees each batch."""
        task = self.task
        self._load(row)
        columns: list[list[Tensor]] = [[], [], []]
        for chunk in torch.split(positions, EVALUATION_BATCH):
            if not len(chunk):
                break
            outputs, targets = self._pass(task.inputs(chunk)), task.targets(chunk)
            losses, counts = task.objective.losses(outputs, targets)
            scores, _ = task.objective.scores(outputs, targets)
            for column, values in zip(columns, (losses, scores, counts), strict=True):
                column.append(values.double())
            if watch is not None:
                watch(task.predictions(outputs), targets)
        empty = torch.zeros(0, dtype=torch.float64)
        loss, right, counts = (torch.cat(column) if column else empty for column in columns)
        return loss, right, counts
