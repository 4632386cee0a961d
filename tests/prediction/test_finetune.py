"""Fine-tuning: by hand on quadratics, which part moves, on which batches, and that nothing of it comes back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.prediction.finetune import FineTune
from fedloom.rounds.client_runtime import PREDICTING
from fedloom.training.local_trainer import LocalTrainer
from support.quadratic import quadratic
from support.synthetic import SIZES, distance, small_task

WORK = {"epochs": 1, "batch_size": 8, "lr": 0.1}
OPTIMA = [4.0, -2.0, 1.0, 7.0]
ERROR = "client_model/own_test/squared_error/mean"


def run(method, task: Task | None = None, **settings) -> fl.History:
    return fl.run(task or small_task(), method, **{"rounds": 3, "seed": 3, "local": WORK, **settings})


def cohort_after_round_two(task: Task, execution: str = "loop", **work) -> Cohort:
    """All clients of a task as they are scored after round 2 of 10."""
    setting = RunSetting(LocalWork(**{**WORK, **work}), 3, 10)
    ids = list(range(task.federation.clients))
    return Cohort(ids, LocalTrainer(task, execution), setting, 2, turn=PREDICTING)


def error(weights: list[float]) -> float:
    return sum((w - c) ** 2 for w, c in zip(weights, OPTIMA, strict=True)) / len(OPTIMA)


# -- by hand


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_tuning_a_quadratic_by_hand(execution, epochs):
    """Each epoch is one step w <- w + lr (c - w); the run itself continues from the untuned mean."""
    rate, tuning = 0.3, 0.2
    stage = f"fedavg+finetune:epochs={epochs},lr={tuning}"
    history = run(stage, quadratic(OPTIMA), local={"epochs": 1, "lr": rate}, execution=execution)
    w = 0.0
    for record in history.records:
        if record["round"]:
            w += rate * (sum(OPTIMA) / len(OPTIMA) - w)
        tuned = [c + (1 - tuning) ** epochs * (w - c) for c in OPTIMA]
        assert record["metrics"][ERROR] == pytest.approx(error(tuned), rel=1e-5)


def test_the_learning_rate_is_the_rounds_own_unless_one_is_given():
    """With a schedule that halves every round; before the first round it is the first round's."""
    local = {"epochs": 1, "lr": 0.4, "schedule": "exponential", "lr_decay": 0.5}
    rates = [0.4, 0.4, 0.2, 0.1]
    for stage, tuning in (("finetune", rates), ("finetune:lr=0.3", [0.3] * 4)):
        w = 0.0
        for record in run(f"fedavg+{stage}", quadratic(OPTIMA), local=local).records:
            t = record["round"]
            if t:
                w += rates[t] * (sum(OPTIMA) / len(OPTIMA) - w)
            tuned = [w + tuning[t] * (c - w) for c in OPTIMA]
            assert record["metrics"][ERROR] == pytest.approx(error(tuned), rel=1e-5)


def test_a_centralised_model_is_tuned_on_each_clients_own_data():
    local = {"epochs": 1, "lr": 0.3, "batch_size": 0}
    history = run("centralised+finetune:lr=0.2", quadratic(OPTIMA), rounds=1, local=local)
    w = 0.3 * sum(OPTIMA) / len(OPTIMA)
    assert history.last(ERROR) == pytest.approx(error([w + 0.2 * (c - w) for c in OPTIMA]), rel=1e-5)


def test_new_clients_are_tuned_too():
    history = run("fedavg+finetune:lr=0.2", quadratic(OPTIMA), new_clients=2, local={"epochs": 1, "lr": 0.3})
    new = [row["client"] for row in history.clients if row["group"] == "new"]
    old = [k for k in range(len(OPTIMA)) if k not in new]
    w = sum(OPTIMA[k] for k in old) / len(old) * (1 - 0.7**3)
    expected = [(w + 0.2 * (OPTIMA[k] - w) - OPTIMA[k]) ** 2 for k in new]
    name = "client_model/own_test/squared_error/new"
    assert history.last(name) == pytest.approx(sum(expected) / len(new), rel=1e-5)


# -- what moves, and on what


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("part", ["head", "body"])
def test_only_the_named_part_moves(execution, part):
    task = small_task()
    rows = torch.randn(len(SIZES), task.layout.width)
    tuned = FineTune(part=part).weights(rows, fl.Message(), cohort_after_round_two(task, execution))
    moved = (tuned != rows).any(0)
    assert bool(moved[task.layout.columns(part)].any())
    assert not bool(moved[~task.layout.columns(part)].any())


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_with_all_data_in_one_batch_an_epoch_is_a_gradient_step(execution):
    task = small_task()
    cohort = cohort_after_round_two(task, execution, batch_size=0)
    rows = cohort.spread(task.initial_row())
    step = rows - 0.05 * cohort.gradient(rows)
    assert distance(step, FineTune(lr=0.05).weights(rows, fl.Message(), cohort)) < 1e-5


