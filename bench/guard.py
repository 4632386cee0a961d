"""The guard on speed: the benchmarks that have a bar, in small, as ratios of one run.

Compiled executions are left out: compiling takes longer than all the rest. It fails only where a ratio is below 0.6 of
its bar, so that a busy machine does not fail it and a regression does. ``.ci/run`` ends with it.

Most ratios are of CPU time, which other work hardly changes. A ratio of wall time (two workers against one) says
nothing where the machine has no free core for each worker: it is skipped then, by name.

    make bench-guard
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

SCRIPTS = ("local.py", "engines.py", "methods.py", "graphs.py", "scale.py", "user_module.py")
TOLERANCE = 0.6
"""The share of its bar that a ratio may fall to."""
MOST_CORES, WINDOW = 2, 0.5
"""The most cores that a case needs, and the seconds for which processes compute to see how many are free."""
FREE = 0.9
"""The share of a core that a process must get for the core to count as free."""
COMPUTE = """
import sys, time
print(flush=True)
sys.stdin.readline()
wall, cpu = time.perf_counter(), time.process_time()
while time.perf_counter() - wall < float(sys.argv[1]):
    pass
print((time.process_time() - cpu) / (time.perf_counter() - wall))
"""


def measure(script: str) -> list[dict[str, object]]:
    """The measurements of one benchmark that have a bar."""
    command = [sys.executable, str(Path(__file__).parent / script), "--json", "--quick"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if "bar" in row]


def core_shares(processes: int = MOST_CORES, seconds: float = WINDOW) -> list[float]:
    """The share of a core that each of some processes gets while all of them compute.

    It is measured and not taken from the load average: that counts the guard's own last minute, and knows nothing of a
    container that has less than its machine.
    """
    command = [sys.executable, "-c", COMPUTE, str(seconds)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for one in started:  # all are up before the first begins
        assert one.stdout is not None
        one.stdout.readline()
    for one in started:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    return [float(one.communicate()[0]) for one in started]


def free_cores() -> int:
    """How many cores are free at this moment, of those that a case may need."""
    return sum(share >= FREE for share in core_shares())


def main() -> None:
    """Run every benchmark, print its ratios, and exit with 1 if one of them is far below its bar."""
    failed, skipped, began = [], 0, time.perf_counter()
    before = free_cores()
    for script in SCRIPTS:
        rows, after = measure(script), free_cores()
        free, before = min(before, after), after
        if not rows:
            failed.append(f"{script} measured nothing that has a bar")
        for row in rows:
            name, ratio, bar = f"{row['case']}, {row['contender']}", float(str(row["ratio"])), float(str(row["bar"]))
            needed = int(str(row.get("needs_cores", 1)))
            if needed > 1 and free < needed:  # one core is enough for a ratio of CPU times, also if it is shared
                print(
                    f"skip {ratio:9.2f} (bar {bar:.2f})  {name}: it needs {needed} free cores, found {free}", flush=True
                )
                skipped += 1
                continue
            holds = ratio >= TOLERANCE * bar
            print(f"{'ok  ' if holds else 'FAIL'} {ratio:9.2f} (bar {bar:.2f})  {name}", flush=True)
            if not holds:
                failed.append(f"{name}: {ratio:.2f} is below {TOLERANCE} of its bar {bar:.2f}")
    print(f"guard: {len(failed)} failed, {skipped} skipped in {time.perf_counter() - began:.0f} s")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
