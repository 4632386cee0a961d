"""FedU: local training without ties, the paper's sum, and its fixed points on quadratics."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.quadratic import CURVATURES, OPTIMA, quadratic
from support.synthetic import cohort, distance, small_task

RING = [[0.0, 1.0, 0.0, 0.5], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [0.5, 0.0, 1.0, 0.0]]
TIES = [[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]]


class FedUReplies(dict):
    """Replies as far as FedU looks at them."""

    def __init__(self, ids: list[int], rows: torch.Tensor, seed: int) -> None:
        super().__init__(row=rows)
        self.ids, self.context = ids, SimpleNamespace(seed=seed, round=1)


def all_rows_after(method: fl.FedU, ids: list[int], rows: torch.Tensor, clients: int, seed: int = 3) -> torch.Tensor:
    """All rows of a FedU server after the given clients sent theirs; it held zeros before."""
    return method.aggregate({"rows": torch.zeros(clients, rows.shape[1])}, FedUReplies(ids, rows, seed))["rows"]


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("method", [fl.FedU(strength=0), fl.FedU(relations=[[0.0] * 4] * 4)], ids=["strength", "ties"])
def test_fedu_without_ties_is_local_training_to_the_byte(tmp_path, execution, method):
    settings = {"execution": execution, "selection": {"number": 2}}
    tied = final(tmp_path / "fedu", method, small_task(), **settings)
    local = final(tmp_path / "local", "local", small_task(), **settings)
    has = local.client_states.has["row"].bool()
    assert same(tied.server["rows"][has], local.client_states.rows["row"][has])
    assert torch.equal(tied.server["rows"][~has], small_task().initial_row().expand(int((~has).sum()), -1))


@given(st.integers(2, 6), st.integers(0, 1000), st.data())
@settings(max_examples=40, deadline=None)
def test_the_servers_step_is_the_papers_sum_and_keeps_the_mean(clients, seed, data):
    ids = data.draw(st.lists(st.integers(0, clients - 1), min_size=1, max_size=clients, unique=True).map(sorted))
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(clients, clients, generator=generator)
    related, rows = (drawn + drawn.t()) / 2, torch.randn(len(ids), 5, generator=generator)
    found = all_rows_after(fl.FedU(strength=0.1, relations=related.tolist()), ids, rows, clients)
    for place, k in enumerate(ids):
        apart = sum(related[k, other] * (rows[place] - rows[where]) for where, other in enumerate(ids))
        assert torch.allclose(found[k], rows[place] - 0.1 * apart, atol=1e-5)
    assert torch.allclose(found[ids].mean(0), rows.mean(0), atol=1e-5)
    assert not found[[k for k in range(clients) if k not in ids]].any()  # those who were not asked keep theirs


def test_full_relations_as_strong_as_can_be_make_all_models_the_mean():
    rows = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    found = all_rows_after(fl.FedU(strength=0.25), [0, 1, 2, 3], rows, 4)
    assert torch.allclose(found, rows.mean(0).expand(4, -1), atol=1e-6)


def test_random_relations_are_those_of_the_authors_code_and_the_same_in_every_round():
    method, unit = fl.FedU(strength=0.01, relations="random"), torch.eye(30)
    ties = (unit - all_rows_after(method, list(range(30)), unit, 30)) / 0.01  # the Laplacian itself
    between = -ties[~torch.eye(30, dtype=torch.bool)]
    assert torch.allclose(ties, ties.t(), atol=1e-4)
    assert torch.allclose(ties.sum(1), torch.zeros(30), atol=1e-3)
    present = between[between.abs() > 1e-3]
    assert 0.25 - 1e-3 < present.min() < present.max() < 1 + 1e-3
    share = 1 - len(present) / len(between)  # a mean of two uniform numbers is below 1/4 in one case of eight
    assert 0.06 < share < 0.19
    some = all_rows_after(method, [4, 7], torch.eye(2), 30)
    assert float(some[4, 1] / 0.01) == pytest.approx(float(-ties[4, 7]), abs=1e-3)
    other = (unit - all_rows_after(method, list(range(30)), unit, 30, seed=4)) / 0.01
    assert not torch.allclose(ties, other, atol=0.1)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("steps", [1, 3])
def test_fedu_stops_at_the_fixed_point_of_its_two_maps(tmp_path, execution, steps):
    """m local steps are ``w -> c + r (w - c)`` with ``r = (1 - lr a)^m``; then ``W -> (I - strength L) W``."""
    strength, lr, ties = 0.3, 0.1, torch.tensor(TIES, dtype=torch.float64)
    c, a = (torch.tensor(values, dtype=torch.float64) for values in (OPTIMA, CURVATURES))
    r = ((1 - lr * a) ** steps).diag()
    mix = torch.eye(3, dtype=torch.float64) - strength * (ties.sum(1).diag() - ties)
    one = torch.eye(3, dtype=torch.float64)
    expected = torch.linalg.solve(one - mix @ r, mix @ (one - r) @ c)
    settings = {"rounds": 80, "checkpoint_every": 99, "execution": execution}
    local = {"steps": steps, "batch_size": 0, "lr": lr}
    method = fl.FedU(strength=strength, relations=TIES)
    state = final(tmp_path / "run", method, quadratic(OPTIMA, CURVATURES), local=local, **settings)
    assert state.server["rows"].flatten().tolist() == pytest.approx(expected.tolist(), abs=1e-4)
    assert min(abs(e - c) for e, c in zip(expected.tolist(), OPTIMA, strict=True)) > 0.1


def test_fedu_with_small_steps_rests_at_the_least_penalised_loss():
    """``sum F_k + penalty/2 W' L W`` has its minimum at ``(A + penalty L)^-1 A c``, where strength = lr * penalty."""
    penalty, lr, ties = 2.0, 0.002, torch.tensor(TIES)
    a, c = torch.tensor(CURVATURES).diag(), torch.tensor(OPTIMA)
    best = torch.linalg.solve(a + penalty * (ties.sum(1).diag() - ties), a @ c).unsqueeze(1)

    def drift(strength: float) -> float:
        method = fl.FedU(strength=strength, relations=TIES)
        some = cohort(quadratic(OPTIMA, CURVATURES), "loop", LocalWork(steps=1, batch_size=0, lr=lr))
        reply = method.client_update(some, method.broadcast({"rows": best}, [0, 1, 2]))
        after = method.aggregate({"rows": best}, FedUReplies([0, 1, 2], reply.tensors["row"], 3))["rows"]
        return float((after - best).abs().max())

    assert drift(lr * penalty) < 0.02 * drift(0.0)  # what is left is of order lr squared


