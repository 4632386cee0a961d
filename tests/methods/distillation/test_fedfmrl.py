"""FedFMRL: where it is FLD, what its server's model depends on, and what each scheme sends back to clients."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fedloom as fl
from fedloom.aggregation.mean import Mean
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Replies
from fedloom.core.seeds import generator
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.distillation.alpha_mixing import draw_alpha
from fedloom.methods.distillation.fedfmrl import FedFMRL
from fedloom.methods.distillation.fld import FLD
from support.checkpoints import checkpoint_tensors, final, same
from support.synthetic import distance, federation, mlp, small_conv

SIZES = [13, 9, 12]
CHEAP = {"server_epochs": 2, "o_diff": 2.0}


def communal_task(model: str = "conv", clients: int = 3) -> Task:
    """Clients, and twelve more samples that all of them and the server have."""
    shape = (1, 8, 8) if model == "conv" else (20,)
    sizes = SIZES[:clients]
    columns = federation([*sizes, 12], shape).columns
    parts = Ragged.of(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
    communal = torch.arange(sum(sizes), sum(sizes) + 12)
    made = Federation(columns, parts, parts, Ragged.empty(clients), 5, global_test=communal, communal=communal)
    return Task("t", made, small_conv() if model == "conv" else mlp())


def outputs_of(task: Task, row: torch.Tensor) -> torch.Tensor:
    """What a row's network says of the communal samples."""
    with torch.no_grad():
        return torch.func.functional_call(
            task.model, dict(task.layout.views(row)), (task.inputs(task.federation.communal),)
        )


@pytest.mark.parametrize("multi_loss", ["none", "B"])
def test_with_the_plain_mean_clients_are_those_of_fld_to_the_byte(tmp_path, multi_loss):
    task = communal_task()
    ours = final(tmp_path / "a", FedFMRL(scheme="mean", multi_loss=multi_loss, **CHEAP), task)
    theirs = final(tmp_path / "b", FLD(multi_loss=multi_loss), task)
    assert same(ours.client_states.rows["row"], theirs.client_states.rows["row"])
    other = final(tmp_path / "c", FedFMRL(multi_loss=multi_loss, **CHEAP), task)
    assert distance(ours.client_states.rows["row"], other.client_states.rows["row"]) > 1e-4


def test_the_servers_model_depends_on_no_client(tmp_path):
    """Equation 6.5 sees communal labels only: other clients, other schemes and no training give the same bytes."""
    task = communal_task("mlp")
    method = FedFMRL(multi_loss="none", scheme="C", **CHEAP)  # two mixing steps of two epochs
    row = final(tmp_path / "a", method, task).server["row"]
    idle = FedFMRL(multi_loss="none", scheme="mean", server_epochs=4, o_diff=2.0)
    unlike = replace(
        task,
        federation=replace(
            task.federation, train=Ragged(task.federation.train.order.flip(0), task.federation.train.starts)
        ),
    )
    assert same(row, final(tmp_path / "b", idle, unlike).server["row"])
    assert not same(row, task.initial_row())


def test_the_gradients_of_the_server_are_divided_by_o_diff(tmp_path):
    """One epoch of one batch: the row moves by lr / o_diff times the gradient of the mean cross-entropy."""
    task, work = communal_task("mlp"), {"epochs": 1, "batch_size": 12, "lr": 0.3}
    method = FedFMRL(
        multi_loss="none", scheme="mean", server_epochs=1, o_diff=4.0, server_lr=0.2, server_weight_decay=0
    )
    found = final(tmp_path / "a", method, task, rounds=1, local=work).server["row"]
    row = task.initial_row().clone().requires_grad_()
    said = torch.func.functional_call(
        task.model, dict(task.layout.views(row)), (task.inputs(task.federation.communal),)
    )
    (gradient,) = torch.autograd.grad(F.cross_entropy(said, task.targets(task.federation.communal)), row)
    assert torch.allclose(found, row.detach() - 0.2 / 4.0 * gradient, atol=1e-6)


