"""A comparison on one core against the same comparison on two, wall time: seven methods, three seeds, digits.

The results are the same bytes; only the time differs. Two cores are asked for 1.7x.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import fedloom as fl
from fedloom.runs.plans.compare import make_plan, run_comparison, write_comparison
from fedloom.runs.plans.members import RunFactory
from measure import arguments, line

METHODS = ["local", "fedavg", "scaffold", "fedseq", "fedrep", "ditto", "fedavg+fedpredict"]
VALUES = {"task": {"name": "digits", "clients": 20, "partition": {"name": "dirichlet", "alpha": 0.1}}, "rounds": 20}
SEEDS = 3
CORES = 2


def main() -> None:
    """Measure one and two cores in turn."""
    options = arguments("A plan on one core against the same plan on two.")
    best: dict[int, tuple[float, float]] = {}
    found = {}
    play(1)  # what is loaded once is loaded now
    for _ in range(max(1, options.repeat // 3)):
        for cores in (1, CORES):
            wall, cpu = time.perf_counter(), _cpu()
            found[cores] = play(cores)
            took = time.perf_counter() - wall, _cpu() - cpu
            best[cores] = min(best.get(cores, took), took)
    assert found[1] == found[CORES], "the number of cores changed the result"
    for cores, (wall, cpu) in best.items():
        bar = 1.7 if cores > 1 else None
        ratio, name = best[1][0] / wall, f"{cores} core(s)"
        line("comparison, wall time", name, cpu, wall, ratio, options.json, bar, needs_cores=cores)


def play(cores: int) -> dict[str, list[fl.History]]:
    """Run the comparison in a new folder.

    Args:
        cores: How many cores it uses.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan = write_comparison(Path(folder), make_plan(VALUES, METHODS, SEEDS))
        return run_comparison(Path(folder), plan, lambda *_: (), RunFactory(cores=cores))


def _cpu() -> float:
    """CPU seconds of this process and of its finished children."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


if __name__ == "__main__":
    main()
