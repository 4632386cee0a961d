"""Fed-GALA-P: Fed-GALA without its pull, and what its mu remembers."""

from __future__ import annotations

import torch

import fedloom as fl
from support.overlapping_graphs import NEVER, final_on_graphs


def test_without_its_pull_fedgalap_is_fedgala(tmp_path):
    one = final_on_graphs(tmp_path / "p", fl.FedGalaP(mu=0, adaptive=False))
    other = final_on_graphs(tmp_path / "g", fl.FedGala())
    assert torch.equal(one.server["row"], other.server["row"])


def test_mu_goes_on_and_its_counters_begin_anew_with_the_task(tmp_path):
    server = final_on_graphs(tmp_path, fl.FedGalaP(**NEVER), rounds=2).server
    assert float(server["mu"]) == 1  # one loss of each kind: nothing to compare
    assert int(server["falls"]) == 0
