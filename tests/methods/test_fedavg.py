"""The FedAvg family: identities between its members, and cases that can be computed by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import fedloom as fl
from fedloom.aggregation.mean import weighted_mean
from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Replies
from fedloom.core.task import Task
from fedloom.training.batches import Assignment
from support.quadratic import quadratic
from support.synthetic import distance, federation, mlp, trained

SIZES = [33, 9, 50, 20]
WORK = {"epochs": 2, "batch_size": 16, "lr": 0.1}


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def final(folder: Path, method, task: Task | None = None, **settings) -> dict[str, torch.Tensor]:
    """The tensors of the last checkpoint of a run."""
    settings = {"rounds": 3, "seed": 3, "local": WORK, "eval_every": 0, **settings}
    fl.run(task or small(), method, out=folder, **settings)
    (last,) = folder.glob("checkpoints/round-*.safetensors")
    return load_file(last)


def row(folder: Path, method, task: Task | None = None, **settings) -> torch.Tensor:
    return final(folder, method, task, **settings)["server/row"]


# -- identities


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("work", [WORK, {**WORK, "momentum": 0.9, "clip": 1.0}], ids=["plain", "momentum and clip"])
def test_fedprox_without_its_term_is_fedavg_to_the_byte(tmp_path, execution, work):
    settings = {"execution": execution, "local": work, "selection": {"fraction": 0.5}}
    one = row(tmp_path / "avg", "fedavg", **settings)
    two = row(tmp_path / "prox", fl.FedProx(mu=0), **settings)
    assert one.numpy().tobytes() == two.numpy().tobytes()
    assert not torch.equal(one, row(tmp_path / "far", fl.FedProx(mu=1.0), **settings))


def test_a_server_that_takes_the_whole_change_is_fedavg_to_rounding(tmp_path):
    plain = row(tmp_path / "avg", "fedavg")
    taken = row(tmp_path / "sgd", "fedavg", server_optimizer={"kind": "sgd", "lr": 1.0})
    assert distance(plain, taken) < 1e-6
    half = row(tmp_path / "half", "fedavg", rounds=1, server_optimizer={"kind": "sgd", "lr": 0.5})
    start = small().initial_row()
    assert distance((start + row(tmp_path / "one", "fedavg", rounds=1)) / 2, half) < 1e-6


def test_a_single_client_is_trained_as_if_nothing_were_federated(tmp_path):
    task = Task("t", federation([40]), mlp())
    work = LocalWork(**WORK)
    assert torch.equal(row(tmp_path / "run", "fedavg", task, rounds=1), trained(task, "vectorised", work)[0])


# -- the mean


@pytest.mark.parametrize("by", ["samples", "steps", "uniform"])
def test_the_new_row_is_the_mean_weighted_as_asked(tmp_path, by):
    task = small()
    alone = trained(task, "vectorised", LocalWork(**WORK))
    steps = torch.tensor([6.0, 2.0, 8.0, 4.0])  # two epochs of 3, 1, 4 and 2 batches of at most 16
    raw = {"samples": torch.tensor(SIZES).float(), "steps": steps, "uniform": torch.ones(4)}[by]
    expected = ((raw / raw.sum())[:, None] * alone).sum(0)
    assert distance(expected, row(tmp_path / by, "fedavg", task, rounds=1, weight_by=by)) < 1e-6
    others = {"samples", "steps", "uniform"} - {by}
    for other in others:
        assert not torch.equal(row(tmp_path / other, "fedavg", task, rounds=1, weight_by=other), expected)


def test_weights_are_shared_among_those_who_were_selected(tmp_path):
    task = small()
    history = fl.run(
        task, "fedavg", rounds=1, seed=3, local=WORK, selection={"number": 2}, eval_every=0, out=tmp_path / "run"
    )
    ids = history.records[-1]["selected"]
    assert len(ids) == 2
    sizes = torch.tensor([float(SIZES[client]) for client in ids])
    expected = ((sizes / sizes.sum())[:, None] * trained(task, "vectorised", LocalWork(**WORK), ids)).sum(0)
    (last,) = (tmp_path / "run").glob("checkpoints/round-*.safetensors")
    assert distance(expected, load_file(last)["server/row"]) < 1e-6


def test_clients_that_did_part_of_their_work_still_count(tmp_path):
    task, work = small(), LocalWork(epochs=4, batch_size=8, lr=0.1, partial=1.0)
    steps = [Assignment.of(client, task.federation.train[client], work, 3, 1).steps for client in range(4)]
    whole = [work.steps_for(size) for size in SIZES]
    assert all(1 <= some <= most for some, most in zip(steps, whole, strict=True))
    assert sum(steps) < sum(whole)
    history = fl.run(task, "fedprox", rounds=1, seed=3, local=work, out=tmp_path / "run", eval_every=0)
    assert history.records[-1]["steps"] == sum(steps)

    def pull(now, then):
        return 0.01 * (now - then)

    works = [replace(work, partial=0.0, steps=some) for some in steps]
    alone = torch.cat([trained(task, "loop", one, [client], pull=pull) for client, one in enumerate(works)])
    shares = torch.tensor(SIZES) / sum(SIZES)
    (last,) = (tmp_path / "run").glob("checkpoints/round-*.safetensors")
    assert distance((shares[:, None] * alone).sum(0), load_file(last)["server/row"]) < 1e-5


# -- where it stops: quadratic clients


def test_fedavg_with_many_local_steps_stops_at_the_mean_of_the_clients_optima(tmp_path):
    """Each client reaches its own optimum c, whatever its curvature: the mean of c, not the least joint loss."""
    task = quadratic([0.0, 6.0], [1.0, 2.0])
    work = {"steps": 200, "batch_size": 0, "lr": 0.3}
    assert row(tmp_path / "many", "fedavg", task, rounds=2, local=work).item() == pytest.approx(3.0, abs=1e-5)


def test_fedavg_with_one_step_stops_at_the_least_joint_loss(tmp_path):
    """The joint loss has its minimum at Σac / Σa = 12/3."""
    task = quadratic([0.0, 6.0], [1.0, 2.0])
    work = {"steps": 1, "batch_size": 0, "lr": 0.3}
    assert row(tmp_path / "one", "fedavg", task, rounds=60, local=work).item() == pytest.approx(4.0, abs=1e-5)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_fedprox_stops_at_its_own_fixed_point(tmp_path, execution):
    """A client goes from w to (ac + mu·w)/(a + mu); the mean of these is w where Σ a(c - w)/(a + mu) = 0."""
    mu, optima, curvatures = 0.5, [0.0, 6.0], [1.0, 2.0]
    pulls = [a / (a + mu) for a in curvatures]
    expected = sum(p * c for p, c in zip(pulls, optima, strict=True)) / sum(pulls)
    assert 3.0 < expected < 4.0  # between FedAvg's fixed point and the joint optimum
    task = quadratic(optima, curvatures)
    work = {"steps": 60, "batch_size": 0, "lr": 0.3}
    found = row(tmp_path / "run", fl.FedProx(mu=mu), task, rounds=40, local=work, execution=execution)
    assert found.item() == pytest.approx(expected, abs=1e-5)


# -- the adaptive heuristic


def replies(losses: list[float]) -> Replies:
    count = len(losses)
    return Replies(
        ids=list(range(count)),
        tensors={"row": torch.zeros(count, 3), "loss": torch.tensor(losses)},
        samples=torch.ones(count),
        steps=torch.ones(count),
        weights=torch.full((count,), 1 / count),
        shares=torch.full((count,), 1 / count),
        aggregator=weighted_mean,
        clients=count,
        context=None,  # type: ignore[arg-type]
    )


def mus(start: float, losses: list[float]) -> list[float]:
    """mu after each round, given the rounds' training losses."""
    method = fl.FedProx(mu=start, adaptive=True)
    state, seen = method.start(small()), []
    for loss in losses:
        state = method.aggregate(state, replies([loss - 1, loss + 1]))
        seen.append(round(float(state["mu"]), 4))
    return seen