@dataclass(frozen=True)
class Still(fl.FedAvg):
    """Clients train and the server forgets it, so that training and tuning start from the same row."""

    def aggregate(self, server, replies):
        return server


def test_its_batches_are_not_those_of_the_training():
    names = "client_model/own_test/loss/mean", "trained_model/own_test/loss/mean"
    tuned, trained = map(run(Still(), prediction=[FineTune()], rounds=1).last, names)
    assert tuned != pytest.approx(trained, rel=1e-6)
    whole = {"local": {**WORK, "batch_size": 0}, "rounds": 1}
    tuned, trained = map(run(Still(), prediction=[FineTune()], **whole).last, names)
    assert tuned == pytest.approx(trained, rel=1e-6)


def test_a_client_that_only_does_part_of_its_training_tunes_in_full():
    task = small_task()
    rows = torch.zeros(len(SIZES), task.layout.width)
    tuned, partial = (
        FineTune().weights(rows, fl.Message(), cohort_after_round_two(task, partial=p)) for p in (0.0, 1.0)
    )
    assert torch.equal(tuned, partial)
    steps = cohort_after_round_two(task, steps=1)
    assert torch.equal(tuned, FineTune().weights(rows, fl.Message(), steps))


@pytest.mark.parametrize("method", ["fedavg", "fedrep", "scaffold", "local"])
def test_nothing_of_it_feeds_back(tmp_path, method):
    for name, spec in (("bare", method), ("tuned", f"{method}+finetune")):
        run(spec, out=tmp_path / name, selection={"number": 2})
    files = sorted(p.name for p in (tmp_path / "bare" / "checkpoints").glob("*.safetensors"))
    assert files == sorted(p.name for p in (tmp_path / "tuned" / "checkpoints").glob("*.safetensors"))
    for file in files:
        one, two = ((tmp_path / name / "checkpoints" / file).read_bytes() for name in ("bare", "tuned"))
        assert one == two


def test_its_steps_are_not_the_runs():
    assert run("fedavg+finetune").total("steps") == run("fedavg").total("steps")


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["fedavg+finetune", "fedbabu+finetune:part=head,epochs=2"])
def test_executions_agree_and_workers_change_no_byte(spec):
    one = run(spec, execution="vectorised")
    assert run(spec, execution="vectorised", workers=2).records == one.records
    name = "client_model/own_test/loss/mean"
    assert run(spec, execution="loop").last(name) == pytest.approx(one.last(name), rel=1e-4)


def test_stages_work_on_each_others_rows():
    """FedPredict then tuning is not tuning then FedPredict."""
    one, two = (
        run(f"fedavg+{order}", selection={"number": 2}) for order in ("fedpredict+finetune", "finetune+fedpredict")
    )
    assert one.clients != two.clients
    chosen = one.records[-1]["selected"]
    losses = {row["client"]: row["loss"] for row in two.clients}
    trained = run("fedavg", selection={"number": 2}).last("trained_model/own_test/loss/mean")
    assert sum(losses[client] for client in chosen) / 2 == pytest.approx(trained, rel=1e-5)  # nt = 0: the local model


# -- refusals


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("fedavg+finetune:epochs=0", "epochs=0 in prediction stage finetune: it must be at least 1"),
        ("fedavg+finetune:lr=0", "lr=0 in prediction stage finetune: it must be above 0"),
        ("fedavg+finetune:part=tail", "part 'tail', which the model does not have: it has body, head"),
        ("fedavg+finetune:epoch=1", "Did you mean 'epochs'"),
        ("fedavg+finetun", "Did you mean 'finetune'"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(spec, reason):
    with pytest.raises(FedloomError) as caught:
        run(spec)
    assert reason in str(caught.value)


def test_a_stage_may_be_a_class_and_must_be_a_stage():
    assert run("fedavg", prediction=[FineTune], rounds=1).records == run("fedavg+finetune", rounds=1).records
    with pytest.raises(FedloomError, match="is not a prediction stage"):
        run("fedavg", prediction=[fl.FedAvg()])
    assert run("fedavg", prediction="finetune", rounds=1).records == run("fedavg+finetune", rounds=1).records
    with pytest.raises(FedloomError, match="give a list"):
        run("fedavg", prediction=FineTune())
