"""The connection to Ray: a cluster at an address, or a local Ray that is started here and leaves nothing behind."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fedloom.core.errors import FedloomError

CONNECT_SECONDS = 5.0
"""Seconds in which the machine at an address must answer."""
CONNECT_TRIES = 3
"""How often a cluster whose machine answers is asked: a busy one may miss the first request."""
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    "RAY_worker_niceness": "0",  # by default 15: beside other work, workers would get next to nothing
}


def check_reachable(address: str | None) -> None:
    """Refuse, in one sentence and before any work, a Ray that is not installed or a machine that does not answer."""
    if importlib.util.find_spec("ray") is None:
        raise FedloomError("engine = ray needs Ray, which is not installed: pip install 'fedloom[ray]'.")
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise FedloomError(
            f"ray_address={address}: nothing answers there ({error.strerror or error}); start a cluster with "
            "ray start --head, or leave ray_address out for a local Ray."
        ) from None


def import_ray() -> Any:
    """Import Ray with its usage statistics and log lines switched off, and workers that yield to nobody."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def connect(ray: Any, workers: int, address: str | None) -> tuple[bool, str | None]:
    """Connect to a cluster or start a local one: whether that was done here, and the local one's folder.

    A process has one connection to Ray: an existing one is used, and left as it is.
    """
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", there):
            raise FedloomError(
                f"ray_address={address}: this process is connected to the Ray at {there} already; call ray.shutdown() "
                "first, or leave ray_address out."
            )
        return False, None
    settings: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address is not None:
        try:
            with _loopback(tries=CONNECT_TRIES):
                ray.init(address=address, **settings)
        except Exception as error:
            raise FedloomError(
                f"ray_address={address}: the cluster cannot be used ({last_line(error)}); it must run this machine's "
                "versions of Ray and Python, and this machine must be one of its nodes (ray start --address=...)."
            ) from None
        return True, None
    short = "/tmp" if os.path.isdir("/tmp") else None  # noqa: S108 (a socket's path may have 107 characters)
    folder = tempfile.mkdtemp(prefix="fedloom-", dir=short)  # Ray's own folder is open to all, this one is not
    try:
        with _loopback():
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                _temp_dir=os.path.join(folder, "r"),
                **settings,
            )
    except BaseException as error:
        leave(ray, folder)
        if not isinstance(error, Exception):
            raise
        raise FedloomError(
            f"a local Ray could not be started ({last_line(error)}): use engine = processes here."
        ) from None
    return True, folder


def leave(ray: Any, folder: str | None) -> None:
    """Leave the cluster, or end the local one that has this folder."""
    ray.shutdown()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _loopback(tries: int | None = None) -> Iterator[None]:
    """Keep Ray on 127.0.0.1, which it otherwise replaces by the machine's public address.

    ``tries`` is how often Ray waits half a minute for a cluster that does not answer (Ray's default: twenty times).
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER, ray_constants.NUM_REDIS_GET_RETRIES
    ray_constants.ENABLE_RAY_CLUSTER = False
    ray_constants.NUM_REDIS_GET_RETRIES = tries or before[1]
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER, ray_constants.NUM_REDIS_GET_RETRIES = before


def last_line(error: BaseException) -> str:
    """The last line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