def test_mu_grows_by_a_tenth_whenever_the_loss_rises():
    assert mus(0.0, [2.0, 3.0, 4.0, 3.0, 3.5]) == [0.0, 0.1, 0.2, 0.2, 0.3]


def test_mu_falls_by_a_tenth_after_five_falls_in_a_row():
    assert mus(1.0, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.2]) == [1.0] * 5 + [0.9] * 5 + [0.8]


def test_a_rise_or_a_standstill_begins_the_count_of_falls_anew():
    assert mus(1.0, [9, 8, 7, 6, 7, 6, 5, 4, 3, 2]) == [1.0, 1.0, 1.0, 1.0, 1.1, 1.1, 1.1, 1.1, 1.1, 1.0]
    assert mus(1.0, [9, 8, 7, 6, 6, 5, 4, 3, 2, 1]) == [1.0] * 9 + [0.9]


def test_mu_is_never_below_zero():
    assert mus(0.05, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]) == [0.05] * 5 + [0.0] * 5


def test_adaptive_clients_send_the_loss_of_the_model_they_received(tmp_path):
    task = small()
    state = final(tmp_path / "run", fl.FedProx(mu=0.1, adaptive=True), task, rounds=1)
    x, y = task.inputs(torch.arange(sum(SIZES))), task.targets(torch.arange(sum(SIZES)))
    with torch.no_grad():
        loss = nn.functional.cross_entropy(task.model.eval()(x), y)  # weighted by samples: the mean over all samples
    assert float(state["server/loss"]) == pytest.approx(float(loss), rel=1e-5)
    assert float(state["server/mu"]) == pytest.approx(0.1)


