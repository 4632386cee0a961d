"""FedDyn: it stops at the optimum, and its correction is the mean of the clients' in every round."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.checkpoints import final
from support.drift_control import (
    BOTH_WAYS,
    check_held_out_clients_do_not_pull,
    check_reaches_the_optimum,
    check_reaches_the_optimum_with_half_of_the_clients,
    check_statistics_are_not_corrected,
    mean_of_kept_rows,
)
from support.synthetic import SIZES, distance, small_task

# -- least squares: everything can be computed


@BOTH_WAYS
def test_drift_control_reaches_the_optimum(tmp_path, by, execution):
    check_reaches_the_optimum(tmp_path, fl.FedDyn(alpha=0.5), by, execution)


def test_drift_control_reaches_the_optimum_with_half_of_the_clients_at_a_time(tmp_path):
    check_reaches_the_optimum_with_half_of_the_clients(tmp_path, fl.FedDyn(alpha=0.5))


def test_clients_held_out_of_training_do_not_pull_the_optimum(tmp_path):
    """All means, also those over all clients, are over the clients that may take part."""
    check_held_out_clients_do_not_pull(tmp_path, fl.FedDyn(alpha=0.5), "g")


def test_running_statistics_are_averaged_and_not_corrected(tmp_path):
    check_statistics_are_not_corrected(tmp_path / "run", fl.FedDyn(alpha=0.5), "g", "h")


# -- one round


@pytest.mark.parametrize("by", ["samples", "uniform"])
@pytest.mark.parametrize("rounds", [1, 4])
def test_the_servers_correction_of_feddyn_is_the_mean_of_the_clients(tmp_path, rounds, by):
    some = {"rounds": rounds, "selection": {"number": 2}, "weight_by": by}
    state = final(tmp_path / "run", "feddyn", small_task(), **some)
    assert distance(mean_of_kept_rows(state, "g", by, SIZES), state.server["h"]) < 1e-5


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_first_round_of_feddyn_goes_twice_as_far_as_fedprox(tmp_path, execution):
    """g_i = 0 yet, so clients train as in FedProx; then h = -alpha · (mean - w), and w becomes mean - h / alpha."""
    settings = {"rounds": 1, "execution": execution}
    prox = final(tmp_path / "prox", fl.FedProx(mu=0.3), small_task(), **settings).server["row"]
    dyn = final(tmp_path / "dyn", fl.FedDyn(alpha=0.3), small_task(), **settings).server["row"]
    assert distance(2 * prox - small_task().initial_row(), dyn) < 1e-5


def test_an_alpha_of_zero_is_refused():
    with pytest.raises(FedloomError, match="alpha=0: it must be above 0"):
        fl.FedDyn(alpha=0)
