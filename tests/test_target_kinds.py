"""Every method, stage and selector on every kind of target: it trains, or it is refused before training."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedloom as fl
from fedloom.config.resolve import method_from_config, resolve
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, needed_facts
from fedloom.registry.kinds import METHODS
from fedloom.runs.prepare import prepare
from fedloom.runs.runner import execute

KINDS = ("classes", "number", "numbers", "labels", "tokens")
GRAPHS = {"fedgala", "fedgalap"}
"""Methods for clients whose graphs overlap, which refuse all of these tasks."""
SETTINGS = {
    "fedhybridavglg": "threshold=10",
    "fedhybridavglgdual": "threshold=10",
    "fedharm": "a=1",
}
"""Thresholds for clients as small as these, and no comparison of stages, which these models have not."""
BY_CLASS = {"fedproto", "fedfmrl", "fedharm", "fdfaug", "dsfl", "feddf"}
IMAGES = {name for name, method in METHODS.items() if Fact.IMAGES in needed_facts(method())}
"""Methods on images, which these samples are not."""
BATCHNORM = {name for name, method in METHODS.items() if Fact.BATCHNORM in needed_facts(method())}
"""Methods on BatchNorm, which these models have not."""
ALWAYS = GRAPHS | IMAGES | BATCHNORM
REFUSED = {"classes": ALWAYS, "number": ALWAYS | BY_CLASS, "labels": ALWAYS | BY_CLASS}
REFUSED |= {"numbers": REFUSED["number"], "tokens": REFUSED["labels"] | {"moon", "perfcl"}}
STAGES = {"fedpredict": set(KINDS), "finetune": set(KINDS), "lastlocalmodel": set(KINDS), "recalibrate": {"classes"}}
STAGES |= {"linearprobe": {"classes"}}
"""Stages, and the kinds of targets that they are for."""
SELECTORS = {"random": set(KINDS), "powerofchoice": set(KINDS), "oort": set(KINDS), "rawcs": {"classes", "tokens"}}


def task(kind: str) -> fl.Task:
    """Four clients with twelve samples each."""
    draw = np.random.default_rng(0)
    x, client = draw.normal(size=(60, 4)), np.arange(60) % 4
    targets = {
        "classes": np.where(x[:, 0] > 0, "sick", "well"),
        "number": 20 + 3 * x[:, 0],
        "numbers": np.stack([20 + 3 * x[:, 0], 1000 * x[:, 1], x[:, 2]], 1),
        "labels": (x[:, :3] > 0).astype(np.uint8),
        "tokens": (x[:, :4] > 0).astype(np.int64) + 1,
    }
    if kind != "tokens":
        data = fl.from_arrays(x, targets[kind], client, valid_share=0.2, communal_share=0.1)
        return fl.task_of(data, model_options={"hidden": (8,)})
    words = fl.from_arrays(
        targets["tokens"] + 1, targets["tokens"], client, kind="tokens", valid_share=0.2, communal_share=0.1
    )
    return fl.task_of(words, model_options={"vocabulary": 5, "embedding": 4, "hidden": 6})


@pytest.fixture(scope="module")
def tasks() -> dict[str, fl.Task]:
    return {kind: task(kind) for kind in KINDS}


def refusal(made: fl.Task, spec: str, **settings) -> str:
    """Why a run is refused before training; empty if it trains to its end with finite measurements."""
    values = {"rounds": 2, "eval_every": 2, "method": spec, "local": {"lr": 0.05, "batch_size": 8}, **settings}
    config = resolve({**values, "task": {"name": "own"}}, task=made)
    try:
        prepared = prepare(made, method_from_config(config), config)
    except FedloomError as error:
        return str(error)
    history = execute(prepared)
    assert history.stopped is None
    value = history.last(f"client_model/own_test/{made.score_name}/mean")
    assert value is not None
    assert math.isfinite(value)
    for one in history.baselines:
        assert math.isfinite(one["metrics"][f"client_model/own_test/{made.score_name}/mean"]), one["name"]
    assert len(history.baselines) == 2  # of all clients together, and each client's own
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_trains_or_is_refused_in_a_sentence(name, kind, tasks):
    said = refusal(tasks[kind], f"{name}:{SETTINGS[name]}" if name in SETTINGS else name)
    assert bool(said) == (name in REFUSED[kind]), said
    assert "\n" not in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STAGES)
def test_a_stage_trains_or_is_refused_in_a_sentence(name, kind, tasks):
    base = "fedhybridavglgdual:threshold=10" if name == "recalibrate" else "fedavg"
    said = refusal(tasks[kind], f"{base}+{name}")
    assert bool(said) == (kind not in STAGES[name]), said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SELECTORS)
def test_a_selector_trains_or_is_refused_in_a_sentence(name, kind, tasks):
    said = refusal(tasks[kind], "fedavg", selection={"name": name})
    assert bool(said) == (kind not in SELECTORS[name]), said


@pytest.mark.parametrize("kind", ["number", "numbers", "labels", "tokens"])
def test_what_needs_classes_says_so(kind, tasks):
    federation = tasks[kind].federation
    with pytest.raises(FedloomError, match="these data have no classes"):
        fl.with_withheld_class(federation, 0, 1)
    assert ("Tagger does not return" if kind == "tokens" else "no class per sample") in refusal(tasks[kind], "fedproto")
    if kind != "tokens":
        said = refusal(tasks[kind], "fedhybridavglg:threshold=auto")
        assert f"threshold=auto compares accuracies, but this task is scored by {tasks[kind].score_name}:" in said


@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_and_the_stacked_execution_agree(kind, tasks):
    made = tasks[kind]
    loop, stacked = (fl.run(made, rounds=2, execution=execution) for execution in ("loop", "vectorised"))
    assert loop.row is not None
    assert stacked.row is not None
    assert loop.row.allclose(stacked.row, atol=1e-5)
    for name, value in loop.records[-1]["metrics"].items():
        assert stacked.records[-1]["metrics"][name] == pytest.approx(value, rel=1e-3, abs=1e-4), name
