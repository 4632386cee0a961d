"""``fedloom privacy``: plan the noise of a private run, or see what it spends."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.privacy.sampling import ClientSampling


def privacy(
    epsilon: Annotated[float | None, typer.Option(help="The budget: prints the noise that it needs.")] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="The noise, as a multiple of the clip norm: prints the epsilon that it spends."),
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability with which epsilon may not hold.")] = 1e-5,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds are played.")] = 100,
    rate: Annotated[float | None, typer.Option(help="The probability of a client in a round.")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="How many clients there are.")] = None,
    per_round: Annotated[int | None, typer.Option(min=1, help="How many of them a round has on average.")] = None,
    sampling: Annotated[
        Literal["poisson", "fixed", "chains"],
        typer.Option(help="How they are drawn: independently, a fixed number, or in chains (FedSeq)."),
    ] = "poisson",
    parameters: Annotated[
        int | None, typer.Option(min=1, help="Numbers in the model, for the error to expect.")
    ] = None,
    clip: Annotated[float, typer.Option(help="The clip norm, for the error to expect.")] = 1.0,
    as_json: o.Json = False,
) -> None:
    """Plan a run with central differential privacy (aggregation privatemean).

    Give --epsilon to learn which noise it needs, or --sigma to learn what it spends, and how clients are drawn: --rate,
    or --clients and --per-round. The neighbours that the guarantee compares are named with it: a fixed number of
    clients per round costs far more privacy than independent draws.

    Examples:
      fedloom privacy --epsilon 2 --rounds 100 --clients 1000 --per-round 50
      fedloom privacy --sigma 1 --rate 0.01 --rounds 1000
    """
    from fedloom.core.errors import FedloomError
    from fedloom.privacy.accounting import epsilon_after, noise_for

    if (epsilon is None) == (sigma is None):
        raise FedloomError("give --epsilon to learn the noise, or --sigma to learn the epsilon: one of the two.")
    drawn = _sampling(sampling, rate, clients, per_round)
    if not 0 < clip < math.inf:
        raise FedloomError(f"--clip {clip}: the clip norm must be a positive number.")
    noise = noise_for(drawn, epsilon, rounds, delta) if epsilon is not None else sigma or 0.0
    spent = epsilon_after(drawn, noise, rounds, delta)
    found: dict[str, object] = {
        "epsilon": spent if math.isfinite(spent) else None,
        "delta": delta,
        "sigma": noise,
        "rounds": rounds,
        "sampling": str(drawn),
        "neighbours": drawn.neighbours,
    }
    if drawn.expected is not None:
        found["error_per_number"] = noise * clip / drawn.expected
        if parameters is not None:
            found["error_norm"] = noise * clip / drawn.expected * math.sqrt(parameters)
    if as_json:
        say(json.dumps(found))
    else:
        _print(found, clip, parameters)


def _sampling(kind: str, rate: float | None, clients: int | None, per_round: int | None) -> ClientSampling:
    from fedloom.core.errors import FedloomError
    from fedloom.privacy.sampling import EveryClient, FixedSize, PoissonChains, PoissonDraw

    what = "chains" if kind == "chains" else "clients"
    if per_round is not None and clients is None:
        raise FedloomError("--per-round needs --clients: how many are there to draw from?")
    if rate is not None and per_round is not None:
        raise FedloomError("--rate and --per-round both say how many take part in a round: give one.")
    if per_round is not None and clients is not None and per_round > clients:
        raise FedloomError(f"--per-round {per_round}, but there are only {clients} {what}: draw fewer.")
    if kind == "fixed":
        if clients is None or per_round is None:
            raise FedloomError("--sampling fixed needs --clients and --per-round.")
        return EveryClient(clients) if per_round == clients else FixedSize(per_round, clients)
    if rate is None and (clients is None or per_round is None):
        raise FedloomError("say how clients are drawn: --rate 0.05, or --clients 1000 --per-round 50.")
    share = rate if rate is not None else (per_round or 0) / (clients or 1)
    if kind == "chains":
        return PoissonChains(share, clients)
    return EveryClient(clients) if share == 1 else PoissonDraw(share, clients)


def _print(found: dict[str, object], clip: float, parameters: int | None) -> None:
    spent = found["epsilon"]
    say(f"epsilon {spent:.4g} at delta {found['delta']:g}" if isinstance(spent, float) else "no privacy at all")
    say(f"noise {found['sigma']:g} times the clip norm, {found['rounds']} rounds, {found['sampling']}")
    say(f"neighbours: {found['neighbours']}")
    if "error_per_number" in found:
        say(f"each number of the mean gets noise of deviation {found['error_per_number']:.3g} (clip norm {clip:g})")
    if "error_norm" in found:
        say(
            f"over {parameters:,} numbers its norm is {found['error_norm']:.3g}; a client's change has at most {clip:g}"
        )
    if found["neighbours"] == "replace one client":
        say("half of the noise counts: one client changes the sum by twice the clip norm")
