"""The server's half of a sum over sites: each phase is a request to the sites, and the next one has their answers.

A site that does not answer in a phase has dropped out; whether the sum survives that is for the step to say.
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
AskSites = Callable[[Requests, bool], dict[int, Tensors]]
"""Sends requests and returns the accepted answers; the second argument tells whether clients train."""


def sum_over_sites(
    jobs: list[Job],
    updates: Requests,
    phase_request: Callable[[int], SiteRequest],
    ask: AskSites,
    step: SumStep,
    session: SumSession,
    keys: ServerKeys,
) -> Summed:
    """Play a sum with sites.

    Args:
        jobs: The updates, one client each.
        updates: The request for the update of each client.
        phase_request: Makes the request of a client for a phase without an update.
        step: How sums are hidden.
        session: What is known of the sum.
        keys: What the server has.
    """
    server, results, up, down = step.server_half(session, keys), dict[int, Tensors](), 0, 0
    try:
        phase = next(server)
        while True:
            trains = phase.name == ROWS
            requests = {}
            for client, got in phase.each.items():
                request, tensors = updates[client] if trains else (phase_request(client), {})
                requests[client] = request, tensors | sum_tensors(session, phase.name, got)
                down += sum(tensor.nbytes for tensor in got.values())
            answers = ask(requests, trains)
            if trains:
                results = {client: _without_replies(answer) for client, answer in answers.items()}
                answers = {client: {"row": answer[f"reply/{SUM}"][0]} for client, answer in answers.items()}
            up += sum(tensor.nbytes for answer in answers.values() for tensor in answer.values())
            phase = server.send(answers)
    except StopIteration as end:
        total: Total = end.value
        return Summed(total, [results.get(job.ids[0]) for job in jobs], up, down)


def _without_replies(answer: Tensors) -> Tensors:
    return {name: tensor for name, tensor in answer.items() if not name.startswith("reply/")}
