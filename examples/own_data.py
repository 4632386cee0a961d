"""Your own data: write a CSV with a client column, look at the federation, train on it.

Five workshops photograph digits with different exposure; each line is one image and says which workshop it is from.

    python examples/own_data.py [FOLDER]
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import fedloom as fl


def write_csv(path: Path) -> None:
    images, labels = load_digits(return_X_y=True)
    draw = np.random.default_rng(0)
    workshop = draw.choice(5, size=len(labels), p=[0.4, 0.25, 0.2, 0.1, 0.05])
    exposed = images * (0.5 + 0.25 * workshop)[:, None]
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow([*(f"pixel{i}" for i in range(64)), "workshop", "digit"])
        for pixels, place, label in zip(exposed, workshop, labels, strict=True):
            table.writerow([*pixels.round(2), f"workshop-{place}", label])


def main(folder: Path) -> None:
    path = folder / "digits.csv"
    write_csv(path)
    federation = fl.read(path, target="digit", client="workshop")
    for client in range(federation.clients):
        train, test = federation.train[client], federation.test[client]
        print(f"{federation.name(client)}: {len(train)} samples to train on, {len(test)} to test")
    task = fl.task_of(federation, model="mlp", model_options={"hidden": (32,)})
    history = fl.run(task, "fedavg", rounds=10, local={"lr": 0.1, "batch_size": 32})
    print(f"global model, global test: {history.last('global_model/global_test/accuracy'):.1%}")
    print(f"global model, clients' own tests: {history.last('client_model/own_test/accuracy/mean'):.1%}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fedloom-")))
