"""The engine on Ray: the same jobs on the cores of a cluster, or of a local Ray that lives as long as the run.

Each worker is a Ray actor that gets the client runtime once and then small records. What all clients of a wave are sent
is put into Ray's object store once; what one job's clients are sent and have kept goes with the job. A job's result
depends on the job alone, so a worker that dies is replaced and its job done again, to the same bytes.

Ray moves objects with cloudpickle, between the processes of one cluster and nowhere else: whoever can reach a Ray
cluster can run code on it, so the whole cluster is one trust boundary. A local Ray listens on the loopback device only.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.kept_rows import KeptRows, pack_kept, unpack_kept
from fedloom.core.message import Message
from fedloom.engines.ray_cluster import connect, import_ray, last_line, leave
from fedloom.registry.user_classes import user_modules
from fedloom.registry.user_errors import WorkerError, describe_user_error
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, LocalEngine, Tensors

log = logging.getLogger("fedloom")
TRIES = 3
START_SECONDS = 120.0
"""Seconds in which at least one worker must be there."""

Packed = list[tuple[str, str, tuple[int, ...], "np.ndarray[Any, np.dtype[np.uint8]]"]]
"""Name, dtype, shape and bytes of tensors: what Ray moves without a copy more."""


class RayWorker:
    """What runs inside an actor: one torch thread and the client runtime. ``path`` is the run's ``sys.path``."""

    def __init__(self, path: list[str]) -> None:
        torch.set_num_threads(1)
        sys.path += [folder for folder in path if folder not in sys.path]

    def take(self, runtime: ClientRuntime) -> None:
        """Take the client runtime, whose modules can be imported by now."""
        self.runtime = runtime

    def do(self, job: Job, shared: Packed, each: Packed, kept: Packed) -> tuple[str, Any]:
        """Do one job, whose clients' tensors are those of ``each`` and ``kept``, in order."""
        try:
            message = Message(_unpack(shared), _unpack(each))
            return "done", _pack(self.runtime.do(job, message, unpack_kept(_unpack(kept))))
        except FedloomError as error:
            return "refused", str(error)
        except Exception as error:
            return "failed", (traceback.format_exc(), describe_user_error(error))


