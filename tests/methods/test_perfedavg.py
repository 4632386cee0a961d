"""Per-FedAvg and pFedMe: what they contain, where they stop on quadratics, and what clients predict with."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.core.threads import single_thread
from support.checkpoints import final, same
from support.synthetic import cohort, distance, federation, mlp, quadratic

SIZES = [33, 9, 50, 20]
OPTIMA, CURVATURES = [0.0, 6.0, -3.0], [1.0, 2.0, 4.0]
METHODS = [fl.PerFedAvg(alpha=0.1), fl.PerFedAvg(alpha=0.1, order="hessian-free"), fl.PFedMe(inner_steps=3)]


@pytest.fixture(autouse=True)
def one_thread():
    with single_thread():
        yield


def small() -> Task:
    return Task("t", federation(SIZES), mlp())


def weighted(weights: list[float]) -> float:
    """Where ``sum_k weights_k (w - c_k)`` is zero."""
    return sum(weight * c for weight, c in zip(weights, OPTIMA, strict=True)) / sum(weights)


def stop(folder, method, **settings):
    """Where a method stops on the quadratic clients, one step a round."""
    local = {"steps": 1, "batch_size": 0, "lr": 0.2}
    return final(
        folder,
        method,
        quadratic(OPTIMA, CURVATURES),
        **{"rounds": 60, "checkpoint_every": 99, "local": local, **settings},
    )


# -- Per-FedAvg


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize(("order", "parts"), [("first", 2), ("hessian-free", 3)])
def test_perfedavg_without_a_step_of_its_own_is_fedavg_where_batches_are_used_whole(tmp_path, execution, order, parts):
    """With alpha = 0 only D' counts, and a batch that is too small to be dealt is D' itself."""
    task = Task("t", federation([parts - 1] * 3), mlp())
    settings = {"local": {"epochs": 3, "batch_size": parts - 1, "lr": 0.1}, "execution": execution}
    meta = final(tmp_path / "meta", fl.PerFedAvg(alpha=0, order=order), task, **settings)
    plain = final(tmp_path / "plain", "fedavg", task, **settings)
    assert distance(plain.server["row"], meta.server["row"]) < 1e-5
    other = final(tmp_path / "other", fl.PerFedAvg(alpha=0.3, order=order), task, **settings)
    assert distance(plain.server["row"], other.server["row"]) > 1e-3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_perfedavg_stops_at_the_least_loss_after_one_step(tmp_path, execution):
    """``F_k(w - alpha F_k'(w)) = a/2 (1 - alpha a)^2 (w - c)^2``; a difference of gradients is exact here."""
    found = stop(tmp_path / "run", fl.PerFedAvg(alpha=0.15, order="hessian-free", delta=0.1), execution=execution)
    expected = weighted([a * (1 - 0.15 * a) ** 2 for a in CURVATURES])
    assert found.server["row"].item() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_first_order_perfedavg_stops_elsewhere_for_want_of_the_hessian(tmp_path, execution):
    """Its step is ``a (1 - alpha a) (w - c)``: one factor less."""
    found = stop(tmp_path / "run", fl.PerFedAvg(alpha=0.15), execution=execution)
    expected = weighted([a * (1 - 0.15 * a) for a in CURVATURES])
    assert found.server["row"].item() == pytest.approx(expected, abs=1e-5)
    exact = weighted([a * (1 - 0.15 * a) ** 2 for a in CURVATURES])
    joint = weighted(CURVATURES)  # FedAvg's
    assert min(abs(expected - exact), abs(expected - joint), abs(exact - joint)) > 0.05


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_perfedavg_predicts_after_one_step_on_all_of_a_clients_training_data(execution):
    task = small()
    row = task.initial_row()
    some = cohort(task, execution, LocalWork())
    tuned = fl.PerFedAvg(alpha=0.2).weights_for(Message({"row": row}), some)
    for client in range(4):
        model, positions = mlp(), task.federation.train[client]
        loss = F.cross_entropy(model(task.inputs(positions)), task.targets(positions))
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        assert distance(row - 0.2 * gradient, tuned[client]) < 1e-5


def test_predicting_does_not_change_what_perfedavg_trains(tmp_path):
    scored, silent = (final(tmp_path / str(n), fl.PerFedAvg(), small(), eval_every=n) for n in (1, 0))
    assert same(scored.server["row"], silent.server["row"])


def test_a_new_client_is_scored_after_a_step_of_its_own(tmp_path):
    """On a quadratic the step from w is ``w - alpha a (w - c)``, and the loss there is known."""
    task = quadratic(OPTIMA, CURVATURES)
    history = fl.run(
        task,
        fl.PerFedAvg(alpha=0.15),
        rounds=2,
        local={"steps": 1, "batch_size": 0, "lr": 0.1},
        new_clients=1,
        out=tmp_path / "run",
    )
    assert history.row is not None
    for client in history.clients:
        c, a = OPTIMA[client["client"]], CURVATURES[client["client"]]
        left = (1 - 0.15 * a) * (history.row.item() - c)
        assert client["loss"] == pytest.approx(a / 2 * left**2, rel=1e-4)
    assert sum(client["group"] == "new" for client in history.clients) == 1


# -- pFedMe


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_pfedme_stops_at_the_least_moreau_envelope(tmp_path, execution, beta):
    """K steps from w shrink the way to the minimiser theta* = (ac + lam w)/(a + lam) by q^K, q = 1 - lr (a + lam).

    So w moves by eta lam (1 - q^K) a/(a + lam) (w - c), and the client's own model ends at theta* + q^K (w - theta*).
    """
    lam, steps, lr = 1.5, 3, 0.2
    method = fl.PFedMe(lam=lam, inner_steps=steps, eta=0.5, beta=beta)
    state = stop(tmp_path / "run", method, execution=execution)
    left = [(1 - lr * (a + lam)) ** steps for a in CURVATURES]
    w = weighted([(1 - q) * a / (a + lam) for a, q in zip(CURVATURES, left, strict=True)])
    assert state.server["row"].item() == pytest.approx(w, abs=1e-4)
    for client, (a, c, q) in enumerate(zip(CURVATURES, OPTIMA, left, strict=True)):
        best = (a * c + lam * w) / (a + lam)
        assert state.client_states.rows["theta"][client].item() == pytest.approx(best + q * (w - best), abs=1e-4)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_pfedme_with_many_inner_steps_keeps_the_proximal_point(tmp_path, execution):
    state = stop(tmp_path / "run", fl.PFedMe(lam=1.5, inner_steps=20, eta=0.5), execution=execution)
    w = weighted([a / (a + 1.5) for a in CURVATURES])
    thetas = [(a * c + 1.5 * w) / (a + 1.5) for a, c in zip(CURVATURES, OPTIMA, strict=True)]
    assert state.client_states.rows["theta"].flatten().tolist() == pytest.approx(thetas, abs=1e-4)


def test_pfedme_that_moves_w_all_the_way_to_theta_sends_theta(tmp_path):
    """eta lam = 1 and one inner step: the pull is zero where theta = w, so this is FedAvg."""
    settings = {"local": {"epochs": 1, "batch_size": 16, "lr": 0.1}}
    mine = final(tmp_path / "me", fl.PFedMe(lam=4.0, eta=0.25, inner_steps=1), small(), **settings)
    plain = final(tmp_path / "plain", "fedavg", small(), **settings)
    assert distance(plain.server["row"], mine.server["row"]) < 1e-5


def test_the_server_of_pfedme_goes_beta_of_the_way(tmp_path):
    whole, half = (
        final(tmp_path / str(beta), fl.PFedMe(beta=beta), small(), rounds=1).server["row"] for beta in (1.0, 0.5)
    )
    assert distance((small().initial_row() + whole) / 2, half) < 1e-6


def test_clients_of_pfedme_that_never_trained_predict_with_the_shared_model(tmp_path):
    state = final(tmp_path / "run", fl.PFedMe(), small(), rounds=1, selection={"number": 2})
    has = state.client_states.has["theta"].bool()
    assert int(has.sum()) == 2
    some = cohort(small(), "vectorised", LocalWork())
    some.state = state.client_states.read(list(range(4)))
    rows = fl.PFedMe().weights_for(Message({"row": state.server["row"]}), some)
    assert torch.equal(rows[~has], state.server["row"].expand(2, -1))
    assert torch.equal(rows[has], state.client_states.rows["theta"][has])
    assert distance(rows[has], state.server["row"].expand(2, -1)) > 1e-3


# -- both


@pytest.mark.parametrize("method", METHODS, ids=["first", "hessian-free", "pfedme"])
def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path, method):
    settings = {"selection": {"number": 3}, "rounds": 4, "eval_every": 2}
    whole = final(tmp_path / "whole", method, small(), execution="vectorised", **settings)
    loop = final(tmp_path / "loop", method, small(), execution="loop", **settings)
    assert distance(whole.server["row"], loop.server["row"]) < 1e-4
    spread = final(tmp_path / "spread", method, small(), execution="vectorised", workers=2, **settings)
    assert same(whole.server["row"], spread.server["row"])
    assert (tmp_path / "whole" / "metrics.jsonl").read_bytes() == (tmp_path / "spread" / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["perfedavg", "pfedme"])
