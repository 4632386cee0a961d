"""pFedMe: where it stops on quadratics, FedAvg at its ends, and what clients predict with."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from support.checkpoints import check_executions_and_workers_agree, final
from support.quadratic import CURVATURES, OPTIMA, balance_point, final_on_quadratic
from support.synthetic import cohort, distance, small_task


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_pfedme_stops_at_the_least_moreau_envelope(tmp_path, execution, beta):
    """K steps from w shrink the way to the minimiser theta* = (ac + lam w)/(a + lam) by q^K, q = 1 - lr (a + lam).

    So w moves by eta lam (1 - q^K) a/(a + lam) (w - c), and the client's own model ends at theta* + q^K (w - theta*).
    """
    lam, steps, lr = 1.5, 3, 0.2
    method = fl.PFedMe(lam=lam, inner_steps=steps, eta=0.5, beta=beta)
    state = final_on_quadratic(tmp_path / "run", method, execution=execution)
    left = [(1 - lr * (a + lam)) ** steps for a in CURVATURES]
    w = balance_point([(1 - q) * a / (a + lam) for a, q in zip(CURVATURES, left, strict=True)])
    assert state.server["row"].item() == pytest.approx(w, abs=1e-4)
    for client, (a, c, q) in enumerate(zip(CURVATURES, OPTIMA, left, strict=True)):
        best = (a * c + lam * w) / (a + lam)
        assert state.client_states.rows["theta"][client].item() == pytest.approx(best + q * (w - best), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_pfedme_with_many_inner_steps_keeps_the_proximal_point(tmp_path, execution):
    state = final_on_quadratic(tmp_path / "run", fl.PFedMe(lam=1.5, inner_steps=20, eta=0.5), execution=execution)
    w = balance_point([a / (a + 1.5) for a in CURVATURES])
    thetas = [(a * c + 1.5 * w) / (a + 1.5) for a, c in zip(CURVATURES, OPTIMA, strict=True)]
    assert state.client_states.rows["theta"].flatten().tolist() == pytest.approx(thetas, abs=1e-4)


def test_pfedme_that_moves_w_all_the_way_to_theta_sends_theta(tmp_path):
    """eta lam = 1 and one inner step: the pull is zero where theta = w, so this is FedAvg."""
    settings = {"local": {"epochs": 1, "batch_size": 16, "lr": 0.1}}
    mine = final(tmp_path / "me", fl.PFedMe(lam=4.0, eta=0.25, inner_steps=1), small_task(), **settings)
    plain = final(tmp_path / "plain", "fedavg", small_task(), **settings)
    assert distance(plain.server["row"], mine.server["row"]) < 1e-5


def test_the_server_of_pfedme_goes_beta_of_the_way(tmp_path):
    whole, half = (
        final(tmp_path / str(beta), fl.PFedMe(beta=beta), small_task(), rounds=1).server["row"] for beta in (1.0, 0.5)
    )
    assert distance((small_task().initial_row() + whole) / 2, half) < 1e-6


def test_clients_of_pfedme_that_never_trained_predict_with_the_shared_model(tmp_path):
    state = final(tmp_path / "run", fl.PFedMe(), small_task(), rounds=1, selection={"number": 2})
    has = state.client_states.has["theta"].bool()
    assert int(has.sum()) == 2
    some = cohort(small_task(), "vectorised", LocalWork())
    some.kept = state.client_states.read(list(range(4)))
    rows = fl.PFedMe().weights_for(Message({"row": state.server["row"]}), some)
    assert torch.equal(rows[~has], state.server["row"].expand(2, -1))
    assert torch.equal(rows[has], state.client_states.rows["theta"][has])
    assert distance(rows[has], state.server["row"].expand(2, -1)) > 1e-3


def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, fl.PFedMe(inner_steps=3))


def test_impossible_settings_are_refused_with_a_sentence():
    for name in ("lam", "eta", "beta"):
        with pytest.raises(FedloomError, match=f"{name}=0: it must be above 0"):
            fl.PFedMe(**{name: 0})
    with pytest.raises(FedloomError, match="inner_steps=0: it must be at least 1"):
        fl.PFedMe(inner_steps=0)
    with pytest.raises(FedloomError, match=r"eta=0.5 with lam=4: .* must not exceed 1"):
        fl.PFedMe(lam=4.0, eta=0.5)
    with pytest.raises(FedloomError, match=r"the inner steps overshoot .* use local.lr below 0.133"):
        fl.run(small_task(), fl.PFedMe(lam=15, eta=0.01), rounds=1, local={"lr": 0.2})