class Ray(LocalEngine):
    """``workers`` actors of one core each. Those for which a cluster has no core yet join as soon as it has one."""

    def __init__(self, runtime: ClientRuntime, workers: int, address: str | None = None) -> None:
        super().__init__()
        self.ray = import_ray()
        self.busy: dict[Any, tuple[int, int | None]] = {}
        """What is awaited: the worker's place and its job's number, or None while it is only beginning."""
        self.actors: list[Any] = []
        self.connected, self.folder = connect(self.ray, workers, address)
        try:
            self.runtime = _put_runtime(self.ray, runtime)
            self.kind = self.ray.remote(num_cpus=1, max_restarts=0)(RayWorker)
            for place in range(workers):
                self.actors.append(None)
                self._hire(place)
        except BaseException:
            self.close()
            raise

    def _hire(self, place: int) -> None:
        self.actors[place] = self.kind.remote([os.path.abspath(folder) for folder in sys.path])
        self.busy[self.actors[place].take.remote(self.runtime)] = (place, None)

    def run(self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]) -> list[Tensors]:
        """Hand jobs to whoever is free; results come back in the order of the jobs."""
        shared = self.ray.put(_pack(message.shared))
        waiting = list(range(len(jobs)))[::-1]
        results: dict[int, Tensors] = {}
        deaths = dict.fromkeys(waiting, 0)
        while len(results) < len(jobs):
            occupied = {place for place, _ in self.busy.values()}
            for place in (place for place in range(len(self.actors)) if place not in occupied and waiting):
                work = _for_its_clients(jobs[waiting[-1]], shared, message, kept)
                self.busy[self.actors[place].do.remote(*work)] = (place, waiting.pop())
            for place, number, answer in self._answers():
                if answer is not None and number is not None:
                    results[number] = _receive(answer)
                elif number is not None:
                    deaths[number] += 1
                    if deaths[number] >= TRIES:
                        raise FedloomError(
                            f"a Ray worker died {TRIES} times at clients {jobs[number].ids}: is there enough memory? "
                            "Try fewer workers, or engine = inline to see the cause."
                        )
                    log.warning("a Ray worker died: it is replaced and its cohort done again")
                    waiting.append(number)
                    self.ray.kill(self.actors[place])
                    self._hire(place)
        return [results[number] for number in range(len(jobs))]

    def _answers(self) -> Iterator[tuple[int, int | None, Any]]:
        """Who has answered, with which job's number and what; a worker that died has answered None."""
        working = any(number is not None for _, number in self.busy.values())
        done, _ = self.ray.wait(list(self.busy), num_returns=1, timeout=None if working else START_SECONDS)
        if not done:
            raise FedloomError(
                f"the Ray cluster had no free core for a worker in {START_SECONDS:.0f} s: free one, or use another "
                "engine."
            )
        for reference in done:
            place, number = self.busy.pop(reference)
            try:
                yield place, number, self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                if number is None:
                    raise FedloomError(
                        f"a Ray worker could not start ({last_line(error)}): every machine of the cluster needs this "
                        "machine's Python, packages and modules, and memory for the data."
                    ) from None
                if isinstance(error, self.ray.exceptions.RayTaskError):
                    raise RuntimeError(f"in a Ray worker:\n{error}") from None
                yield place, number, None

    def close(self) -> None:
        """End all workers; leave the cluster, or end the local Ray that was started for the run."""
        for actor in filter(None, self.actors):
            self.ray.kill(actor)
        self.actors, self.busy, self.runtime = [], {}, None
        if self.connected:
            leave(self.ray, self.folder)


def _put_runtime(ray: Any, runtime: ClientRuntime) -> Any:
    """Put the client runtime into Ray's object store, with the classes of user files, which workers cannot import."""
    modules = user_modules()
    try:
        for module in modules:
            ray.cloudpickle.register_pickle_by_value(module)
        return ray.put(runtime)
    except TypeError as error:
        raise FedloomError(
            f"the task or the method cannot be sent to Ray workers ({last_line(error)}): use engine = processes."
        ) from None
    finally:
        for module in modules:
            ray.cloudpickle.unregister_pickle_by_value(module)


def _for_its_clients(
    job: Job, shared: Any, message: Message, kept: Mapping[str, KeptRows]
) -> tuple[Job, Any, Packed, Packed]:
    """A job with no more than what its own clients are sent and have kept."""
    places = torch.tensor(job.places, dtype=torch.int64)
    each = {name: rows[places] for name, rows in message.each.items()}
    own = {name: rows.only(places) for name, rows in kept.items()}
    return replace(job, places=list(range(len(job.places)))), shared, _pack(each), _pack(pack_kept(own))


def _receive(answer: tuple[str, Any]) -> Tensors:
    kind, payload = answer
    if kind == "refused":
        raise FedloomError(payload)
    if kind == "failed":
        raise WorkerError(*payload)
    return _unpack(payload)


def _pack(tensors: Mapping[str, Tensor]) -> Packed:
    return [
        (
            name,
            str(tensor.dtype).removeprefix("torch."),
            tuple(tensor.shape),
            tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy(),
        )
        for name, tensor in tensors.items()
    ]


def _unpack(packed: Packed) -> Tensors:
    """Tensors in torch's own memory: Ray's object store is read-only and has another alignment."""
    tensors = {}
    for name, dtype, shape, content in packed:
        flat = torch.empty(content.size, dtype=torch.uint8)
        flat.numpy()[:] = content
        tensors[name] = flat.view(getattr(torch, dtype)).view(shape)
    return tensors
