"""A personalised method in a dozen lines: Ditto.

Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021. Beside the shared model every
client keeps one of its own, trained on its data and held near the shared one; it predicts with its own.

    python examples/own_method.py
    fedloom run --method examples/own_method.py:Ditto:strength=0.5 --clients 20 --alpha 0.1
"""

from dataclasses import dataclass

from torch import Tensor

import fedloom as fl


@dataclass(frozen=True)
class Ditto(fl.FedAvg):
    """FedAvg, and for every client a model of its own that is pulled towards the shared one."""

    strength: float = 0.1

    def client_update(self, cohort: fl.Cohort, message: fl.Message) -> fl.Reply:
        reply = super().client_update(cohort, message)
        own, shared = self.weights_for(message, cohort), cohort.spread(message["row"])
        cohort.keep("own", cohort.train(own, pull=self.towards, given={"shared": shared}))
        return reply

    def towards(self, rows: Tensor, received: Tensor, shared: Tensor) -> Tensor:
        return self.strength * (rows - shared)

    def weights_for(self, message: fl.Message, cohort: fl.Cohort) -> Tensor:
        return cohort.kept_rows("own", cohort.spread(message["row"]))


def main() -> None:
    task = fl.task("digits", clients=20, partition=fl.dirichlet(0.1))
    results = fl.compare(task, ["local", "fedavg", Ditto(strength=0.5)], rounds=10)
    for name, (history,) in results.items():
        accuracy = history.last("client_model/own_test/accuracy/mean")
        spread = history.last("client_model/own_test/accuracy/std")
        print(f"{name:8} clients' own tests: {accuracy:.1%}, spread over clients {spread:.1%}")


if __name__ == "__main__":
    main()
