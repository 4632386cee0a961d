"""SCAFFOLD: it stops at the optimum where FedAvg does not, and its control variates sum up in every round."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from support.checkpoints import WORK, final, final_row, same
from support.drift_control import (
    BOTH_WAYS,
    check_held_out_clients_do_not_pull,
    check_reaches_the_optimum,
    check_reaches_the_optimum_with_half_of_the_clients,
    check_statistics_are_not_corrected,
    mean_of_kept_rows,
    task_with_running_statistics,
)
from support.synthetic import SIZES, cohort, distance, small_task

# -- least squares: everything can be computed


@BOTH_WAYS
@pytest.mark.parametrize("option", [2, 1])
@pytest.mark.slow
def test_drift_control_reaches_the_optimum(tmp_path, option, by, execution):
    check_reaches_the_optimum(tmp_path, fl.SCAFFOLD(option=option), by, execution)


@pytest.mark.slow
@pytest.mark.parametrize("option", [2, 1])
def test_drift_control_reaches_the_optimum_with_half_of_the_clients_at_a_time(tmp_path, option):
    check_reaches_the_optimum_with_half_of_the_clients(tmp_path, fl.SCAFFOLD(option=option))


@pytest.mark.parametrize("option", [2, 1])
def test_clients_held_out_of_training_do_not_pull_the_optimum(tmp_path, option):
    """All means, also those over all clients, are over the clients that may take part."""
    check_held_out_clients_do_not_pull(tmp_path, fl.SCAFFOLD(option=option), "c")


@pytest.mark.parametrize("option", [2, 1])
def test_running_statistics_are_averaged_and_not_corrected(tmp_path, option):
    check_statistics_are_not_corrected(tmp_path / "run", fl.SCAFFOLD(option=option), "c", "c")
    task = task_with_running_statistics()
    statistics = ~task.layout.trained_columns
    first = final_row(tmp_path / "one", fl.SCAFFOLD(option=option), task, rounds=1)  # the first round is FedAvg's
    assert distance(final_row(tmp_path / "avg", "fedavg", task, rounds=1)[statistics], first[statistics]) < 1e-6


# -- sums that hold in every round


@pytest.mark.parametrize("by", ["samples", "uniform"])
@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("rounds", [1, 4])
def test_the_servers_control_variate_is_the_mean_of_the_clients(tmp_path, rounds, option, by):
    some = {"rounds": rounds, "selection": {"number": 2}, "weight_by": by}
    state = final(tmp_path / "run", fl.SCAFFOLD(option=option), small_task(), **some)
    assert distance(mean_of_kept_rows(state, "c", by, SIZES), state.server["c"]) < 1e-5


# -- identities


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_the_first_round_of_scaffold_is_fedavg(tmp_path, execution):
    """All control variates are 0 yet."""
    settings = {"rounds": 1, "weight_by": "uniform", "execution": execution}
    avg = final(tmp_path / "avg", "fedavg", small_task(), **settings)
    for option in (1, 2):
        drift = final(tmp_path / str(option), fl.SCAFFOLD(option=option), small_task(), **settings)
        assert distance(avg.server["row"], drift.server["row"]) < 1e-6


def test_a_server_step_of_half_the_length_goes_half_way(tmp_path):
    task = small_task()
    whole, half = (final(tmp_path / str(lr), fl.SCAFFOLD(server_lr=lr), task, rounds=1) for lr in (1.0, 0.5))
    assert distance((task.initial_row() + whole.server["row"]) / 2, half.server["row"]) < 1e-6


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_option_one_keeps_the_full_gradient_at_the_received_model(tmp_path, execution):
    task = small_task()
    state = final(tmp_path / "run", fl.SCAFFOLD(option=1), task, rounds=1, execution=execution)
    for client in range(4):
        part = task.federation.train[client]
        task.model.zero_grad()
        nn.functional.cross_entropy(task.model(task.inputs(part)), task.targets(part)).backward()
        gradient = torch.cat([p.grad.flatten() for p in task.model.parameters()])
        assert distance(gradient, state.client_states.rows["c"][client]) < 1e-5


@pytest.mark.parametrize("rounds", [1, 3])
def test_with_one_whole_step_both_options_are_the_same(tmp_path, rounds):
    settings = {"rounds": rounds, "local": {"steps": 1, "batch_size": 0, "lr": 0.1}}
    one, two = (
        final(tmp_path / str(option), fl.SCAFFOLD(option=option), small_task(), **settings) for option in (1, 2)
    )
    assert distance(one.server["row"], two.server["row"]) < 1e-6
    assert distance(one.client_states.rows["c"], two.client_states.rows["c"]) < 1e-4


def test_option_two_counts_the_steps_that_were_made():
    """The mean gradient of the run's steps: (x - y) / (steps · lr), for clients of unequal size."""
    task, work = small_task(), LocalWork(**WORK)
    one, two = cohort(task, "vectorised", work), cohort(task, "vectorised", work)
    row = task.initial_row()
    fl.SCAFFOLD().client_update(one, fl.Message({"row": row, "c": torch.zeros_like(row)}))
    steps = torch.tensor([[6.0], [2.0], [8.0], [4.0]])  # two epochs of 3, 1, 4 and 2 batches
    assert distance((row - two.train(two.spread(row))) / (steps * 0.1), one.kept["c"].rows) < 1e-5


def test_clients_that_do_no_work_keep_their_control_variate(tmp_path):
    state = final(tmp_path / "run", "scaffold", small_task(), rounds=2, local={**WORK, "epochs": 0})
    assert not state.client_states.rows["c"].any()
    assert same(state.server["row"], small_task().initial_row())


# -- what travels, what is refused


def test_scaffold_costs_twice_as_much_as_fedavg_and_feddyn_the_same():
    costs = []
    for method in ("fedavg", "feddyn", "scaffold"):
        history = fl.run(small_task(), method, rounds=2, local=WORK, eval_every=0)
        costs.append(torch.tensor([history.total(what) for what in ("bytes_up", "bytes_down")]))
    assert torch.equal(costs[0], costs[1])
    assert torch.equal(2 * costs[0], costs[2])


@pytest.mark.parametrize("work", [{"optimizer": "adam"}, {"momentum": 0.9}])
def test_option_two_refuses_steps_from_which_no_gradient_can_be_read(work):
    with pytest.raises(FedloomError, match="scaffold's option 2 needs plain gradient steps"):
        fl.run(small_task(), "scaffold", rounds=1, local={**WORK, **work})
    fl.run(small_task(), "scaffold:option=1", rounds=1, local={**WORK, **work})


def test_impossible_settings_are_refused():
    with pytest.raises(FedloomError, match="server_lr=0: it must be above 0"):
        fl.SCAFFOLD(server_lr=0)


def test_the_variate_is_the_mean_gradient_of_the_steps_weighted_by_their_rates():
    """Where the rate changes within a round: ``sum_t lr_t g_t / sum_t lr_t``, by hand for two steps on all samples."""
    work = LocalWork(steps=2, batch_size=0, lr=0.2, round_schedule="linear", round_decay=0.25)
    some = cohort(small_task(), "loop", work)
    x = some.task.initial_row()
    first = some.gradient(some.spread(x))
    second = some.gradient(x - 0.2 * first)
    some = cohort(small_task(), "loop", work)
    fl.SCAFFOLD().client_update(some, fl.Message({"row": x, "c": torch.zeros_like(x)}))
    assert distance(some.kept["c"].rows, (0.2 * first + 0.05 * second) / 0.25) < 1e-4
