"""The server's half of a sum over sites: each stage is a request to the sites, and the next one has their answers.

A site that does not answer in a stage has dropped out; whether the sum survives that is for the step to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from fedloom.deploy.protocol.sum_requests import sum_tensors
from fedloom.deploy.protocol.wire import SiteRequest
from fedloom.rounds.jobs import Job, Tensors
from fedloom.secure.sum_step import ROWS, ServerKeys, SumSession, SumStep, Total
from fedloom.secure.sums import SUM, Summed

Requests = Mapping[int, tuple[SiteRequest, dict[str, Tensor]]]
"""Request and tensors, by client."""
Exchange = Callable[[Requests, bool], dict[int, Tensors]]
"""Sends requests and returns the accepted answers; the second argument tells whether clients train."""


def sum_over_sites(
    jobs: list[Job],
    updates: Requests,
    stage_request: Callable[[int], SiteRequest],
    exchange: Exchange,
    step: SumStep,
    session: SumSession,
    keys: ServerKeys,
) -> Summed:
    """Play a sum with sites.

    Args:
        jobs: The updates, one client each.
        updates: The request for the update of each client.
        stage_request: Makes the request of a client for a stage without an update.
        exchange: Sends requests.
        step: How sums are hidden.
        session: What is known of the sum.
        keys: What the server has.
    """
    server, results, up, down = step.server_half(session, keys), dict[int, Tensors](), 0, 0
    try:
        stage = next(server)
        while True:
            trains = stage.name == ROWS
            requests = {}
            for client, got in stage.each.items():
                request, tensors = updates[client] if trains else (stage_request(client), {})
                requests[client] = request, tensors | sum_tensors(session, stage.name, got)
                down += sum(tensor.nbytes for tensor in got.values())
            answers = exchange(requests, trains)
            if trains:
                results = {client: _without_replies(answer) for client, answer in answers.items()}
                answers = {client: {"row": answer[f"reply/{SUM}"][0]} for client, answer in answers.items()}
            up += sum(tensor.nbytes for answer in answers.values() for tensor in answer.values())
            stage = server.send(answers)
    except StopIteration as end:
        total: Total = end.value
        return Summed(total, [results.get(job.ids[0]) for job in jobs], up, down)


def _without_replies(answer: Tensors) -> Tensors:
    return {name: tensor for name, tensor in answer.items() if not name.startswith("reply/")}
