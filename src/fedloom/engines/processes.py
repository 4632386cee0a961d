"""The engine with one worker process per core.

Workers are forked, so they see the parent's data without a copy; messages and replies go through shared memory, and
only small records through pipes. A job's result depends on nothing but the job, so a worker that dies or hangs is
replaced and its job done again, to the same bytes. A worker whose parent is gone ends itself.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Mapping
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.kept_rows import KeptRows, pack_kept, unpack_kept
from fedloom.core.message import Message
from fedloom.engines.cpu_progress import CpuProgress
from fedloom.engines.shared_tensors import Header, SharedTensors
from fedloom.registry.user_errors import WorkerError, describe_user_error
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, LocalEngine, Tensors

log = logging.getLogger("fedloom")
TRIES = 3
LOOK_SECONDS = 5.0
"""How long to wait for a result before looking whether a worker hangs."""


class ForkedWorker:
    """A worker's process, the pipe to it and the shared memory it writes its results to."""

    def __init__(self, runtime: ClientRuntime, down: SharedTensors) -> None:
        self.results = SharedTensors()
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process: ForkProcess = context.Process(
            target=_serve, args=(runtime, down, self.results, theirs, self.pipe), daemon=True
        )
        self.process.start()
        theirs.close()
        self.job: int | None = None
        self.progress = CpuProgress(self.process.pid or 0)

    def hangs(self) -> bool:
        """Whether it does nothing with its job: it is stopped, or waits for something that never comes."""
        return self.progress.stands_still()

    def close(self) -> None:
        """End the process and give its memory back."""
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.results.close()


class Processes(LocalEngine):
    """``workers`` forked processes that share this process's data."""

    def __init__(self, runtime: ClientRuntime, workers: int) -> None:
        if "fork" not in multiprocessing.get_all_start_methods():
            raise FedloomError("workers > 1 needs a system that can fork processes: use workers = 1 here.")
        super().__init__()
        self.runtime, self.down = runtime, SharedTensors()
        self.workers = [ForkedWorker(runtime, self.down) for _ in range(workers)]

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> list[Tensors]:
        """Hand jobs to whoever is free; results come back in the order of the jobs."""
        header = self.down.write(
            {f"shared/{k}": v for k, v in message.shared.items()}
            | {f"each/{k}": v for k, v in message.each.items()}
            | pack_kept(kept, "kept/")
        )
        waiting = list(range(len(jobs)))[::-1]
        results: dict[int, Tensors] = {}
        deaths = dict.fromkeys(waiting, 0)
        while len(results) < len(jobs):
            for place in range(len(self.workers)):
                while (worker := self.workers[place]).job is None and waiting:
                    number = waiting.pop()
                    try:
                        worker.pipe.send((jobs[number], header))
                        worker.job = number
                        worker.progress.restart()
                    except OSError:  # it died while it was idle
                        waiting.append(number)
                        self._replace(place)
            busy = {w.pipe: (place, w.job) for place, w in enumerate(self.workers) if w.job is not None}
            ready = wait(list(busy), LOOK_SECONDS)
            lost = [] if ready else [(*busy[w.pipe], "hung") for w in self.workers if w.job is not None and w.hangs()]
            for pipe in ready:
                place, number = busy[pipe]  # type: ignore[index]
                try:
                    results[number] = _receive(self.workers[place])
                    self.workers[place].job = None
                except (EOFError, OSError):  # it died, perhaps with its job unread or its answer half sent
                    lost.append((place, number, "died"))
            for place, number, how in lost:
                deaths[number] += 1
                if deaths[number] >= TRIES:
                    raise FedloomError(
                        f"a worker process {how} {TRIES} times at clients {jobs[number].ids}: is there enough "
                        "memory? Try fewer workers, or workers = 1 to see the cause."
                    )
                who = f"worker process {self.workers[place].process.pid} {how} at clients {jobs[number].ids}"
                log.warning("%s: it is replaced and its cohort done again", who)
                waiting.append(number)
                self._replace(place)
        return [results[number] for number in range(len(jobs))]

    def _replace(self, place: int) -> None:
        self.workers[place].close()
        self.workers[place] = ForkedWorker(self.runtime, self.down)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.close()
        self.workers = []
        self.down.close()


def _receive(worker: ForkedWorker) -> Tensors:
    kind, payload = worker.pipe.recv()
    if kind == "refused":
        raise FedloomError(payload)
    if kind == "failed":
        raise WorkerError(*payload)
    return {name: view.clone() for name, view in worker.results.read(payload).items()}


def _serve(
    runtime: ClientRuntime, down: SharedTensors, up: SharedTensors, pipe: Connection, parents_end: Connection
) -> None:
    parents_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            job, header = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer: tuple[str, Any] = ("done", up.write(runtime.do(job, *_read_message(down, header))))
        except FedloomError as error:
            answer = ("refused", str(error))
        except Exception as error:
            answer = ("failed", (traceback.format_exc(), describe_user_error(error)))
        try:
            pipe.send(answer)
        except OSError:
            os._exit(0)


def _read_message(down: SharedTensors, header: Header) -> tuple[Message, dict[str, KeptRows]]:
    groups: dict[str, dict[str, Tensor]] = {"shared": {}, "each": {}, "kept": {}}
    for name, view in down.read(header).items():
        group, _, rest = name.partition("/")
        groups[group][rest] = view
    return Message(groups["shared"], groups["each"]), unpack_kept(groups["kept"])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
