"""``task.frozen`` and ``task.adapters`` in runs: what travels, what stays, and every other part beside them."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.command_line import output
from support.folders import written
from support.synthetic import federation, mlp

SIZES = [33, 9, 50, 20]
WORK = {"epochs": 1, "batch_size": 8, "lr": 0.1}
BOTH = [{"frozen": ["1"]}, {"adapters": {"rank": 2}}]
HEAD, ADAPTERS = 16 * 5 + 5, 2 * (20 + 16) + 2 * (16 + 5)


def task(**settings: object) -> fl.Task:
    return fl.task_of(federation(SIZES), mlp(), **settings)


def run(settings: dict[str, object], method: object = "fedavg", **how: object) -> fl.History:
    return fl.run(task(**settings), method, **{"rounds": 2, "local": WORK, **how})


# -- what travels


def test_a_message_holds_what_trains_and_nothing_else():
    whole = 20 * 16 + 16 + HEAD
    for settings, numbers in (({}, whole), (BOTH[0], HEAD), (BOTH[1], ADAPTERS)):
        history = run(settings)
        assert history.total("bytes_up") == history.total("bytes_down") == 2 * 4 * 4 * numbers


def test_frozen_weights_equal_their_start_and_the_others_do_not():
    trained = run(BOTH[0]).model(task(**BOTH[0]))
    assert torch.equal(trained[1].weight, mlp()[1].weight)
    assert not torch.equal(trained[4].weight, mlp()[4].weight)


def test_frozen_by_a_pattern_is_frozen_by_its_author_to_the_byte(tmp_path):
    module = mlp()
    module[1].requires_grad_(False)
    for folder, own in (("pattern", task(frozen=["1.*"])), ("author", fl.task_of(federation(SIZES), module))):
        fl.run(own, "scaffold", rounds=2, local=WORK, out=tmp_path / folder)
    one, other = (written(tmp_path / folder) for folder in ("pattern", "author"))
    differ = {str(name).rpartition("/")[2] for name in one if one[name] != other[name]}
    assert differ <= {"config.toml", "manifest-000002.json"}  # the setting itself, and the digest of its file


def test_the_first_model_with_adapters_scores_as_the_one_without():
    name = "global_model/global_test/loss"
    assert run({}).series(name)[1][0] == run(BOTH[1]).series(name)[1][0]


def test_the_module_that_was_given_stays_as_it_was():
    module = mlp()
    fl.task_of(federation(SIZES), module, adapters={"rank": 2})
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert type(module[1]) is nn.Linear


# -- beside other parts


@pytest.mark.parametrize("settings", BOTH, ids=["frozen", "adapters"])
@pytest.mark.parametrize("method", ["fedprox", "scaffold", "fedadam", "ditto", "fedavg+finetune", "fedavg+fedpredict"])  # fmt: skip # noqa: E501
def test_it_runs_with_any_method_and_stage_and_without_a_change_of_what_is_constant(settings, method):
    history = run(settings, method)
    trained = history.model(task(**settings), client=1)
    first = getattr(trained[1], "base", trained[1])
    assert torch.equal(first.weight, mlp()[1].weight)


@pytest.mark.parametrize("settings", BOTH, ids=["frozen", "adapters"])
@pytest.mark.parametrize(
    "how",
    [
        {"sample_privacy": {"noise": 1.0, "clip": 1.0}},
        {"channel": ["securesum"]},
        {"channel": ["securesum"], "weight_by": "uniform"},
        {"channel": [{"name": "topk", "fraction": 0.2}]},
        {"channel": ["qsgd"]},
        {"aggregation": "median"},
        {"downlink": {"precision": "float16"}},
        {"execution": "loop"},
        {"local": {**WORK, "optimizer": "adam", "lr": 0.01}},
    ],
    ids=["noise per sample", "sum", "sum alike", "topk", "qsgd", "median", "downlink", "loop", "adam"],
)
def test_it_runs_with_every_channel_rule_and_noise(settings, how):
    history = run(settings, **how)
    assert history.last("global_model/global_test/loss") < 5


def test_methods_that_compare_features_take_adapters_and_refuse_a_model_of_which_only_the_head_trains():
    run(BOTH[1], "fedproto")
    with pytest.raises(FedloomError, match="fedproto uses features"):
        run(BOTH[0], "fedproto")


def test_a_shared_body_of_adapters_has_own_heads_of_adapters():
    history = run(BOTH[1], "fedper")
    assert history.total("bytes_up") == 2 * 4 * 4 * 2 * (20 + 16)
    with pytest.raises(FedloomError, match="needs a model with a body and a head, but Sequential has head"):
        run(BOTH[0], "fedper")


def test_dropped_parts_of_a_model_are_said_to_have_no_place_in_several_models():
    for settings in BOTH:
        with pytest.raises(FedloomError, match=r"is about one model, and task.models has several"):
            fl.task("digits", clients=4, models={"mlp": 0.5, "logistic": 0.5}, **settings)


def test_frozen_and_adapters_together_are_refused():
    with pytest.raises(FedloomError, match=r"task.frozen and task.adapters both say what trains"):
        task(frozen=["1"], adapters={})


def test_a_wrong_setting_is_one_sentence():
    with pytest.raises(FedloomError, match=r"rank=0 in task.adapters: it must be at least 1"):
        task(adapters={"rank": 0})
    with pytest.raises(FedloomError, match=r"adapters.rnk"):
        fl.task("digits", adapters={"rnk": 3})


# -- folders, the command line, saved models


@pytest.mark.parametrize("settings", BOTH, ids=["frozen", "adapters"])
def test_a_config_has_it_and_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, settings):
    own = fl.task("digits", clients=3, model_options={"hidden": [8]}, **settings)
    fl.run(own, rounds=2, out=tmp_path / "whole")
    fl.run(own, rounds=1, out=tmp_path / "part")
    fl.resume(tmp_path / "part", rounds=2)
    assert (tmp_path / "part/metrics.jsonl").read_bytes() == (tmp_path / "whole/metrics.jsonl").read_bytes()
    output(app, "run", tmp_path / "whole/config.toml", "--out", tmp_path / "shell", "--quiet")
    assert written(tmp_path / "shell") == written(tmp_path / "whole")
    assert fl.History.load(tmp_path / "whole").model(own)(torch.zeros(1, 1, 8, 8)).shape == (1, 10)


def test_the_command_line_takes_both(tmp_path):
    common = "run", "--task", "digits", "--clients", "3", "--rounds", "1", "--quiet"
    output(app, *common, "--set", 'task.frozen=["1.*"]', "--out", tmp_path / "frozen")
    output(app, *common, "--set", "task.adapters={rank=2}", "--out", tmp_path / "adapters")
    first = json.loads((tmp_path / "frozen/metrics.jsonl").read_text().splitlines()[1])
    assert first["bytes_up"] == 3 * 4 * (200 * 10 + 10)


@pytest.mark.parametrize("settings", BOTH, ids=["frozen", "adapters"])
def test_a_saved_model_predicts_as_the_run_does(tmp_path, settings):
    from fedloom.deploy.saved_model import model_of_run

    trained = fl.task("digits", clients=3).model
    torch.nn.init.constant_(trained[1].bias, 0.1)
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    own = fl.task("digits", clients=3, **settings)
    history = fl.run(own, rounds=1, start_from=tmp_path / "w.safetensors", out=tmp_path / "run")
    samples = own.federation.columns["x"][:6]
    outputs = history.model(own)(own.inputs(torch.arange(6)))
    assert torch.allclose(model_of_run(tmp_path / "run").outputs(samples), outputs, atol=1e-6)
