"""Drift control: where SCAFFOLD and FedDyn stop and FedAvg does not, and the sums that hold in every round."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import SquaredError, Task
from fedloom.data.federation import Federation, Ragged
from fedloom.rounds.run_state import RunState
from support.checkpoints import WORK, final, same
from support.synthetic import cohort, distance, federation, mlp

SIZES = [33, 9, 50, 20]
DRIFT = [fl.SCAFFOLD(), fl.SCAFFOLD(option=1), fl.FedDyn(alpha=0.5)]
NAMED = ["scaffold", "scaffold, option 1", "feddyn"]
BOTH_WAYS = pytest.mark.parametrize(("by", "execution"), [("samples", "loop"), ("uniform", "vectorised")])
EXECUTIONS = pytest.mark.parametrize("execution", ["loop", "vectorised"])


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def with_statistics() -> Task:
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))
    return Task("t", federation([32, 48, 16]), model)


# -- least squares: everything can be computed


LOCAL = {"steps": 4, "batch_size": 0, "lr": 0.2}
POINTS = [8, 20, 12, 40]


def squares() -> Task:
    """Clients with unequal numbers of points, unequal curvatures and unequal optima of a linear model."""
    generator = torch.Generator().manual_seed(2)
    parts = torch.arange(sum(POINTS)).split(POINTS)
    x, y = torch.randn(sum(POINTS), 3, generator=generator), torch.zeros(sum(POINTS), 1)
    for client, part in enumerate(parts):
        x[part] *= torch.tensor([0.7, 1.0, 1.3]).roll(client)
        y[part] = x[part] @ torch.randn(3, 1, generator=generator) * (1 + client)
    own, model = Ragged.of(parts), nn.Linear(3, 1, bias=False)
    nn.init.zeros_(model.weight)
    return Task("squares", Federation({"x": x, "y": y}, own, own, Ragged.empty(4), 1), model, SquaredError())


def curvatures(task: Task, ids: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Each client's Hessian and optimum."""
    found = []
    for client in ids:
        part = task.federation.train[client]
        x, y = task.inputs(part).double(), task.targets(part).double()
        found.append((x.T @ x / len(part), torch.linalg.lstsq(x, y).solution.flatten()))
    return found


def weights(by: str, ids: list[int]) -> Tensor:
    raw = torch.tensor([float(POINTS[k]) if by == "samples" else 1.0 for k in ids]).double()
    return raw / raw.sum()


def balance(pulls: list[Tensor], task: Task, by: str, ids: list[int]) -> Tensor:
    """Where weighted pulls towards the clients' optima cancel."""
    optima, shares = [c for _, c in curvatures(task, ids)], weights(by, ids)
    total = sum(p * pull for p, pull in zip(shares, pulls, strict=True))
    return torch.linalg.solve(total, sum(p * pull @ c for p, pull, c in zip(shares, pulls, optima, strict=True)))


def optimum(task: Task, by: str, ids: list[int]) -> Tensor:
    """Where the weighted mean of the clients' losses is least: they pull with their gradients."""
    return balance([hessian for hessian, _ in curvatures(task, ids)], task, by, ids)


def fixed_point(task: Task, by: str) -> Tensor:
    """Where FedAvg stops: s gradient steps pull with I - (I - lr H)^s."""
    ids, one = [0, 1, 2, 3], torch.eye(3).double()
    left = [torch.linalg.matrix_power(one - LOCAL["lr"] * h, LOCAL["steps"]) for h, _ in curvatures(task, ids)]
    return balance([one - some for some in left], task, by, ids)


@BOTH_WAYS
def test_fedavg_stops_beside_the_optimum_where_its_steps_balance(tmp_path, by, execution):
    task = squares()
    where = final(tmp_path / "run", "fedavg", task, rounds=40, local=LOCAL, weight_by=by, execution=execution)
    assert distance(fixed_point(task, by), where.server["row"].double()) < 1e-4
    assert distance(optimum(task, by, [0, 1, 2, 3]), where.server["row"].double()) > 0.05


