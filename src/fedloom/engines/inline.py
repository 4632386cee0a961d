"""The engine that runs everything in this process: the default, and the easiest to debug."""

from __future__ import annotations

from collections.abc import Mapping

from fedloom.core.kept_rows import KeptRows
from fedloom.core.message import Message
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, LocalEngine, Tensors


class Inline(LocalEngine):
    """One job after another."""

    def __init__(self, runtime: ClientRuntime) -> None:
        super().__init__()
        self.runtime = runtime

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> list[Tensors]:
        """Do the jobs in order."""
        return [self.runtime.do(job, message, kept) for job in jobs]

    def close(self) -> None:
        """Nothing to close."""
