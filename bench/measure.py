"""How the benchmarks measure: contenders take turns, the best of several counts, CPU time beside wall time.

A ratio is the first contender's CPU seconds over another's in the same run: above 1 is faster than the first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

Contenders = dict[str, Callable[[], object]]
QUICK_REPEAT = 2
"""Turns of each contender in the guard."""


def arguments(description: str) -> argparse.Namespace:
    """The options every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--repeat", type=int, default=7, help="how often each contender has its turn")
    parser.add_argument("--only", default="", help="only the cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="only contenders with a bar, and few turns: for the guard")
    options = parser.parse_args()
    options.repeat = QUICK_REPEAT if options.quick else options.repeat
    return options


def best_times(contenders: Contenders, repeat: int) -> dict[str, tuple[float, float]]:
    """Best CPU and wall seconds of each contender, after one warm-up each."""
    best = dict.fromkeys(contenders, (float("inf"), float("inf")))
    for turn in range(repeat + 1):
        for name, work in contenders.items():
            cpu, wall = time.process_time(), time.perf_counter()
            work()
            took = time.process_time() - cpu, time.perf_counter() - wall
            if turn:
                best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    return best


def show(case: str, best: dict[str, tuple[float, float]], as_json: bool, bars: dict[str, float] | None = None) -> None:
    """Print a case: ratios against the first contender, and the bar where there is one."""
    first = next(iter(best.values()))[0]
    for name, (cpu, wall) in best.items():
        line(case, name, cpu, wall, first / cpu, as_json, (bars or {}).get(name))


def line(
    case: str,
    contender: str,
    cpu: float,
    wall: float,
    ratio: float,
    as_json: bool,
    bar: float | None = None,
    **more: object,
) -> None:
    """Print one measurement."""
    if as_json:
        row = {"case": case, "contender": contender, "cpu_seconds": cpu, "wall_seconds": wall, "ratio": ratio}
        print(json.dumps({**row, **({"bar": bar} if bar is not None else {}), **more}), flush=True)
        return
    met = "" if bar is None else f"   bar {bar:g}: {'met' if ratio >= bar else 'MISSED'}"
    extra = "".join(f"  {key} {value}" for key, value in more.items())
    print(
        f"{case:34s} {contender:22s} cpu {cpu:8.4f} s  wall {wall:8.4f} s  ratio {ratio:7.2f}{met}{extra}", flush=True
    )
