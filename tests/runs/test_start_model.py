"""Warm start: a run begins with the weights of another run or of a file, and knows which they were."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.runs.start_model import with_start
from support.command_line import output
from support.folders import written
from support.synthetic import federation, mlp


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=4, alpha=0.5)


def test_a_run_starts_where_another_ended(task, tmp_path):
    first = fl.run(task, rounds=2, out=tmp_path / "first")
    second = fl.run(task, "fedprox", rounds=1, start_from=tmp_path / "first")
    name = "global_model/global_test/loss"
    assert second.series(name)[1][0] == first.last(name)
    assert second.config["start_from"] == str((tmp_path / "first").resolve())
    assert len(second.config["made_by"]["start_from"]) == 16


def test_a_file_of_weights_is_the_module_itself(tmp_path):
    own, trained = federation([30, 20]), mlp()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(1.5)
    path = tmp_path / "weights.safetensors"
    save_file(trained.state_dict(), path)
    warm = fl.run(fl.task_of(own, mlp()), rounds=2, start_from=path)
    given = fl.run(fl.task_of(own, trained), rounds=2)
    assert warm.records == given.records


def test_frozen_weights_and_statistics_of_batches_come_along(tmp_path):
    def net() -> nn.Module:
        made = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 5))
        made[0].requires_grad_(False)
        return made

    trained = net()
    trained.train()(torch.randn(64, 20, generator=torch.Generator().manual_seed(0)) + 3)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    own = federation([32, 24])
    warm = fl.run(fl.task_of(own, net()), rounds=1, start_from=tmp_path / "w.safetensors")
    assert warm.records == fl.run(fl.task_of(own, trained), rounds=1).records


@pytest.mark.slow
def test_the_command_line_starts_from_a_folder_and_resumes_to_the_same_bytes(task, tmp_path):
    fl.run(task, rounds=1, out=tmp_path / "first")
    fl.run(task, rounds=2, start_from=tmp_path / "first", out=tmp_path / "python")
    file = tmp_path / "python" / "config.toml"
    output(app, "run", file, "--out", tmp_path / "shell", "--quiet")
    assert written(tmp_path / "shell") == written(tmp_path / "python")
    fl.resume(tmp_path / "python")
    assert written(tmp_path / "shell") == written(tmp_path / "python")
    other = "run", file, "--start-from", tmp_path / "python", "--out", tmp_path / "other", "--quiet"
    output(app, *other)


def test_a_start_that_has_changed_is_refused(task, tmp_path):
    fl.run(task, rounds=1, out=tmp_path / "first")
    fl.run(task, rounds=2, start_from=tmp_path / "first", out=tmp_path / "second")
    fl.resume(tmp_path / "first", rounds=2)
    for again in (lambda: fl.resume(tmp_path / "second"), lambda: output(app, "run", tmp_path / "second/config.toml")):
        with pytest.raises(FedloomError, match="the model there has changed since the run was started: restore it"):
            again()


def test_what_is_not_the_same_model_is_one_sentence(task, tmp_path):
    fl.run(fl.task_of(federation([30, 20]), mlp()), rounds=1, out=tmp_path / "other")
    fl.run(task, "local", rounds=1, out=tmp_path / "local")
    save_file(mlp().state_dict(), tmp_path / "mlp.safetensors")
    torch.save([1, 2], tmp_path / "list.pt")  # a pickle
    save_file({**task.model.state_dict(), "extra": torch.zeros(1)}, tmp_path / "more.safetensors")
    (tmp_path / "text.safetensors").write_text("weights")
    shapes = {name: torch.zeros(*tensor.shape, 1) for name, tensor in task.model.state_dict().items()}
    save_file(shapes, tmp_path / "shapes.safetensors")
    save_file(
        {name: tensor * torch.nan for name, tensor in task.model.state_dict().items()}, tmp_path / "nan.safetensors"
    )
    for name, message in {
        "nowhere": "does not exist",
        "other": r"the model there has [\d,]+ numbers, but the model of digits has 15,010",
        "local": "has no shared model to start from",
        "mlp.safetensors": "holds another model: it",
        "list.pt": "PyTorch file, and reading one can run code .* safetensors.torch.save_file",
        "more.safetensors": "it has in addition extra",
        "text.safetensors": "not a .safetensors file",
        "shapes.safetensors": r"has in another shape .* instead of",
        "nan.safetensors": "not finite",
    }.items():
        with pytest.raises(FedloomError, match=message) as caught:
            fl.run(task, rounds=1, start_from=tmp_path / name)
        assert "\n" not in str(caught.value)


# -- another head, frozen parts, adapters


def test_every_name_that_does_not_fit_is_listed_and_may_be_left_as_it_was(tmp_path, caplog):
    own, other = federation([30, 20]), mlp(classes=7)
    save_file({**other.state_dict(), "extra": torch.zeros(1)}, tmp_path / "w.safetensors")
    task = fl.task_of(own, mlp())
    with pytest.raises(FedloomError) as caught:
        fl.run(task, rounds=1, start_from=tmp_path / "w.safetensors")
    assert "has in addition extra" in str(caught.value)
    assert "4.weight (7, 16) instead of (5, 16), 4.bias (7,) instead of (5,)" in str(caught.value)
    assert "start_without" in str(caught.value)
    started = with_start(task, str(tmp_path / "w.safetensors"), ["4.*", "extra"]).model
    assert torch.equal(started[1].weight, other[1].weight)
    assert torch.equal(started[4].weight, mlp()[4].weight)
    assert "4.bias, 4.weight" in caplog.text
    history = fl.run(task, rounds=1, start_from=tmp_path / "w.safetensors", start_without=["4.*", "extra"])
    assert history.config["start_without"] == ["4.*", "extra"]
    with pytest.raises(FedloomError, match=r"start_without: the pattern 'nose.\*' matches no tensor"):
        fl.run(task, rounds=1, start_from=tmp_path / "w.safetensors", start_without=["nose.*"])
    with pytest.raises(FedloomError, match="set start_from, or drop it"):
        fl.run(task, rounds=1, start_without=["4.*"])


def test_a_model_without_adapters_starts_one_that_has_them(tmp_path):
    own, trained = federation([30, 20]), mlp()
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(1.5)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    warm = fl.run(fl.task_of(own, mlp(), adapters={"rank": 2}), rounds=2, start_from=tmp_path / "w.safetensors")
    given = fl.run(fl.task_of(own, trained, adapters={"rank": 2}), rounds=2)
    assert warm.records == given.records


HOW = {"clients": 3, "model_options": {"hidden": [8]}}


@pytest.mark.parametrize("setting", [{"frozen": ["1.*"]}, {"adapters": {"rank": 2}}])
def test_a_run_of_a_whole_model_starts_one_that_trains_a_part(tmp_path, setting):
    whole, part = fl.task("digits", **HOW), fl.task("digits", **HOW, **setting)
    first = fl.run(whole, rounds=1, out=tmp_path / "first")
    second = fl.run(part, rounds=1, start_from=tmp_path / "first", out=tmp_path / "second")
    name = "global_model/global_test/loss"
    assert second.series(name)[1][0] == pytest.approx(first.last(name), rel=1e-6)
    trained = first.model(whole)
    kept = second.model(part)[1]
    assert torch.equal(getattr(kept, "base", kept).weight, trained[1].weight)
    third = fl.run(whole, rounds=1, start_from=tmp_path / "second")  # merged, and through two folders
    assert third.series(name)[1][0] == pytest.approx(second.last(name), rel=1e-5)
    again = fl.run(part, rounds=1, start_from=tmp_path / "second")
    assert again.series(name)[1][0] == pytest.approx(second.last(name), rel=1e-5)


def test_a_frozen_model_that_started_from_a_file_is_what_comes_out(tmp_path):
    task = fl.task_of(federation([30, 20]), mlp(), frozen=["1"])
    trained = mlp()
    torch.nn.init.constant_(trained[1].weight, 0.25)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    history = fl.run(task, rounds=1, start_from=tmp_path / "w.safetensors")
    assert (history.model(task)[1].weight == 0.25).all()
