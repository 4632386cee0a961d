"""Write the folders that fedloom 0.5.0 left: runs, a comparison and a deployment, each stopped on its way and whole.

It is run with that version (the last commit of 0.5.0 is 8c5db4a), once; its output is kept in tests/runs/folder and
tests/deploy, without keys and certificates, which tests make anew:

    git worktree add --detach ../version-0.5 8c5db4a
    PYTHONPATH=../version-0.5/src:../version-0.5/tests OMP_NUM_THREADS=1 python tests/support/make_version_0_5.py tests
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

import fedloom as fl
from fedloom.config.method_spec import with_method
from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.deploy.provision.folders import init
from fedloom.deploy.server.serve import serve
from fedloom.deploy.site.process import SiteProcess
from fedloom.runs.plans import compare, sweep
from fedloom.runs.plans.plan import write_plan
from fedloom.runs.prepare import prepare
from fedloom.runs.runner import execute

ROUNDS, STOP = 4, 3
SITES = ["north", "south"]
TASK = {"name": "digits", "clients": 3, "model": "mlp", "model_options": {"hidden": 2}}
TASK["partition"] = {"name": "dirichlet", "alpha": 0.5}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg+fedpredict", {"selection": {"name": "random", "number": 2}}),
    "oort": ("fedavg", {"selection": {"name": "oort", "number": 2}}),
    "scaffold": ("scaffold", {}),
    "ditto": ("ditto", {}),
}
REFUSED = {"adaptive": "fedprox:adaptive=true", "recalibrate": "ditto+recalibrate"}
"""Runs that go on only in 0.5."""


class Killed(BaseException):
    """The process ends."""


@dataclass(frozen=True)
class HalfWay(fl.FedAvg):
    """A user's method, which no config can name."""

    rate: float = 0.5

    def aggregate(self, server: Any, replies: Any) -> Any:
        return {**server, "row": server["row"] + self.rate * (replies.mean("row") - server["row"])}


def kill(record: dict[str, Any]) -> None:
    """Kill the process when a record is written and its checkpoint is not."""
    if record["round"] == STOP:
        raise Killed


def play(folder: Path, spec: str, more: dict[str, Any], method: Any = None, observers: Any = ()) -> None:
    config = resolve(with_method({"rounds": ROUNDS, "eval_every": 2, "task": TASK, **more}, spec))
    with contextlib.suppress(Killed):
        execute(prepare(task_from_config(config), method or method_from_config(config), config), folder, observers)


def keep_results(folder: Path) -> None:
    """Keep what a finished run is compared by: records, scores of clients, the server's last state."""
    for path in [*folder.rglob("*")]:
        kept = path.name in ("metrics.jsonl", "clients.json") or path.name.startswith("round-")
        if path.is_file() and not kept:
            path.unlink()


def make_runs(out: Path) -> None:
    for name, (spec, more) in RUNS.items():
        play(out / name / "stopped", spec, more, observers=[kill])
        play(out / name / "whole", spec, more)
        keep_results(out / name / "whole")
    for kind, observers in (("stopped", [kill]), ("whole", [])):
        play(out / "object" / kind, "fedavg", {}, HalfWay(0.7), observers)
    keep_results(out / "object" / "whole")
    for name, spec in REFUSED.items():
        play(out / name / "stopped", spec, {"eval_every": 0}, observers=[kill])


def make_plans(out: Path) -> None:
    """A comparison whose third of four runs is stopped, so that the fourth is missing; and a sweep's plan."""
    values = {
        "rounds": 2,
        "eval_every": 2,
        "task": {key: TASK[key] for key in ("name", "clients", "model", "model_options")},
    }
    for kind in ("stopped", "whole"):
        plan, folder = compare.make_plan(values, ["fedavg", "scaffold"], 2), out / "comparison" / kind
        write_plan(folder, compare.PLAN, plan)
        began: list[tuple[str, int]] = []

        def observers_of(label: str, seed: int, kind: str = kind, began: Any = began) -> list[Any]:
            began.append((label, seed))

            def observe(record: dict[str, Any]) -> None:
                if kind == "stopped" and len(began) == 3 and record["round"] == 2:
                    raise Killed

            return [observe]

        with contextlib.suppress(Killed):
            compare.resume_comparison(folder, observers_of)
    for run in (out / "comparison" / "whole").glob("*-seed*"):
        if run.name.endswith("seed1"):
            keep_results(run)
        else:
            shutil.rmtree(run)
    plan = sweep.make_plan(with_method(values, "fedprox"), {"method.mu": [0.1, 1.0]}, 1, ["clients"])
    write_plan(out / "sweep", sweep.PLAN, plan)


def make_deployment(out: Path) -> None:
    """A deployment whose run was killed in a round, what the run gave where it was not, and a site's saved model."""
    from fedloom.deploy.flower import public_key
    from support.local_transport import LocalTransport  # 0.5.0's

    task = {**TASK, "clients": 2, "seed": 1}
    for kind in ("stopped", "whole"):
        home = out / kind
        home.mkdir(parents=True)
        run_file = home / "run.toml"
        run_file.write_bytes(
            tomli_w.dumps(with_method({"rounds": ROUNDS, "eval_every": 2, "task": task}, "scaffold")).encode()
        )
        server, *sites = init(run_file, home / "deploy", SITES, rehearsal=True)[:3]
        processes = dict(enumerate(SiteProcess.open(site) for site in sites))
        transport = LocalTransport({client: site.answer for client, site in processes.items()})
        transport.keys = {client: public_key(server / "keys" / f"{name}.pub") for client, name in enumerate(SITES)}

        def meddle(sent: Any, kind: str = kind) -> Any:
            if kind == "stopped" and (sent.request.kind, sent.request.round, sent.node) == ("update", STOP, 1):
                raise Killed
            return sent.answer

        transport.meddle = meddle
        with contextlib.suppress(Killed):
            serve(transport, server)
    shutil.copytree(out / "whole" / "deploy" / "north" / "model", out / "model")
    keep_results(out / "whole")
    for path in [*(out / "stopped").rglob("*")]:
        if path.suffix in (".key", ".pem", ".pub", ".crt"):
            path.unlink()


def main(tests: Path) -> None:
    assert fl.__version__ == "0.5.0", "this is for fedloom 0.5.0"
    runs, deployment = tests / "runs/folder/version_0_5", tests / "deploy/version_0_5"
    for folder in (runs, deployment):
        shutil.rmtree(folder, ignore_errors=True)
    make_runs(runs)
    make_plans(runs)
    make_deployment(deployment)
    for folder in sorted(
        (path for top in (runs, deployment) for path in top.rglob("*") if path.is_dir()), reverse=True
    ):
        if not any(folder.iterdir()):
            folder.rmdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
