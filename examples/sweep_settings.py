"""Sweep two settings of FedProx on digits over two seeds: choose on validation data, print test scores, draw the map.

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
        chosen, test, std = row["means"][swept.chosen_by], row["means"][CLIENTS], row["stds"][CLIENTS]
        print(f"{row['label']:16} validation {chosen:6.1%}  test {test:6.1%} ± {std:.1%}  {row['mark']}")
    print(swept)
    swept.plot(folder / "sweep.png")
    print("Map:", folder / "sweep.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
