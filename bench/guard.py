"""The guard on speed: the benchmarks that have a bar, in small, as ratios of one run.

Compiled executions are left out: compiling takes longer than all the rest. It fails only where a ratio is below 0.6 of
its bar, so that a busy machine does not fail it and a regression does. ``.ci/run`` ends with it.

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


def measure(script: str) -> list[dict[str, object]]:
    """The measurements of one benchmark that have a bar."""
    command = [sys.executable, str(Path(__file__).parent / script), "--json", "--quick"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if "bar" in row]


def main() -> None:
    """Run every benchmark, print its ratios, and exit with 1 if one of them is far below its bar."""
    failed, began = [], time.perf_counter()
    for script in SCRIPTS:
        rows = measure(script)
        if not rows:
            failed.append(f"{script} measured nothing that has a bar")
        for row in rows:
            name, ratio, bar = f"{row['case']}, {row['contender']}", float(str(row["ratio"])), float(str(row["bar"]))
            holds = ratio >= TOLERANCE * bar
            print(f"{'ok  ' if holds else 'FAIL'} {ratio:9.2f} (bar {bar:.2f})  {name}", flush=True)
            if not holds:
                failed.append(f"{name}: {ratio:.2f} is below {TOLERANCE} of its bar {bar:.2f}")
    print(f"guard: {len(failed)} failed in {time.perf_counter() - began:.0f} s")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
