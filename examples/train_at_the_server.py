"""Server data: samples without labels that only the server has, and that it trains on after each mean.

FedLID trains the averaged body by contrast of two views; FedAvg on the same clients is the control.

    python examples/train_at_the_server.py
"""

import fedloom as fl


def main() -> None:
    task = fl.task("digits", clients=4, alpha=0.3, server_set={"share": 0.3, "labelled": False})
    for method in ("fedavg", "fedlid:server_epochs=2,server_batch=64,flip=0"):
        history = fl.run(task, method, rounds=4)
        received, trained = (history.last(f"{which}_model/own_test/accuracy/mean") for which in ("received", "trained"))
        print(f"{method}: {received:.1%} with the model that clients receive, {trained:.1%} after they trained it")


if __name__ == "__main__":
    main()
