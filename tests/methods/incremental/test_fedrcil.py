"""FedRCIL: what is remembered when a task begins, which exemplars stay, and what it is without its parts."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.data.changes.class_stream import ClassStream, with_class_stream
from fedloom.methods.incremental.retention import retention
from fedloom.runs.folder.checkpoint import load_checkpoint
from support.checkpoints import check_executions_and_workers_agree, final, same
from support.distillation import conv_task, replies_of
from support.synthetic import cohort, distance

STREAM = {"tasks": 5, "rounds": 1, "order": list(range(10))}


def stream_task(**settings):
    return fl.task("digits", clients=3, partition="iid", communal=0.2, stream=STREAM, **settings)


def stream_of_images():
    """Images of five classes in two tasks, and a network with two stages."""
    task, stream = conv_task(), ClassStream(tasks=2, rounds=1, order=list(range(5)))
    return replace(task, federation=with_class_stream(task.federation, stream))


def context_of(task, round_number):
    now = task.at(round_number)
    return SimpleNamespace(task=now, of_architecture=lambda _: SimpleNamespace(task=now))


def after(server, method, task, round_number, values):
    """The state after the first wave of a round in which the mean features are ``values`` for every sample."""
    server = method._begin_task(server, context_of(task, round_number))
    count = len(server["positions"])
    sent = {
        "outputs": torch.zeros(2, count, 10),
        "features": values(server["positions"]).expand(2, count, -1),
    }
    return method._choose_exemplars(method.aggregate(server, replies_of(sent)), task.at(round_number))


def test_anchors_of_up_to_b_earlier_tasks_stay_with_their_samples():
    task, method = stream_task(), fl.FedRCIL(buffer=2)
    width, server = 200, {}
    sizes = []
    for number in range(1, 5):
        at = torch.full((1,), float(number))
        server = after(server, method, task, number, lambda p, at=at: at.expand(len(p), width))
        sizes.append(len(server["positions"]))
    known, past = server["past_known"], server["past"][:, :, 0]
    y = task.federation.columns["y"][server["positions"]]
    assert torch.equal(server["positions"], task.at(4).federation.communal)
    for label in range(8):  # two classes per task: those of task 4 have no anchor, of task 3 one, of others two
        expected = {3: [0.0, 0.0], 2: [3.0, 0.0], 1: [3.0, 2.0], 0: [3.0, 2.0]}[label // 2]
        mine = past[y == label] * known[y == label]
        assert mine.unique(dim=0).tolist() == [expected]
    assert sizes == sorted(sizes)


def test_the_exemplars_stay_as_many_and_fewer_of_each_class():
    task, method = stream_task(), fl.FedRCIL(exemplars=40)
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(len(task.federation.columns["y"]), 200, generator=draw)
    server, before = {}, set()
    for number in range(1, 6):
        server = after(server, method, task, number, lambda p: table[p])
        now = task.at(number).federation
        y = task.federation.columns["y"][server["positions"]]
        counts = torch.bincount(y, minlength=10)[: 2 * number]
        assert len(server["positions"]) == 40
        assert int(counts.max() - counts.min()) <= 1
        assert torch.equal(now.communal[server["samples"].long()], server["positions"])
        old = set(server["positions"][y < 2 * number - 2].tolist())
        assert old <= before  # a sample that was left out does not come back
        before = set(server["positions"].tolist())
        assert len(server["features"]) == len(server["outputs"]) == 40
        sent = method.lesson(server)
        assert ("past" in sent, "past_known" in sent) == (number > 1, number > 1)  # the first task has no earlier one
        if number > 1:
            assert (sent["past"].shape, sent["past_known"].shape) == ((40, 4, 200), (40, 4))
        assert method.lesson(server)["samples"].dtype == torch.int32


@pytest.mark.parametrize("multi_loss", ["none", "B"])
def test_without_its_contrast_it_is_fld(multi_loss):
    """To the byte, on a stream and without one; the first task of a stream has nothing to contrast with."""
    settings = {"rounds": 3, "local": LocalWork(batch_size=8, lr=0.05)}
    for task in [conv_task()] if multi_loss == "B" else [stream_task(), conv_task()]:
        runs = [
            fl.run(task, method, **settings)
            for method in (fl.FLD(multi_loss=multi_loss), fl.FedRCIL(multi_loss=multi_loss, m_u=0, exemplar_epochs=0))
        ]
        assert runs[0].records == runs[1].records
    first = [fl.run(stream_task(), fl.FedRCIL(m_u=m_u), **{**settings, "rounds": 1}) for m_u in (0, 0.5)]
    name = "client_model/own_test/accuracy/mean"
    assert first[0].last(name) == first[1].last(name)


@pytest.mark.parametrize("multi_loss", ["A", "B", "C"])
@pytest.mark.slow
def test_without_its_contrast_it_is_fld_with_its_multi_loss_on_a_stream(tmp_path, multi_loss):
    """To the byte in both tasks and one round after; without strips, or with the contrast, rows are others."""
    task, work = stream_of_images(), {"epochs": 1, "batch_size": 8, "lr": 0.05}
    methods = {
        "fedrcil": fl.FedRCIL(m_u=0, multi_loss=multi_loss, m_c=0.4, epochs=2, exemplar_epochs=0),
        "fld": fl.FLD(multi_loss=multi_loss, m_c=0.4, epochs=2),
        "plain": fl.FLD(epochs=2),
        "contrast": fl.FedRCIL(multi_loss=multi_loss, m_c=0.4, epochs=2, exemplar_epochs=0),
    }
    rows = {
        name: final(tmp_path / name, method, task, local=work, eval_every=1).client_states.rows["row"]
        for name, method in methods.items()
    }
    assert same(rows["fedrcil"], rows["fld"])
    ours, theirs = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("fedrcil", "fld"))
    assert ours == theirs
    assert distance(rows["fld"], rows["plain"]) > 1e-3
    assert distance(rows["fedrcil"], rows["contrast"]) > 1e-3


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_step_adds_the_slope_of_the_contrast(execution):
    task = conv_task()
    some = cohort(task, execution, LocalWork(steps=1, batch_size=0, lr=0.1))
    count, rows = len(task.federation.communal), some.spread(task.initial_row())
    with torch.no_grad():
        goal = task.model(task.inputs(task.federation.communal)) + 1
    draw = torch.Generator().manual_seed(3)
    past, new = torch.randn(count, 2, 64, generator=draw), torch.randn(count, 64, generator=draw)
    known = (torch.rand(count, 2, generator=draw) > 0.5).float()
    message = Message({"outputs": goal, "past": past, "past_known": known, "features": new})
    found = fl.FedRCIL(m_u=0.7, tau=0.3).distil(some, rows, message)
    z = task.model[:5](task.inputs(task.federation.communal))
    apart = (task.model[5:](z) - goal).norm(dim=1)
    loss = (apart + 0.7 * retention(z, past, known, new, 0.3)).mean()
    parameters = list(task.model.parameters())
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    expected = task.initial_row() - 0.1 * torch.cat([g.reshape(-1) for g in gradients])
    assert torch.allclose(found[0], expected, atol=1e-5)
    plain = fl.FedRCIL(m_u=0).distil(cohort(task, execution, some.setting.work), rows, Message({"outputs": goal}))
    assert not torch.allclose(found[0], plain[0], atol=1e-3)


def test_without_the_exemplars_labels_a_run_warns_and_with_them_it_does_not(caplog):
    for epochs, warned in ((0, True), (1, False)):
        caplog.clear()
        fl.run(stream_task(), fl.FedRCIL(exemplar_epochs=epochs), rounds=1)
        assert ("nothing that keeps earlier classes" in caplog.text) is warned


@pytest.mark.slow
def test_five_tasks_are_kept_with_the_exemplars_labels_and_lost_as_printed():
    """Ten classes in five tasks: as printed at most two tasks' worth is known at the end, with labels most of them."""
    task = fl.task(
        "digits", clients=5, partition="iid", communal=0.2, stream={"tasks": 5, "rounds": 3, "order": list(range(10))}
    )
    run = {"rounds": 15, "local": {"epochs": 3, "batch_size": 16, "lr": 0.1}, "eval_every": 15}
    printed, labelled = (
        fl.run(task, fl.FedRCIL(**one), **run).last("client_model/own_test/accuracy/mean")
        for one in ({"exemplar_epochs": 0}, {})
    )
    assert printed < 0.4
    assert labelled > 0.8


