"""What one site that lies in every round costs the others, in a deployment with the server's usual bounds.

The deployment is the tests' own (``tests/support/local_transport.py``): real sites and a real server half, whose
messages go through memory instead of Flower, so that what the liar sends is changed on its way. The cost is in points
of the honest sites' mean accuracy on their own test data after the last round, against the same run without a lie;
mean and largest over seeds, each with a partition, a model and a liar of its own. Found is in how many of the rounds
the liar was refused or clipped, over all seeds.

    python bench/liars.py                      the table of docs/deploy.md, "What is usual"
    python bench/liars.py --only "three sites"
"""

from __future__ import annotations

import logging
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.runs.results.history import History
from measure import arguments
from support.local_transport import Local, Plan, Sent

ROUNDS, SEEDS = 10, (1, 2, 3)
FEW = {"name": "digits", "partition": {"name": "dirichlet", "alpha": 0.5}}
SMALL = {"model": "mlp", "model_options": {"hidden": 16}}
PLANS: dict[tuple[str, int], Plan] = {}
Change = Callable[[dict[str, Tensor], Mapping[str, Tensor], torch.Generator], dict[str, Tensor]]
"""A reply's tensors as the liar sends them; it gets the honest ones, what came down, and randomness."""


@dataclass(frozen=True)
class Case:
    """A lie in a setting.

    Args:
        lie: What it is, in words.
        change: What it does to the liar's replies.
        claim: How many times the median of the others' training samples the liar says it has; None for the truth.
        settings: Of the run, besides the table's.
        server: Settings of ``deploy.toml``.
    """

    lie: str
    change: Change = lambda tensors, *_: tensors
    claim: float | None = None
    method: str = "fedavg"
    setting: str = "twelve sites"
    sites: int = 12
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    server: Mapping[str, Any] = field(default_factory=dict)


def scaled(name: str, factor: float) -> Change:
    """A tensor of the reply times a factor."""
    return lambda tensors, *_: tensors | {f"reply/{name}": tensors[f"reply/{name}"] * factor}


def filled(name: str, number: float) -> Change:
    """A tensor of the reply with one number everywhere."""
    return lambda tensors, *_: tensors | {f"reply/{name}": torch.full_like(tensors[f"reply/{name}"], number)}


def moved(factor: float) -> Change:
    """The change of the model times a factor."""

    def change(tensors: dict[str, Tensor], down: Mapping[str, Tensor], _: torch.Generator) -> dict[str, Tensor]:
        base = down["shared/row"]
        return tensors | {"reply/row": base + factor * (tensors["reply/row"] - base)}

    return change


def noise(factor: float) -> Change:
    """Noise so many times as large as the change of the model, instead of it."""

    def change(tensors: dict[str, Tensor], down: Mapping[str, Tensor], drawn: torch.Generator) -> dict[str, Tensor]:
        base, sent = down["shared/row"], tensors["reply/row"]
        random = torch.randn(sent.shape, generator=drawn)
        return tensors | {"reply/row": base + random / random.norm() * (sent - base).norm() * factor}

    return change


def stale() -> Change:
    """The model that it got in the round before."""
    before: list[Tensor] = []

    def change(tensors: dict[str, Tensor], down: Mapping[str, Tensor], _: torch.Generator) -> dict[str, Tensor]:
        before.append(down["shared/row"])
        return tensors | {"reply/row": before[max(0, len(before) - 2)].expand_as(tensors["reply/row"]).clone()}

    return change


def cases() -> Iterator[Case]:
    """The lies of the table, each in its setting."""
    yield Case("NaN", filled("row", math.nan))
    yield Case("a row of 1e29", filled("row", 1e29))
    for factor in (1000, 49, 10, 0, -1, -2, -3, -4, -5, -10, -40):
        yield Case(f"its change x {factor}", moved(factor))
    for factor in (49, 10):
        yield Case(f"noise of {factor} times its size", noise(factor))
    yield Case("the model of the round before", stale())
    yield Case("zeros instead of a model", filled("row", 0.0))
    yield Case("a claim of 1e9 samples", claim=math.inf)
    yield Case("a claim of 19 times the median", claim=19.0)
    yield Case("a claim of 19 times the median, max_share = 0.5", claim=19.0, server={"max_share": 0.5})
    scaffold = {"method": "scaffold", "setting": "twelve sites, SCAFFOLD"}
    yield Case("SCAFFOLD's c of 1e6", filled("c", 1e6), **scaffold)
    for factor in (-10, -40):
        yield Case(f"SCAFFOLD's c x {factor}", scaled("c", factor), **scaffold)
    yield Case("SCAFFOLD's c x -10, not clipped", scaled("c", -10), server={"clip_against": 1e9}, **scaffold)
    fedproto = {"method": "fedproto", "setting": "twelve sites, FedProto"}
    yield Case("FedProto's prototypes of 1e6", filled("prototypes", 1e6), **fedproto)
    yield Case("FedProto's prototypes x 49", scaled("prototypes", 49), **fedproto)
    for factor in (-1, -10):
        yield Case(f"its change x {factor}", moved(factor), setting="twelve sites, 16 hidden units", task=SMALL)
    for rule in ("median", "trimmedmean"):
        for factor in (-1, -3, -10):
            aggregation = {"aggregation": {"name": rule}}
            yield Case(f"its change x {factor}", moved(factor), setting=f"twelve sites, {rule}", settings=aggregation)
    for factor in (-1, -2, -10):
        yield Case(f"its change x {factor}", moved(factor), setting="three sites", sites=3)