@pytest.mark.parametrize("scheme", ["A", "A-normalised", "B", "C", "mean"])
def test_with_one_client_the_anchor_is_its_output(tmp_path, scheme):
    task = communal_task("mlp", clients=1)
    method = FedFMRL(multi_loss="none", scheme=scheme, **CHEAP)
    state = final(tmp_path / "a", method, task, rounds=1)
    trained = final(tmp_path / "b", "local", task, rounds=1).client_states.rows["row"][0]
    assert torch.allclose(state.server["outputs"], outputs_of(task, trained), atol=1e-5)


def test_anchors_of_each_scheme_are_mixtures_of_what_clients_say(tmp_path):
    task = communal_task("mlp")
    rows = final(tmp_path / "local", "local", task, rounds=1).client_states.rows["row"]
    said = torch.stack([outputs_of(task, row) for row in rows])

    def anchor(**settings: object) -> torch.Tensor:
        name = "-".join(map(str, settings.values()))
        state = final(tmp_path / name, FedFMRL(multi_loss="none", **CHEAP, **settings), task, rounds=1)
        return state.server["outputs"]

    for scheme in ("A-normalised", "B", "C"):
        for alpha in ("learned", "gaussian", "closed-form"):
            found = anchor(scheme=scheme, alpha=alpha)
            assert (found >= said.min(0).values - 1e-5).all(), (scheme, alpha)
            assert (found <= said.max(0).values + 1e-5).all(), (scheme, alpha)
    tiny = anchor(scheme="C", alpha="gaussian", a_cap=1e-7)  # alpha is nearly 0
    assert torch.allclose(tiny, said[0], atol=1e-5)
    assert torch.allclose(anchor(scheme="B", alpha="gaussian", a_cap=2e-7), said.mean(0), atol=1e-5)
    grown = anchor(scheme="A", alpha="gaussian", a_cap=0.05)
    assert grown.norm() > 10 * said.mean(0).norm()


def test_the_anchor_of_scheme_c_by_hand():
    """Client 2 is mixed into client 1 with the first alphas, client 3 into both with the next ones."""
    one, two, three = said = torch.tensor(
        [
            [[1.0, 0.0], [2.0, -2.0], [0.0, 4.0]],
            [[3.0, 1.0], [0.0, 2.0], [0.0, 0.0]],
            [[-5.0, 7.0], [9.0, 5.0], [-3.0, 8.0]],
        ]
    )
    context = SimpleNamespace(generator=lambda purpose: generator(3, purpose, 2))
    sizes, thirds = torch.ones(3, dtype=torch.int64), torch.full((3,), 1 / 3)
    replies = Replies([0, 1, 2], {"outputs": said}, sizes, sizes, thirds, thirds, Mean(), 3, context)
    epochs = []
    teacher = SimpleNamespace(train=epochs.append)
    method = FedFMRL(scheme="C", alpha="gaussian", a_cap=0.6, server_epochs=2)
    found, kept = method.anchor(replies, teacher)
    a = draw_alpha(one.shape, 0.6, generator(3, "alpha", 2))
    torch.testing.assert_close(found, (1 - a) * ((1 - a) * one + a * two) + a * three)
    assert epochs == [2, 2]  # the server's model trains in each mixing step
    assert torch.equal(kept, a)
    half = torch.full_like(a, 0.5)  # a later round starts with what there is
    assert torch.equal(method.anchor(replies, teacher, half[:2])[1], a)  # of other samples: drawn again
    every = replace(method, alpha_drawn="every-step").anchor(replies, teacher, half)[0]
    alphas = generator(3, "alpha", 2)
    a, b = (draw_alpha(one.shape, 0.6, alphas) for _ in range(2))
    torch.testing.assert_close(every, (1 - b) * ((1 - a) * one + a * two) + b * three)
    found, kept = method.anchor(replies, teacher, half)
    torch.testing.assert_close(found, one / 4 + two / 4 + three / 2)
    assert torch.equal(kept, half)


