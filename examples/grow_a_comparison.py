"""Grow a comparison: stop early on validation data, add a method and a seed, go on further, use one client's model.

python examples/grow_a_comparison.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import fedloom as fl


def main(folder: Path) -> None:
    task = fl.task("digits", clients=8, alpha=0.3, valid_share=0.2)
    first = fl.run(task, "fedper", rounds=30, early_stopping={"patience": 3}, out=folder / "early")
    print("Early stopping:", first)

    out = folder / "methods"
    fl.compare(task, ["fedavg", "local"], rounds=4, out=out)
    fl.compare(task, ["fedper"], rounds=4, seeds=2, out=out)  # a method and a seed more: what is there is read
    found = fl.resume(out, rounds=6)  # and two rounds more
    print(repr(found))
    print(found)
    print("Report:", fl.report(found), "and figure:", folder / "curves.png")
    fl.plot(found, folder / "curves.png")

    model = first.model(task, client=3)  # what client 3 predicts with
    test = task.federation.test[3]
    right = model(task.inputs(test)).argmax(1) == task.targets(test)
    print(f"Client 3's own model: {float(right.float().mean()):.1%} on its own test samples")

    warm = fl.run(task, "fedavg", rounds=2, start_from=out / "fedavg-seed0")
    print("Warm start:", warm)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