@BOTH_WAYS
@pytest.mark.parametrize("method", DRIFT, ids=NAMED)
def test_drift_control_reaches_the_optimum(tmp_path, method, by, execution):
    task = squares()
    where = final(tmp_path / "run", method, task, rounds=40, local=LOCAL, weight_by=by, execution=execution)
    assert distance(optimum(task, by, [0, 1, 2, 3]), where.server["row"].double()) < 1e-4


@pytest.mark.parametrize("method", DRIFT, ids=NAMED)
def test_drift_control_reaches_the_optimum_with_half_of_the_clients_at_a_time(tmp_path, method):
    task = squares()
    half = {"selection": {"number": 2}, "weight_by": "uniform", "rounds": 120}
    where = final(tmp_path / "run", method, task, local=LOCAL, **half)
    assert distance(optimum(task, "uniform", [0, 1, 2, 3]), where.server["row"].double()) < 1e-3


@pytest.mark.parametrize("method", DRIFT, ids=NAMED)
def test_clients_held_out_of_training_do_not_pull_the_optimum(tmp_path, method):
    """All means, also those over all clients, are over the clients that may take part."""
    task = squares()
    where = final(tmp_path / "run", method, task, rounds=40, local=LOCAL, new_clients=1)
    (left_out,) = set(range(4)) - set(where.client_states.has[{"SCAFFOLD": "c", "FedDyn": "g"}[type(method).__name__]].nonzero().flatten().tolist())  # fmt: skip # noqa: E501
    ids = [client for client in range(4) if client != left_out]
    assert distance(optimum(task, "samples", ids), where.server["row"].double()) < 1e-4


# -- sums that hold in every round


def kept_mean(state: RunState, name: str, by: str, sizes: list[int]) -> Tensor:
    raw = torch.tensor([float(size) if by == "samples" else 1.0 for size in sizes])
    return raw / raw.sum() @ state.client_states.rows[name]


@pytest.mark.parametrize("by", ["samples", "uniform"])
@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("rounds", [1, 4])
def test_the_servers_control_variate_is_the_mean_of_the_clients(tmp_path, rounds, option, by):
    some = {"rounds": rounds, "selection": {"number": 2}, "weight_by": by}
    state = final(tmp_path / "run", fl.SCAFFOLD(option=option), small(), **some)
    assert distance(kept_mean(state, "c", by, SIZES), state.server["c"]) < 1e-5


@pytest.mark.parametrize("by", ["samples", "uniform"])
@pytest.mark.parametrize("rounds", [1, 4])
def test_the_servers_correction_of_feddyn_is_the_mean_of_the_clients(tmp_path, rounds, by):
    some = {"rounds": rounds, "selection": {"number": 2}, "weight_by": by}
    state = final(tmp_path / "run", "feddyn", small(), **some)
    assert distance(kept_mean(state, "g", by, SIZES), state.server["h"]) < 1e-5


# -- identities


@EXECUTIONS
def test_the_first_round_of_scaffold_is_fedavg(tmp_path, execution):
    """All control variates are 0 yet."""
    settings = {"rounds": 1, "weight_by": "uniform", "execution": execution}
    avg = final(tmp_path / "avg", "fedavg", small(), **settings)
    for option in (1, 2):
        drift = final(tmp_path / str(option), fl.SCAFFOLD(option=option), small(), **settings)
        assert distance(avg.server["row"], drift.server["row"]) < 1e-6


def test_a_server_step_of_half_the_length_goes_half_way(tmp_path):
    task = small()
    whole, half = (final(tmp_path / str(lr), fl.SCAFFOLD(server_lr=lr), task, rounds=1) for lr in (1.0, 0.5))
    assert distance((task.initial_row() + whole.server["row"]) / 2, half.server["row"]) < 1e-6


