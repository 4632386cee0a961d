"""A stream: clients meet the classes two at a time, and the question is what they forget.

The controls are FedAvg, which forgets, and FedAvg with exemplars of earlier classes, which forgets less.

    python examples/learn_a_stream.py
"""

import fedloom as fl


def main() -> None:
    task = fl.task("digits", clients=4, communal=0.1, stream={"tasks": 3, "rounds": 3})
    for method in ("fedavg", "fedavgexemplars:exemplars=60"):
        history = fl.run(task, method, rounds=9, local={"lr": 0.1, "batch_size": 16})
        first, last = (history.last(f"global_model/global_test/task_{number}_accuracy") for number in (1, 3))
        print(f"{method}: {first:.1%} on the first task's classes, {last:.1%} on the last one's")


if __name__ == "__main__":
    main()
