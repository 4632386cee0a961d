"""What a deployment costs beside the training: seconds per round on loopback, and bytes on the wire.

Starts a real deployment of three sites behind nginx (the command line's own programs), plays a LeNet, and compares:

* seconds of a deployed round with the seconds that the slowest of its sites worked in it (as its log says);
* CPU seconds of a round in all programs, by role, which are steadier than seconds on a machine that does other things;
* the bytes that nginx counted, headers and TLS-free HTTP included, with the bytes that the simulator counts.

Then it plays models of 2, 25 and 100 MB that are hardly trained, and compares CPU seconds per megabyte that is moved:
what carries a model must cost its bytes, and not their square.

    python bench/deploy.py           # all of it
    python bench/deploy.py sizes     # the sizes alone
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

SITES = ["north", "south", "west"]
ROUNDS = 12
SIZES = {2: 370, 25: 2137, 100: 4623}
"""Megabytes of a model, and the width of its two hidden layers over 784 inputs."""
SIZE_ROUNDS = 6
FEDLOOM = [sys.executable, "-m", "fedloom.cli.app"]
PORTS = {"--port": "21443", "--control-port": "21000"}
RUN: dict[str, Any] = {
    "rounds": ROUNDS,
    "eval_every": 0,
    "task": {"name": "own", "path": "digits.npz", "clients": 3, "model": "lenet"},
    "local": {"epochs": 1},
}


def sized_run(width: int) -> dict[str, Any]:
    """A run of a model of two hidden layers, which takes one step per round."""
    task = {**RUN["task"], "model": "mlp", "model_options": {"hidden": [width, width]}}
    return {**RUN, "rounds": SIZE_ROUNDS, "task": task, "local": {"steps": 1}}


ROLES = {
    "nginx": r"^nginx",
    "SuperNodes": r"supernode",
    "the server's half": r"server_half|serverapp",
    "SuperLink": r"superlink",
    "sites' processes": r"site\.process",
    "commands": r"fedloom\.cli\.app deploy",
}
"""What a process is, by its command."""


def start(root: Path, *command: str, until: str) -> subprocess.Popen[bytes]:
    """Start a command of ours and wait until it says something."""
    log = root / f"{'-'.join(command)}.log"
    with open(log, "wb") as file:
        program = subprocess.Popen([*FEDLOOM, "deploy", *command], cwd=root, stdout=file, stderr=file)
    while until not in log.read_text():
        if program.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.1)
    return program


def cpu_seconds(programs: list[subprocess.Popen[bytes]]) -> dict[str, float]:
    """The CPU seconds so far of some programs and of all that they started, by role."""
    about: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            about[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    family, found = {program.pid for program in programs}, dict.fromkeys(ROLES, 0.0)
    while more := {process for process, (parent, _) in about.items() if parent in family} - family:
        family |= more
    for process in family & about.keys():
        try:
            command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        role = next((role for role, words in ROLES.items() if re.search(words, command)), "commands")
        found[role] += about[process][1]
    return found


def play(root: Path, programs: list[subprocess.Popen[bytes]], number: int = ROUNDS) -> dict[str, float]:
    """Play the run; the CPU seconds of one of its rounds, by role, without the first and the last."""
    timings, first, last = root / "d/server/run/timings.jsonl", {}, {}
    with subprocess.Popen(
        [*FEDLOOM, "deploy", "run", "d/server", "--quiet"], cwd=root, stdout=subprocess.DEVNULL
    ) as run:
        while run.poll() is None:
            rounds = len(timings.read_text().splitlines()) if timings.exists() else 0
            if rounds >= 2 and not first:
                first, began = cpu_seconds(programs), rounds
            if rounds >= number - 1 and not last:
                last, ended = cpu_seconds(programs), rounds
            time.sleep(0.02)
    if run.returncode != 0:
        sys.exit("the run failed")
    return {role: (last[role] - first[role]) / (ended - began) for role in ROLES}


def write_digits(path: Path) -> None:
    """scikit-learn's digits, enlarged to the 28×28 that a LeNet takes."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.kron(digits.images, np.ones((3, 3))) * 15
    images = np.pad(images, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    np.savez(path, x=images[:, None], y=digits.target)


def seconds_of(folder: Path) -> list[float]:
    """The seconds of each round but the first, in which everything is warmed up."""
    lines = (folder / "timings.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["seconds"] for line in lines)[: ROUNDS - 2]


@contextmanager
def deployed(root: Path, run: dict[str, Any]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The programs of a deployment of three sites, which end with the block."""
    write_digits(root / "digits.npz")
    (root / "run.toml").write_bytes(tomli_w.dumps(run).encode())
    options = [word for pair in PORTS.items() for word in pair]
    subprocess.run([*FEDLOOM, "deploy", "init", "run.toml", "--clients", ",".join(SITES), "--rehearsal", "--out", "d",
                    *options], cwd=root, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        programs = [start(root / "d", "server", "server", until="ready")]
        programs += [start(root / "d", "client", site, until="connected") for site in SITES]
        yield programs
    finally:
        for folder in [*SITES, "server"]:
            subprocess.run([*FEDLOOM, "deploy", "stop", f"d/{folder}"], cwd=root, check=False,
                           stdout=subprocess.DEVNULL)  # fmt: skip


def main() -> None:
    """Measure and print."""
    if sys.argv[1:] != ["sizes"]:
        measure_lenet()
    measure_sizes()


def measure_lenet() -> None:
    """A round of a LeNet that trains: seconds, bytes, and CPU seconds by role."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with deployed(root, RUN) as programs:
            subprocess.run([*FEDLOOM, "run", "run.toml", "--out", "simulated", "--quiet"], cwd=root, check=True,
                           stdout=subprocess.DEVNULL)  # fmt: skip
            spent = play(root, programs)
        report(root)
        print(f"CPU seconds per round, all programs: {sum(spent.values()):.2f}")
        for role, seconds in spent.items():
            print(f"  {role:25} {seconds:.3f}")


def measure_sizes() -> None:
    """Models of several sizes: CPU seconds per megabyte moved, all programs, and against the size before."""
    print(
        f"CPU seconds per megabyte that goes to or from a site ({len(SITES)} sites, one step of training):", flush=True
    )
    before = 0.0
    for megabytes, width in SIZES.items():
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            with deployed(root, sized_run(width)) as programs:
                spent = play(root, programs, SIZE_ROUNDS)
            records = [json.loads(line) for line in (root / "d/server/run/metrics.jsonl").read_text().splitlines()]
            moved = (records[-1]["bytes_down"] + records[-1]["bytes_up"]) / 1e6
            each = sum(spent.values()) / moved
            ratio = f"{each / before:.2f}x of the size before" if before else ""
            roles = ", ".join(f"{role} {seconds / moved:.4f}" for role, seconds in spent.items())
            seconds = sorted(json.loads(line)["seconds"] for line in (root / "d/server/run/timings.jsonl").open())
            print(
                f"  {megabytes:4} MB  {each:.4f}  {ratio:28} {roles}; a round {seconds[len(seconds) // 2]:.1f} s",
                flush=True,
            )
            before = each


def work_of(root: Path) -> list[float]:
    """Of each round but the first, the seconds that the slowest site worked."""
    slowest: dict[str, float] = {}
    for site in SITES:
        log = (root / "d" / site / "logs" / "site.log").read_text()
        for number, seconds in re.findall(r"round (\d+): update took ([\d.]+) s", log):
            slowest[number] = max(slowest.get(number, 0.0), float(seconds))
    return sorted(slowest.values())[: ROUNDS - 2]


def report(root: Path) -> None:
    """Print seconds and bytes side by side."""
    here, there = seconds_of(root / "d" / "server" / "run"), work_of(root)
    alone = seconds_of(root / "simulated")
    middle = len(here) // 2
    print(f"seconds per round, {len(SITES)} sites, LeNet, {len(here)} rounds (median, best):")
    print(f"  deployed                  {here[middle]:.2f}  {here[0]:.2f}")
    print(f"  the slowest site's work   {there[middle]:.2f}  {there[0]:.2f}")
    print(f"  beside the work           {here[middle] - there[middle]:.2f}  {here[0] - there[0]:.2f}")
    print(f"  simulated on one core     {alone[middle]:.2f}  {alone[0]:.2f}   (all three, one after the other)")
    records = [json.loads(line) for line in (root / "d/server/run/metrics.jsonl").read_text().splitlines()]
    counted = sum(record["bytes_down"] + record["bytes_up"] for record in records)
    wire = json.loads((root / "d/server/run/wire.json").read_text())
    log = (root / "d/server/proxy/access.log").read_text()
    payload = sum(
        int(found["in"]) + int(found["out"])
        for found in re.finditer(r"/v1/fleet/(?:push|pull)-object .* in=(?P<in>\d+) out=(?P<out>\d+)", log)
    )
    everything = sum(int(a) + int(b) for a, b in re.findall(r"in=(\d+) out=(\d+)", log))
    last = len(SITES) * records[-1]["bytes_down"] // len(SITES)
    print(f"bytes of {ROUNDS} rounds, all sites, both ways, against those counted ({counted:,}):")
    print(f"  our messages, the final model ({last:,}) left out   {wire['bytes_down'] + wire['bytes_up'] - last:,}")
    print(
        f"  Flower's transfers of them                         {payload - last:,}  ({(payload - last) / counted:.4f}x)"
    )
    print(f"  all HTTP: final model, heartbeats, looks for work  {everything:,}  ({everything / counted:.4f}x)")


if __name__ == "__main__":
    main()