def test_an_adaptive_mu_that_never_moves_is_a_fixed_one(tmp_path):
    fixed = row(tmp_path / "fixed", fl.FedProx(mu=0.3), rounds=1)
    assert distance(fixed, row(tmp_path / "adaptive", fl.FedProx(mu=0.3, adaptive=True), rounds=1)) < 1e-6


def test_a_negative_mu_is_refused():
    with pytest.raises(FedloomError, match="mu=-1: the proximal weight must not be negative"):
        fl.FedProx(mu=-1)


# -- server optimisers


def by_hand(kind: str, means: list[torch.Tensor], start: torch.Tensor, lr: float, beta: float) -> torch.Tensor:
    """Reddi et al., Algorithm 2, written out in double precision; ``means[t]`` belongs to the row before it."""
    now, moment, second = start.double(), torch.zeros_like(start).double(), torch.full_like(start, 1e-6).double()
    for mean in means:
        change = mean.double() - now
        if kind == "fedavgm":
            moment = beta * moment + change
            now = now + lr * moment
            continue
        moment = beta * moment + (1 - beta) * change
        if kind == "fedadagrad":
            second = second + change**2
        elif kind == "fedadam":
            second = 0.99 * second + 0.01 * change**2
        else:
            second = second - 0.01 * change**2 * torch.sign(second - change**2)
        now = now + lr * moment / (second.sqrt() + 1e-3)
    return now.float()


@pytest.mark.parametrize(
    ("method", "lr", "beta"),
    [("fedavgm", 1.0, 0.9), ("fedadagrad", 0.1, 0.0), ("fedadam", 0.01, 0.9), ("fedyogi", 0.01, 0.9)],
)
def test_three_rounds_with_a_server_optimiser_are_those_of_its_formula(tmp_path, method, lr, beta):
    task, shares = small(), torch.tensor(SIZES) / sum(SIZES)
    means, now = [], task.initial_row()
    for number in (1, 2, 3):
        means.append(shares @ _round(task, now, number))
        now = by_hand(method, means, task.initial_row(), lr, beta)
    assert distance(now, row(tmp_path / "run", method, task)) < 1e-4


def _round(task: Task, now: torch.Tensor, number: int) -> torch.Tensor:
    from fedloom.core.cohort import Cohort, RunSetting
    from fedloom.training.local_trainer import LocalTrainer

    some = Cohort(list(range(4)), LocalTrainer(task, "vectorised"), RunSetting(LocalWork(**WORK), 3, 3), number)
    return some.train(some.spread(now))


def test_a_named_method_is_fedavg_with_its_optimiser(tmp_path):
    named = row(tmp_path / "named", "fedyogi")
    spelled = row(tmp_path / "spelled", "fedavg", server_optimizer=ServerOptimizer("yogi", lr=0.01, momentum=0.9))
    assert torch.equal(named, spelled)
