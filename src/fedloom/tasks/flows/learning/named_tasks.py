"""The named tasks over action flows."""

from __future__ import annotations

from fedloom.tasks.flows.formats.real_corpora import UNKNOWN_OWNER, read_bpmn, read_n8n
from fedloom.tasks.flows.learning.flow_source import OwnFlows, RealFlows, SyntheticFlows
from fedloom.tasks.flows.learning.flow_task import FlowBuilder

FLOWS = FlowBuilder("the next action's kind in synthetic action flows of organisations", SyntheticFlows())
FLOWS_SUBKIND = FlowBuilder("the same flows, the next action's subkind", SyntheticFlows("subkind"))
N8N = FlowBuilder("the next node in real n8n workflows, by owner", RealFlows(read_n8n, UNKNOWN_OWNER))
BPMN = FlowBuilder("the next node in real BPMN models, by modelling exercise", RealFlows(read_bpmn))
OWN_FLOWS = FlowBuilder("the next node in your own flows: a folder per organisation", OwnFlows())