@EXECUTIONS
def test_option_one_keeps_the_full_gradient_at_the_received_model(tmp_path, execution):
    task = small()
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
    one, two = (final(tmp_path / str(option), fl.SCAFFOLD(option=option), small(), **settings) for option in (1, 2))
    assert distance(one.server["row"], two.server["row"]) < 1e-6
    assert distance(one.client_states.rows["c"], two.client_states.rows["c"]) < 1e-4


def test_option_two_counts_the_steps_that_were_made():
    """The mean gradient of the run's steps: (x - y) / (steps · lr), for clients of unequal size."""
    task, work = small(), LocalWork(**WORK)
    one, two = cohort(task, "vectorised", work), cohort(task, "vectorised", work)
    row = task.initial_row()
    fl.SCAFFOLD().client_update(one, fl.Message({"row": row, "c": torch.zeros_like(row)}))
    steps = torch.tensor([[6.0], [2.0], [8.0], [4.0]])  # two epochs of 3, 1, 4 and 2 batches
    assert distance((row - two.train(two.spread(row))) / (steps * 0.1), one.state["c"]) < 1e-5


def test_clients_that_do_no_work_keep_their_control_variate(tmp_path):
    state = final(tmp_path / "run", "scaffold", small(), rounds=2, local={**WORK, "epochs": 0})
    assert not state.client_states.rows["c"].any()
    assert same(state.server["row"], small().initial_row())


@EXECUTIONS
def test_the_first_round_of_feddyn_goes_twice_as_far_as_fedprox(tmp_path, execution):
    """g_i = 0 yet, so clients train as in FedProx; then h = -alpha · (mean - w), and w becomes mean - h / alpha."""
    settings = {"rounds": 1, "execution": execution}
    prox = final(tmp_path / "prox", fl.FedProx(mu=0.3), small(), **settings).server["row"]
    dyn = final(tmp_path / "dyn", fl.FedDyn(alpha=0.3), small(), **settings).server["row"]
    assert distance(2 * prox - small().initial_row(), dyn) < 1e-5


# -- running statistics


@pytest.mark.parametrize("method", DRIFT, ids=NAMED)
def test_running_statistics_are_averaged_and_not_corrected(tmp_path, method):
    task = with_statistics()
    state = final(tmp_path / "run", method, task, rounds=2)
    (kept,), correction = state.client_states.rows.values(), state.server["c" if "c" in state.server else "h"]
    trained = task.layout.trained_columns
    assert not kept[:, ~trained].any()
    assert not correction[~trained].any()
    assert kept[:, trained].any()
    first, avg = (final(tmp_path / name, kind, task, rounds=1) for name, kind in (("one", method), ("avg", "fedavg")))
    if isinstance(method, fl.SCAFFOLD):  # whose first round is FedAvg's
        assert distance(avg.server["row"][~trained], first.server["row"][~trained]) < 1e-6


# -- what travels, what is refused


def test_scaffold_costs_twice_as_much_as_fedavg_and_feddyn_the_same():
    costs = []
    for method in ("fedavg", "feddyn", "scaffold"):
        history = fl.run(small(), method, rounds=2, local=WORK, eval_every=0)
        costs.append(torch.tensor([history.total(what) for what in ("bytes_up", "bytes_down")]))
    assert torch.equal(costs[0], costs[1])
    assert torch.equal(2 * costs[0], costs[2])


@pytest.mark.parametrize("work", [{"optimizer": "adam"}, {"momentum": 0.9}])
def test_option_two_refuses_steps_from_which_no_gradient_can_be_read(work):
    with pytest.raises(FedloomError, match="scaffold's option 2 needs plain gradient steps"):
        fl.run(small(), "scaffold", rounds=1, local={**WORK, **work})
    fl.run(small(), "scaffold:option=1", rounds=1, local={**WORK, **work})


def test_impossible_settings_are_refused():
    with pytest.raises(FedloomError, match="server_lr=0: it must be a positive number"):
        fl.SCAFFOLD(server_lr=0)
    with pytest.raises(FedloomError, match="alpha=0: the regulariser's weight must be positive"):
        fl.FedDyn(alpha=0)
