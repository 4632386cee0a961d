"""Compare methods on digits over two seeds, each with a partition of its own, and write one report of all runs.

python examples/compare_methods.py [FOLDER]
"""

import statistics
import sys
import tempfile
from pathlib import Path

import fedloom as fl

METHODS = ["local", "fedavg", "fedprox:mu=1", "fedavgm", "fedadagrad"]


def main(folder: Path) -> None:
    results = fl.compare(lambda seed: fl.task("digits", clients=20, alpha=0.1, seed=seed), METHODS, seeds=2, rounds=10)
    print(f"{'method':14} {'global model, global test':>26} {'clients, own tests':>20}")
    for name, histories in results.items():
        cells = []
        for metric in ("global_model/global_test/accuracy", "client_model/own_test/accuracy/mean"):
            values = [value for h in histories if (value := h.last(metric)) is not None]
            cells.append(f"{statistics.mean(values):.1%}" if values else "-")
        print(f"{name:14} {cells[0]:>26} {cells[1]:>20}")
    print("Report:", fl.report(results, folder / "compare.html"))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