def test_every_client_of_fedu_predicts_with_its_own_row(tmp_path):
    state = final(tmp_path / "run", fl.FedU(), small_task())
    message = fl.FedU().broadcast(state.server, [2, 0])
    rows = fl.FedU().weights_for(message, cohort(small_task(), "loop", LocalWork(), ids=[2, 0]))
    assert torch.equal(rows, state.server["rows"][[2, 0]])
    assert distance(rows[0], rows[1]) > 1e-3


def test_fedu_sends_one_model_down_and_one_up_per_selected_client():
    history = fl.run(small_task(), "fedu", rounds=1, selection={"number": 2}, local={"batch_size": 16})
    width = small_task().layout.width
    assert [history.records[-1][way] for way in ("bytes_down", "bytes_up")] == [2 * 4 * width] * 2


def test_relations_that_would_throw_models_past_each_other_stop_the_run_with_a_sentence():
    history = fl.run(small_task(), fl.FedU(strength=0.5), rounds=2, local={"batch_size": 16})
    assert history.stopped is not None
    assert "strength=0.5: relations of a client to the others of round 1 sum to 3" in history.stopped
    assert "use at most 0.333" in history.stopped


def test_impossible_relations_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match=r"strength=-1: it must be at least 0"):
        fl.FedU(strength=-1)
    with pytest.raises(FedloomError, match=r"relations\[0\]\[1\]=1 and relations\[1\]\[0\]=2: .* must be symmetric"):
        fl.FedU(relations=[[0, 1], [2, 0]])
    with pytest.raises(FedloomError, match=r"relations=.*: each entry must be at least 0"):
        fl.FedU(relations=[[0, -1], [-1, 0]])
    for wrong in ([[0, 1], [1]], [[0, 1]]):
        with pytest.raises(FedloomError, match="relations must be 'full', 'random', or a square matrix"):
            fl.FedU(relations=wrong)
    with pytest.raises(FedloomError, match="relations has 2 rows, but the task has 4 clients: give each client a row"):
        fl.run(small_task(), fl.FedU(relations=[[0, 1], [1, 0]]), rounds=1)


def test_a_matrix_of_relations_survives_the_runs_config(tmp_path):
    history = fl.run(small_task(), fl.FedU(relations=RING), rounds=1, out=tmp_path / "run")
    again = fl.History.load(tmp_path / "run")
    assert again.config["method"]["relations"] == RING == history.config["method"]["relations"]


def test_executions_agree_and_two_workers_leave_the_same_bytes(tmp_path):
    check_executions_and_workers_agree(tmp_path, fl.FedU(relations="random"))
