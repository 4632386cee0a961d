"""The server's part in encrypted chains: it introduces neighbours to each other, and carries what it cannot open."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedloom.core.algorithm import handover_of
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.relay_requests import NEXT, PREVIOUS
from fedloom.deploy.protocol.wire import SiteRequest
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.settings import ServerSettings
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.composition import Composition
from fedloom.rounds.jobs import Job

SiteRequests = Mapping[int, tuple[SiteRequest, dict[str, Tensor]]]
"""Request and tensors, by client."""


def introduce_neighbours(
    jobs: list[Job], requests: SiteRequests, runtime: ClientRuntime, roster: Roster
) -> tuple[SiteRequests, dict[int, str]]:
    """The requests with the keys of each site's neighbours in its chain, and why some sites cannot be asked.

    Args:
        jobs: The jobs of one client each.
        requests: The requests for them.
    """
    given, missing = dict[int, tuple[SiteRequest, dict[str, Tensor]]](), dict[int, str]()
    for job in jobs:
        client = job.ids[0]
        place = handover_of(runtime.algorithm, client, job.round, job.turn, runtime.setting.seed)
        around = {} if place is None else {NEXT: place.next, PREVIOUS: place.previous}
        neighbours = {name: other for name, other in around.items() if other is not None}
        absent = [other for other in neighbours.values() if other not in roster.introductions]
        if absent:
            missing[client] = f"{roster.names[absent[0]]}, its neighbour in the chain, has not connected yet"
            continue
        request, tensors = requests[client]
        keys = {name: roster.introductions[other] for name, other in neighbours.items()}
        given[client] = request, tensors | keys
    return given, missing


def check_bounds(run: Composition, settings: ServerSettings) -> None:
    """Refuse a bound that a server with encrypted chains cannot keep."""
    if settings.max_norm is not None and run.hides_models:
        raise FedloomError(
            f"max_norm = {settings.max_norm:g} in deploy.toml bounds how far each site moves its model, and the server "
            "cannot read the models inside encrypted chains: leave out max_norm, or encrypt of the method."
        )
