"""A messy table of your own: how long patients stay in twelve hospitals, and whether these should learn together.

The table is made up: an index column, dates, categories, missing cells, blank lines, and a number to predict.

    python examples/hospital_stays.py [FOLDER]
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np

import fedloom as fl

WARDS = ["surgery", "cardiology", "geriatrics", "paediatrics"]
HEADER = ["", "case_id", "hospital", "admitted", "ward", "age", "crp", "emergency", "country", "days"]


def write_csv(path: Path, patients: int = 1800) -> None:
    """Write the table; large hospitals have more patients, and each treats in its own way."""
    draw = np.random.default_rng(7)
    sizes = draw.dirichlet(np.full(12, 1.5))
    pace = draw.normal(0, 0.6, size=12)
    with path.open("w", newline="") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(HEADER)
        for number in range(patients):
            hospital = int(draw.choice(12, p=sizes))
            ward = int(draw.choice(4, p=[0.4, 0.3, 0.2, 0.1]))
            age = draw.integers(1, 16) if ward == 3 else draw.integers(18, 96)
            crp = draw.gamma(1.5, 20)
            emergency = bool(draw.random() < 0.35)
            days = 2 + 3 * (ward == 2) + 0.05 * age + 0.04 * crp + 1.5 * emergency + pace[hospital] + draw.normal(0, 1)
            admitted = np.datetime64("2025-01-01") + int(draw.integers(0, 365))
            row = [number, f"C{draw.integers(10**8):08d}", f"hospital-{hospital + 1}", str(admitted), WARDS[ward]]
            row += ["" if draw.random() < 0.05 else age, "NA" if draw.random() < 0.15 else f"{crp:.1f}"]
            row += ["yes" if emergency else "no", "DE", "" if draw.random() < 0.01 else f"{max(days, 0.5):.1f}"]
            table.writerow(row)
            if number % 400 == 399:
                file.write("\n")


def main(folder: Path) -> None:
    path = folder / "stays.csv"
    write_csv(path)
    federation = fl.read(path, target="days", client="hospital")
    print("\n".join(federation.notes))
    task, errors = fl.task_of(federation), {}
    for method in ("fedavg", "local"):
        history = fl.run(task, method, rounds=10, eval_every=10)
        errors[method] = history.last("client_model/own_test/mae/mean")
        print(f"{method}: mean absolute error {errors[method]:.2f} days")
    print(f"together, hospitals err by {1 - errors['fedavg'] / errors['local']:.0%} less than alone (one seed)")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
