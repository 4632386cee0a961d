"""A method is named in any spelling, with its settings, and has one label."""

import fedloom as fl
from fedloom.config.method_spec import label_of, method_from


def test_a_method_is_named_in_any_case_with_aliases_and_settings():
    assert method_from("FedProx:mu=0.5,adaptive=true") == fl.FedProx(mu=0.5, adaptive=True)
    assert method_from("Federated-Averaging") == fl.FedAvg()
    assert method_from("standalone") == fl.Local()
    assert method_from(fl.FedYogi) == fl.FedYogi()
    assert label_of("FedProx:mu=0.5") == label_of(fl.FedProx(mu=0.5)) == "fedprox:mu=0.5"
    assert label_of(fl.FedAvg()) == "fedavg"
