"""``fedloom privacy``: plan the noise of a private run, or see what it spends."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedloom.cli import options as o
from fedloom.cli.terminal.say import say

if TYPE_CHECKING:
    from fedloom.privacy.plan import NoisePlan
    from fedloom.privacy.sampling import ClientSampling

Mechanism = Literal["privatemean", "sample_privacy", "localnoise", "privatesum"]


def privacy(
    epsilon: Annotated[float | None, typer.Option(help="The budget: prints the noise that it needs.")] = None,
    sigma: Annotated[
        float | None,
        typer.Option(help="The noise, as a multiple of the clip norm: prints the epsilon that it spends."),
    ] = None,
    mechanism: Annotated[
        Mechanism,
        typer.Option(help="Who adds the noise: the server, each step of DP-SGD, each client, or all in shares."),
    ] = "privatemean",
    delta: Annotated[float, typer.Option(help="The probability with which epsilon may not hold.")] = 1e-5,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds are played.")] = 100,
    rate: Annotated[float | None, typer.Option(help="The probability of a client in a round.")] = None,
    clients: Annotated[int | None, typer.Option(min=1, help="How many clients there are.")] = None,
    per_round: Annotated[int | None, typer.Option(min=1, help="How many of them a round has on average.")] = None,
    sampling: Annotated[
        Literal["poisson", "fixed", "chains"],
        typer.Option(help="How they are drawn: independently, a fixed number, or in chains (FedSeq)."),
    ] = "poisson",
    samples: Annotated[
        int | None, typer.Option(min=1, help="Training samples of the smallest client (sample_privacy).")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=0, help="Samples of a step; 0 for all (sample_privacy).")] = 32,
    epochs: Annotated[int, typer.Option(min=1, help="Local epochs per round (sample_privacy).")] = 1,
    parameters: Annotated[
        int | None, typer.Option(min=1, help="Numbers in the model: the error to expect; privatesum needs it.")
    ] = None,
    clip: Annotated[float, typer.Option(help="The clip norm, for the error to expect.")] = 1.0,
    audit: Annotated[
        bool, typer.Option("--audit", help="Attack every mechanism instead, and hold what it states against that.")
    ] = False,
    trials: Annotated[int, typer.Option(min=20, help="How often --audit plays each of two neighbours.")] = 5000,
    as_json: o.Json = False,
) -> None:
    """Plan the noise of a run with differential privacy, or audit what the mechanisms state.

    Give --epsilon to learn which noise it needs, or --sigma to learn what it spends, and how clients are drawn: --rate,
    or --clients and --per-round. The neighbours that the guarantee compares are named with it: with privatemean a fixed
    number of clients per round costs far more privacy than independent draws. In a run file epsilon alone is enough:
    the run finds the same noise.

    --audit plays a canary, a client or sample that is there or not, against every mechanism in real rounds, and prints
    the epsilon that it states beside the one that an attacker rules out with 95 %, and what the attacker's guesses come
    to, with their bound. It exits with 1 if one that is ruled out is above.

    Examples:
      fedloom privacy --epsilon 2 --rounds 100 --clients 1000 --per-round 50
      fedloom privacy --sigma 1 --rate 0.01 --rounds 1000
      fedloom privacy --epsilon 8 --mechanism sample_privacy --samples 500 --rounds 20
      fedloom privacy --epsilon 8 --mechanism localnoise --rounds 20 --clients 100 --per-round 10
      fedloom privacy --audit --trials 500
    """
    if audit:
        _audit(trials, as_json)
        return
    from fedloom.core.errors import FedloomError
    from fedloom.core.local_work import LocalWork
    from fedloom.privacy.plan import Question, plan_mean, plan_samples, plan_sums, plan_updates, turns_of

    asked = Question(rounds, delta, epsilon, sigma)
    if not 0 < clip < math.inf:
        raise FedloomError(f"--clip {clip}: the clip norm must be a positive number.")
    is_drawn = mechanism == "privatemean" or rate is not None or per_round is not None
    drawn = _sampling(sampling, rate, clients, per_round) if is_drawn else None
    turns = turns_of(drawn, clients, rounds) if mechanism != "privatemean" else rounds
    if drawn is not None and mechanism == "privatemean":
        found = plan_mean(asked, drawn)
    elif mechanism == "sample_privacy":
        if samples is None:
            raise FedloomError("the privacy of samples depends on how many a client has: give --samples.")
        found = plan_samples(asked, turns, samples, LocalWork(epochs=epochs, batch_size=batch_size))
    elif mechanism == "privatesum":
        if parameters is None or clients is None:
            raise FedloomError("noise in shares depends on the sum: give --parameters and --clients.")
        found = plan_sums(asked, drawn, clients, parameters, clip)
    else:
        found = plan_updates(asked, turns, clients if drawn is None else drawn.expected)
    if as_json:
        say(json.dumps(_values(found, clip, parameters)))
    else:
        _print(found, _values(found, clip, parameters), clip, parameters)


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


def _values(found: NoisePlan, clip: float, parameters: int | None) -> dict[str, object]:
    """A plan as plain values."""
    values: dict[str, object] = {
        "epsilon": found.epsilon if math.isfinite(found.epsilon) else None,
        "delta": found.question.delta,
        "sigma": found.noise,
        "rounds": found.question.rounds,
        "sampling": found.uses,
        "neighbours": found.neighbours,
    }
    if found.mean_of is not None:
        values["error_per_number"] = found.noise * clip / found.mean_of
        if parameters is not None:
            values["error_norm"] = found.noise * clip / found.mean_of * math.sqrt(parameters)
    return values


def _print(found: NoisePlan, values: dict[str, object], clip: float, parameters: int | None) -> None:
    finite = math.isfinite(found.epsilon)
    say(f"epsilon {found.epsilon:.4g} at delta {found.question.delta:g}" if finite else "no privacy at all")
    say(f"noise {found.noise:g} times the clip norm, {found.question.rounds} rounds, {found.uses}")
    say(f"neighbours: {found.neighbours}")
    if "error_per_number" in values:
        say(f"each number of the mean gets noise of deviation {values['error_per_number']:.3g} (clip norm {clip:g})")
    if "error_norm" in values:
        say(
            f"over {parameters:,} numbers its norm is {values['error_norm']:.3g}; a client's change has at most "
            f"{clip:g}"
        )
    if found.neighbours == "replace one client":
        say("half of the noise counts: one client changes the sum by twice the clip norm")


def _audit(trials: int, as_json: bool) -> None:
    """Play all mechanisms and print what was found; one that tells more than it states is exit code 1."""
    import logging

    from fedloom.audits.privacy_audit import AuditRow, audit_privacy
    from fedloom.audits.privacy_cases import DELTA, privacy_cases

    if not as_json:
        say(f"delta {DELTA:g}, {trials:,} trials of each neighbour, bounds with a confidence of 95 %")
        say(f"{'mechanism':<48}{'stated':>8}{'at least':>10}{'attacker':>10}{'at most':>9}")

    def print_row(row: AuditRow) -> None:
        if not as_json:
            verdict = "" if row.holds else "  tells more than it states"
            seen, most = ("-" if end is None else f"{end:.3f}" for end in (row.seen, row.most))
            say(f"{row.mechanism:<48}{row.stated:>8.3f}{row.lower_bound:>10.3f}{seen:>10}{most:>9}{verdict}")

    log = logging.getLogger("fedloom")
    level = log.level
    log.setLevel(logging.ERROR)  # what tiny runs say of their models is not about the audit
    try:
        rows = audit_privacy(privacy_cases(), trials, print_row)
    finally:
        log.setLevel(level)
    if as_json:
        say(json.dumps([asdict(row) | {"holds": row.holds} for row in rows]))
    if not all(row.holds for row in rows):
        raise typer.Exit(1)
