"""The model of the flow tasks: FullGN over the words of a schema, with the embedding widths of the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from fedloom.core import seeds
from fedloom.core.errors import FedloomError
from fedloom.models import Maker
from fedloom.models.fullgn import FullGN
from fedloom.registry.validation import validate
from fedloom.tasks.flows.learning.flow_federation import Label
from fedloom.tasks.flows.learning.flow_schema import (
    EDGE,
    GRAPH,
    NODE,
    SUBKIND_GRAPH,
    SUBKIND_NODE,
    FlowSchema,
    embedding_tables,
)

MODEL = "fullgn"


@dataclass(frozen=True)
class FullGNOptions:
    """The options of the model ``fullgn`` (``task.model_options``)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    width: int = 90
    blocks: int = 6


def fullgn_options(given: Mapping[str, Any]) -> FullGNOptions:
    """The complete options of the model; a wrong one is an error."""
    chosen: FullGNOptions = validate(FullGNOptions, dict(given), "task.model_options")
    return chosen


def network(schema: FlowSchema, classes: int, label: Label, **options: int) -> FullGN:
    """FullGN for flows of a schema."""
    node, graph = (NODE, GRAPH) if label == "kind" else (SUBKIND_NODE, SUBKIND_GRAPH)
    return FullGN(
        embedding_tables(schema.node, node),
        embedding_tables(schema.edge, EDGE),
        embedding_tables(schema.graph, graph),
        classes,
        **options,
    )


def flow_model(
    schema: FlowSchema,
    classes: int,
    label: Label,
    model: str | nn.Module | Maker | None,
    options: Mapping[str, Any],
    seed: int,
) -> nn.Module:
    """A task's model with the initial weights of a seed, or the user's own module.

    Args:
        schema: The words of the flows.
        classes: How many classes are predicted.
        label: What is predicted of an action.
        model: ``fullgn`` or a module; None is ``fullgn``.
        options: The options of ``fullgn``.
        seed: The task's seed.
    """
    if isinstance(model, nn.Module):
        return model
    if model not in (None, MODEL):
        raise FedloomError(f"model '{model}' cannot be used for flows: use {MODEL}, or a module of your own.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeds.key(seed, "model"))
        return network(schema, classes, label, **asdict(fullgn_options(options)))
