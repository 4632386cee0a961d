"""Sweep two settings of FedProx on digits over two seeds, print the table, and write the map of the grid.

python examples/sweep_settings.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import fedloom as fl

GRID = {"method.mu": [0.01, 1.0], "local.lr": [0.03, 0.1, 0.3]}
CLIENTS = "client_model/own_test/accuracy/mean"


def main(folder: Path) -> None:
    task = fl.task("digits", clients=10, alpha=0.3)
    swept = fl.sweep(task, "fedprox", grid=GRID, rounds=6, seeds=2, out=folder / "sweep")  # the same call goes on
    for row in swept.rows:
        print(f"{row['label']:16} {row['means'][CLIENTS]:6.1%} ± {row['stds'][CLIENTS]:.1%}  {row['mark']}")
    print(swept)
    swept.plot(folder / "sweep.png")
    print("Map:", folder / "sweep.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