def test_distillation_by_mean_squared_errors_is_one_step_of_their_slope():
    task = conv_task()
    some = cohort(task, "loop", LocalWork(steps=1, batch_size=0, lr=0.1))
    with torch.no_grad():
        goal = task.model(task.inputs(task.federation.communal)) + 1
    found = fl.FedRCIL(m_u=0, distance="mse").distil(some, some.spread(task.initial_row()), Message({"outputs": goal}))
    said = task.model(task.inputs(task.federation.communal))
    gradients = torch.autograd.grad((said - goal).square().mean(), list(task.model.parameters()))
    expected = task.initial_row() - 0.1 * torch.cat([g.reshape(-1) for g in gradients])
    assert torch.allclose(found[0], expected, atol=1e-6)


def test_executions_and_workers_agree_on_a_stream(tmp_path):
    method = fl.FedRCIL(exemplars=30, exemplar_epochs=1)
    check_executions_and_workers_agree(tmp_path, method, stream_task(model_options={"hidden": [16]}))


def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path):
    settings = {"local": LocalWork(batch_size=16)}
    fl.run(stream_task(), fl.FedRCIL(exemplars=30), rounds=3, out=tmp_path / "whole", **settings)
    fl.run(stream_task(), fl.FedRCIL(exemplars=30), rounds=2, out=tmp_path / "part", **settings)
    fl.resume(tmp_path / "part", rounds=3)
    assert (tmp_path / "whole/metrics.jsonl").read_bytes() == (tmp_path / "part/metrics.jsonl").read_bytes()
    whole, part = (load_checkpoint(tmp_path / name, 3).server for name in ("whole", "part"))
    assert all(torch.equal(tensor, part[name]) for name, tensor in whole.items())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"m_u": -1}, "m_u=-1: it must be at least 0"),
        ({"buffer": 0}, "buffer=0: it must be at least 1"),
        ({"tau": 0}, "tau=0: it must be above 0"),
        ({"common": False}, "leave out common=false"),
        ({"exemplars": -1}, "exemplars=-1: it must be at least 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, says):
    with pytest.raises(FedloomError, match=says):
        fl.FedRCIL(**settings)


def test_tasks_that_it_cannot_use_are_refused():
    blind = fl.task("digits", clients=3, communal={"share": 0.2, "labelled": False}, stream=STREAM)
    with pytest.raises(FedloomError, match="fedrcil needs the classes of the communal samples"):
        fl.run(blind, fl.FedRCIL(exemplars=20, exemplar_epochs=0), rounds=1)
    with pytest.raises(FedloomError, match=r"exemplar_epochs=1 trains on the labels .* or exemplar_epochs=0"):
        fl.run(blind, fl.FedRCIL(), rounds=1)
    plain = fl.task("digits", clients=3, communal=0.2)
    with pytest.raises(FedloomError, match=r"exemplars=20: they are chosen when new classes come, .* has no stream"):
        fl.run(plain, fl.FedRCIL(exemplars=20), rounds=1)
    with pytest.raises(FedloomError, match="exemplars=5: give at least one for each of 10 classes"):
        fl.run(stream_task(), fl.FedRCIL(exemplars=5), rounds=1)
    with pytest.raises(FedloomError, match=r"task digits has none: set task\.communal"):
        fl.run(fl.task("digits", clients=3), fl.FedRCIL(), rounds=1)
    assert np.isfinite(
        fl.run(blind, fl.FedRCIL(exemplar_epochs=0), rounds=2).last("client_model/own_test/accuracy/mean")
    )