def test_each_mixing_step_starts_with_the_alpha_of_the_step_before():
    """Algorithm 9 initialises alpha once: two steps of SGD on the formula, one after the other."""
    one, two, three = said = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1))
    context = SimpleNamespace(generator=lambda purpose: generator(3, purpose, 2))
    sizes, thirds = torch.ones(3, dtype=torch.int64), torch.full((3,), 1 / 3)
    replies = Replies([0, 1, 2], {"outputs": said}, sizes, sizes, thirds, thirds, Mean(), 3, context)
    logs = torch.randn(4, 5, generator=torch.Generator().manual_seed(2)).log_softmax(1)
    teacher = SimpleNamespace(lectures=lambda epochs: [logs] * epochs)
    method = FedFMRL(server_epochs=1, alpha_optimizer="sgd", alpha_lr=2.0, c_n=0.0)
    found, kept = method.anchor(replies, teacher)
    alpha, anchor = draw_alpha(one.shape, 0.8, generator(3, "alpha", 2)).double(), one.double()
    for partner in (two.double(), three.double()):
        alpha.requires_grad_()
        mixed = (1 - alpha) * anchor + alpha * partner
        loss = -(mixed.exp() / mixed.exp().sum(1, keepdim=True) * logs.double()).sum() / 4
        (slope,) = torch.autograd.grad(loss, alpha)
        alpha = (alpha.detach() - 2.0 * slope).clamp(0, 1)
        anchor = (1 - alpha) * anchor + alpha * partner
    torch.testing.assert_close(kept.double(), alpha, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.double(), anchor, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_on_digits_softmax_and_the_servers_label_keep_what_raw_outputs_lose():
    """Clients that differ: raw outputs cost about 30 points; communal labels without any exchange give the most."""
    task = fl.task("digits", clients=5, alpha=0.3, communal=0.2)
    run = {"rounds": 4, "local": {"epochs": 3, "batch_size": 16, "lr": 0.1}, "eval_every": 4, "weight_by": "uniform"}

    def accuracy(method: object) -> float:
        history = fl.run(task, method, **run, clients_on_global=True)
        return history.last("client_model/global_test/accuracy/mean")

    every = {"alpha_drawn": "every-step"}
    raw, softmax, label = (accuracy(FedFMRL(alpha_loss=one, **every)) for one in ("raw", "softmax", "server-label"))
    assert min(softmax, label) > raw + 0.15
    assert accuracy(fl.Local(communal_epochs=1)) > max(softmax, label) - 0.02


@pytest.mark.parametrize("alpha", ["learned", "closed-form"])
@pytest.mark.slow
def test_executions_and_workers_agree(tmp_path, alpha):
    task, method = communal_task(), FedFMRL(alpha=alpha, multi_loss="B", **CHEAP)
    states = [
        final(tmp_path / f"{place}", method, task, **how)
        for place, how in enumerate(
            ({"execution": "vectorised"}, {"execution": "loop"}, {"execution": "vectorised", "workers": 2})
        )
    ]
    for name in ("row", "outputs", "strips"):
        assert distance(states[0].server[name], states[1].server[name]) < 1e-3
        assert same(states[0].server[name], states[2].server[name])
    assert same(states[0].client_states.rows["row"], states[2].client_states.rows["row"])


def test_a_resumed_run_leaves_the_same_bytes(tmp_path):
    task, method = communal_task("mlp"), FedFMRL(multi_loss="none", **CHEAP)
    whole = final(tmp_path / "whole", method, task, rounds=3)
    settings = {"seed": 3, "local": {"epochs": 2, "batch_size": 16, "lr": 0.1}, "eval_every": 0}
    fl.run(task, method, rounds=2, out=tmp_path / "part", **settings)
    fl.resume(tmp_path / "part", task=task, method=method, rounds=3)
    assert same(whole.server["row"], checkpoint_tensors(tmp_path / "part")["server/row"])


def test_only_outputs_and_strips_travel_and_their_bytes_are_counted():
    task = communal_task()
    record = fl.run(task, FedFMRL(multi_loss="B", **CHEAP), rounds=1, local={"batch_size": 16}, eval_every=0).records[
        -1
    ]
    strips = 3 * (8 + 8) + 4 * (4 + 4)
    assert record["bytes_up"] == record["bytes_down"] == 3 * 12 * 4 * (5 + strips)
    record = fl.run(task, FedFMRL(multi_loss="none", **CHEAP), rounds=1, eval_every=0).records[-1]
    assert record["bytes_up"] == record["bytes_down"] == 3 * 12 * 4 * 5


@pytest.mark.slow
def test_printed_scheme_a_loses_what_its_normalised_form_keeps():
    """The document's negative test: there it ends at chance, which is 10 % here; ours is 35 points worse, no more."""
    task = fl.task("digits", clients=5, communal=0.2, model_options={"hidden": [32]})
    work = {"epochs": 3, "batch_size": 16, "lr": 0.1}
    settings = {"rounds": 6, "local": work, "eval_every": 6, "weight_by": "uniform"}
    printed, normalised = (
        fl.run(task, FedFMRL(scheme=scheme, a_cap=0.1, server_epochs=2, epochs=2), **settings).last(
            "client_model/own_test/accuracy/mean"
        )
        for scheme in ("A", "A-normalised")
    )
    assert normalised - printed > 0.2
    assert printed > 0.2


def test_clients_may_have_different_models_and_send_outputs_in_half_precision():
    models = {"mlp": [0, 1], "logistic": [2, 3]}
    task = fl.task("digits", clients=4, communal=0.05, model="mlp", models=models)
    run = {"rounds": 1, "eval_every": 0, "channel": ["halfprecision"]}
    record = fl.run(task, FedFMRL(**CHEAP), **run).records[-1]
    numbers = 4 * 10 * len(task.federation.communal)
    assert (record["bytes_up"], record["bytes_down"]) == (2 * numbers, 4 * numbers)


def test_the_servers_model_is_scored_as_the_global_model():
    task = communal_task("mlp")
    history = fl.run(task, FedFMRL(multi_loss="none", **CHEAP), rounds=1, out=None)
    assert "global_model/global_test/accuracy" in history.records[-1]["metrics"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"common": False, "multi_loss": "none"}, "communal set"),
        ({"layer": "penultimate"}, "communal set"),
        ({"a_cap": 0.0}, "a_cap"),
        ({"a_cap": 1.5}, "a_cap"),
        ({"o_diff": 0.0}, "o_diff"),
        ({"server_epochs": 0}, "server_epochs"),
        ({"alpha_lr": -1.0}, "alpha_lr"),
        ({"c_n": -0.1}, "c_n"),
    ],
)
def test_impossible_settings_are_refused(settings, says):
    with pytest.raises(FedloomError, match=says):
        FedFMRL(**settings)


def test_a_communal_set_without_labels_is_refused():
    task = communal_task("mlp")
    unlabelled = replace(task, federation=replace(task.federation, communal_labelled=False))
    with pytest.raises(FedloomError, match=r"fedfmrl needs the classes of the communal samples"):
        fl.run(unlabelled, FedFMRL(multi_loss="none"), rounds=1)


def test_adam_and_other_aggregators_and_server_optimisers_are_refused():
    task, method = communal_task("mlp"), FedFMRL(multi_loss="none")
    with pytest.raises(FedloomError, match="the steps of adam do not depend on their size"):
        fl.run(task, method, rounds=1, local=LocalWork(optimizer="adam"))
    with pytest.raises(FedloomError, match="median"):
        fl.run(task, method, rounds=1, aggregation="median")
    with pytest.raises(FedloomError, match="server_optimizer"):
        fl.run(task, method, rounds=1, server_optimizer={"kind": "yogi"})