@pytest.mark.parametrize("local", [{"momentum": 0.9}, {"optimizer": "adam", "lr": 0.001}], ids=["momentum", "adam"])
def test_optimisers_that_are_no_plain_steps_are_refused_before_any_work(name, local):
    with pytest.raises(FedloomError, match=f"{name}'s local step needs plain gradient steps: use local.optimizer"):
        fl.run(small(), name, rounds=1, local=local)


def test_impossible_settings_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="alpha=-1: the size of a client's own step must not be negative"):
        fl.PerFedAvg(alpha=-1)
    with pytest.raises(FedloomError, match="delta=0: the distance of the two gradients"):
        fl.PerFedAvg(delta=0)
    with pytest.raises(FedloomError, match="order='second': use 'first' or 'hessian-free'"):
        fl.PerFedAvg(order="second")
    for name in ("lam", "eta", "beta"):
        with pytest.raises(FedloomError, match=f"{name}=0: it must be a positive number"):
            fl.PFedMe(**{name: 0})
    with pytest.raises(FedloomError, match="inner_steps=0: it must be at least 1"):
        fl.PFedMe(inner_steps=0)
    with pytest.raises(FedloomError, match=r"eta=0.5 with lam=4: .* must not exceed 1"):
        fl.PFedMe(lam=4.0, eta=0.5)
    with pytest.raises(FedloomError, match=r"the inner steps overshoot .* use local.lr below 0.133"):
        fl.run(small(), fl.PFedMe(lam=15, eta=0.01), rounds=1, local={"lr": 0.2})