def plan_of(case: Case, seed: int) -> Plan:
    """The plan of a case's setting: the same for all lies in it."""
    if (case.setting, seed) not in PLANS:
        task = {**FEW, **case.task, "clients": case.sites, "seed": seed}
        values = {"rounds": ROUNDS, "seed": seed, "eval_every": ROUNDS, "task": task, "local": {}, **case.settings}
        PLANS[case.setting, seed] = Plan.of(case.method, **values)
    return PLANS[case.setting, seed]


def play(case: Case, seed: int, lies: bool) -> tuple[float, int, int]:
    """Play a run; the honest sites' mean accuracy, and in how many rounds the liar was refused and clipped."""
    liar = seed % case.sites
    with tempfile.TemporaryDirectory() as folder:
        local = Local(plan_of(case, seed), Path(folder), deadline=60.0, join_timeout=60.0, **case.server)
        if lies:
            tell(local, case, liar, torch.Generator().manual_seed(seed))
        return outcome(local.play(), liar)


def tell(local: Local, case: Case, liar: int, drawn: torch.Generator) -> None:
    """Let a site lie from its greeting on."""
    sizes = local.plan.runtime.training.task.federation.train.sizes
    others = [int(size) for client, size in enumerate(sizes) if client != liar]
    claim = None if case.claim is None else int(min(1e9, case.claim * statistics.median(others)))

    def meddle(sent: Sent) -> bytes:
        if sent.node != liar or sent.request.kind not in ("hello", "update"):
            return sent.answer
        answer, tensors = unpack(sent.answer, SiteAnswer, 1 << 40)
        if sent.request.kind == "hello":
            return pack(
                answer.model_copy(update={"about": answer.about | ({"train": claim} if claim else {})}), tensors
            )
        _, down = unpack(local.transport.down[-1][1], SiteRequest, 1 << 40)
        if claim:
            tensors["samples"] = torch.full_like(tensors["samples"], claim)
        return pack(answer, case.change(tensors, down, drawn))

    local.transport.meddle = meddle


def outcome(history: History, liar: int) -> tuple[float, int, int]:
    """The honest sites' mean accuracy in percent, and in how many rounds the liar was refused and clipped."""
    honest = [100 * row["accuracy"] for row in history.clients if row["client"] != liar]
    refused = sum(any(one["client"] == liar for one in record.get("excluded", ())) for record in history.records)
    remarks = [[one for one in record.get("remarks", ()) if one["client"] == liar] for record in history.records]
    clipped = sum(any(one["what"] == "clipped" for one in some) for some in remarks)
    return statistics.mean(honest), refused, clipped


def main() -> None:
    """Print a line for every lie."""
    options = arguments(__doc__ or "")
    torch.set_num_threads(1)
    logging.getLogger("fedloom").setLevel(logging.CRITICAL)  # it names the liar in every round
    honest, before = dict[tuple[str, int], float](), ""
    quick = [patch("os.fsync"), patch("fedloom.deploy.server.pending_requests.POLL", 0.001)]
    for one in quick:
        one.start()
    print(f"{'setting':32} {'the liar sends':52} {'cost':>6} {'largest':>8}  refused, clipped in rounds of {ROUNDS}")
    for case in cases():
        if options.only not in f"{case.setting}: {case.lie}":
            continue
        found = []
        for seed in SEEDS:
            if (case.setting, seed) not in honest:
                honest[case.setting, seed] = play(case, seed, lies=False)[0]
            found.append((honest[case.setting, seed], *play(case, seed, lies=True)))
        if case.setting != before:
            before = case.setting
            print(f"{case.setting:32} {'nothing false':52} {statistics.mean(one[0] for one in found):6.1f} %")
        costs = [without - lied for without, lied, _, _ in found]
        rounds = ", ".join(f"{sum(one[place] for one in found) / len(found):.1f}" for place in (2, 3))
        print(f"{case.setting:32} {case.lie:52} {statistics.mean(costs):6.1f} {max(costs):8.1f}  {rounds}", flush=True)


if __name__ == "__main__":
    main()
