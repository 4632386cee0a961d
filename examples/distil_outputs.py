"""Distillation: clients with different models exchange what these say of shared samples, and never a weight.

FedMD sends outputs for the communal set; isolated training, which sends nothing, is the control.

    python examples/distil_outputs.py
"""

import fedloom as fl


def main() -> None:
    models = {"mlp:hidden=[32]": 0.5, "mlp:hidden=[64, 32]": 0.5}
    task = fl.task("digits", clients=10, alpha=0.3, communal=0.2, models=models)
    for method in ("local", "fedmd"):
        history = fl.run(task, method, rounds=6, local={"lr": 0.1, "batch_size": 16}, weight_by="uniform")
        score, sent = history.last("client_model/own_test/accuracy/mean"), history.total("bytes_up") / 1e6
        print(f"{method}: {score:.1%} on the clients' own tests, {sent:.2f} MB up")


if __name__ == "__main__":
    main()
