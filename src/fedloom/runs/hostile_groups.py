"""Hostile clients that are drawn from groups which the method forms itself: a share of FedSeq's super-clients.

Groups are formed before round 1, by honest clients; then some of them turn hostile, with all of their members, as in
Rizzardi's thesis on FedSeq. The run's state keeps the groups as they were formed, so that a resumed run draws the same
clients, also of a method that forms its groups anew later: who is hostile is drawn once.
"""

from __future__ import annotations

from dataclasses import replace

from fedloom.core.algorithm import groups_of
from fedloom.rounds.composition import Composition
from fedloom.rounds.hostile_clients import HostileClients
from fedloom.rounds.run_state import RunState, packed_groups, unpacked_groups
from fedloom.runs.poisoned_task import poisoned_task


def with_hostile_groups(run: Composition, state: RunState) -> Composition:
    """The run with the hostile clients that it waited for; the same run if it waited for none.

    Args:
        run: What the run is made of.
        state: Its state, whose groups are formed.
    """
    if run.awaited is None:
        return run
    if not state.formed:  # the attack was added to a run that goes on from an earlier round
        state.formed = packed_groups(groups_of(run.algorithm, state.server) or [])
    seed = run.setting.seed
    hostile = HostileClients(run.awaited, run.awaited.members_of(unpacked_groups(state.formed), seed))
    return replace(run, hostile=hostile, awaited=None, task=poisoned_task(run.task, hostile, seed))
