"""Several input columns: the same numbers in columns and in one tensor are the same task, however it is computed."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.changes.communal_set import with_communal
from fedloom.data.datasets.images import HAR_COLUMNS
from fedloom.data.federation_figure import describe
from fedloom.data.partition.feature_skew import with_feature_skew
from fedloom.runs.folder.fingerprint import fingerprint
from fedloom.tasks.transforms import CropFlip
from support import phones
from support.engine_runs import result_files
from support.paths import DATA_FOLDER

WORK = LocalWork(epochs=2, batch_size=8, lr=0.1)
METHODS = [
    "fedavg",
    "fedprox",
    "scaffold",
    "fedrep",
    "moon",
    "fedproto",
    "perfedavg",
    "pfedme",
    "ditto",
    "fedsgd",
    "cfl",
    "fedavg+fedpredict",
    "fedavg+finetune",
]


class Joining(nn.Module):
    """A plain network behind the concatenation of the columns."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        outputs: Tensor = self.inner(torch.cat(list(x.values()), -1))
        return outputs


def plain_network(dropout: float = 0.0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        layers = [("0", nn.Linear(7, 8)), ("1", nn.ReLU()), ("2", nn.Dropout(dropout)), ("head", nn.Linear(8, 3))]
        return nn.Sequential(OrderedDict(layers))


def scores(task: Task, method: str, **settings: Any) -> list[float]:
    """Everything that a short run measures, and its last shared model."""
    history = fl.run(task, method, **{"rounds": 3, "seed": 5, "local": WORK, "workers": 1, **settings})
    found = [value for record in history.records for _, value in sorted(record["metrics"].items())]
    found += [] if history.row is None else history.row.tolist()
    assert len(found) > 10
    return found


# -- columns and one tensor


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_model_that_concatenates_the_columns_is_the_plain_task_to_the_byte(dropout):
    metrics = ["accuracy", "macro_f1", "auc"]
    whole = fl.task_of(phones.joined_federation(), plain_network(dropout), metrics=metrics)
    columns = fl.task_of(phones.federation(), Joining(plain_network(dropout)), metrics=metrics)
    assert columns.has_named_inputs
    assert scores(columns, "fedavg", execution="loop") == scores(whole, "fedavg", execution="loop")


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("model", ["mlp", "logistic", plain_network()], ids=["mlp", "logistic", "module"])
def test_a_plain_model_gets_one_tensor_and_gives_the_bytes_of_the_plain_task(model, execution):
    whole, columns = (fl.task_of(data, model) for data in (phones.joined_federation(), phones.federation()))
    assert columns.joined
    assert not columns.has_named_inputs
    assert torch.equal(columns.inputs(torch.arange(9)), whole.inputs(torch.arange(9)))
    assert scores(columns, "fedprox", execution=execution) == scores(whole, "fedprox", execution=execution)


def test_inputs_have_the_shape_of_the_positions_and_each_column_its_own_normalisation():
    task = phones.task()
    found = task.inputs(torch.arange(6).view(2, 3))
    assert {name: tuple(column.shape) for name, column in found.items()} == {
        "accelerometer": (2, 3, 4),
        "gyroscope": (2, 3, 3),
    }
    seen = task.inputs(task.federation.train.order)
    for column in seen.values():
        assert torch.allclose(column.mean(0), torch.zeros(1), atol=1e-5)
        assert torch.allclose(column.std(0, correction=0), torch.ones(1), atol=1e-5)


# -- every method, however it is computed


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_loop_and_vectorised_agree_on_columns(method):
    one, other = (scores(phones.task(0.2), method, execution=execution) for execution in ("loop", "vectorised"))
    assert one == pytest.approx(other, abs=2e-5)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_compiled_and_loop_agree_on_columns():
    one, other = (scores(phones.task(), "fedavg", execution=execution) for execution in ("loop", "compiled"))
    assert one == pytest.approx(other, abs=2e-5)


@pytest.mark.parametrize("method", ["scaffold", "moon", "fedrep+fedpredict"])
@pytest.mark.slow
def test_two_workers_and_a_resumed_run_leave_the_bytes_of_one(method, tmp_path):
    class Stop(BaseException):
        pass

    def stop(record: dict[str, Any]) -> None:
        if record["round"] == 2:
            raise Stop

    def run(folder: str, **settings: Any) -> None:
        usual = {"rounds": 4, "seed": 3, "local": WORK, "workers": 1, "execution": "loop"}
        fl.run(phones.task(), method, out=tmp_path / folder, **{**usual, **settings})

    run("one")
    run("two", workers=2)
    with pytest.raises(Stop):
        run("stopped", observers=[stop])
    fl.resume(tmp_path / "stopped", task=phones.task())
    assert result_files(tmp_path / "one") == result_files(tmp_path / "two") == result_files(tmp_path / "stopped")


def test_a_method_that_needs_features_asks_for_them():
    task = fl.task_of(phones.federation(), Joining(plain_network()))
    with pytest.raises(FedloomError, match="Joining does not return them: give it a features method"):
        fl.run(task, "moon", rounds=1)


# -- the federation


def test_what_is_done_to_a_federation_keeps_its_columns():
    made = with_communal(phones.federation(valid_share=0.2), 3)
    made = fl.with_concept_drift(fl.with_withheld_class(made, 1, 1), [2], seed=1)
    views = (made, made.at(2), made.with_validation_as_test(), made.as_one_client(), made.subsample(lambda p: p[:5], 4))
    for view in views:
        assert list(view.columns) == ["x/accelerometer", "x/gyroscope", "y"]
    task = fl.task_of(made, phones.TwoStreams())
    assert all(np.isfinite(scores(task, "fedavg", clients_on_global=True)))
    assert describe(made)["input_shape"] == {"accelerometer": [4], "gyroscope": [3]}
    skewed = with_feature_skew(made, "noise", 0.5)
    assert all(not torch.equal(skewed.columns[name], made.columns[name]) for name in list(made.columns)[:2])


def test_chains_that_look_at_communal_samples_take_columns():
    task = fl.task_of(with_communal(phones.federation(), 3), phones.TwoStreams())
    history = fl.run(task, fl.FedSeq(), rounds=2, seed=1, local=WORK)
    assert np.isfinite(history.last("global_model/global_test/accuracy"))


def test_a_resumed_run_notices_a_change_in_any_column():
    task = phones.task()
    columns = dict(task.federation.columns)
    found = {fingerprint(task)}
    for name in ("x/accelerometer", "x/gyroscope"):
        changed = replace(task.federation, columns=columns | {name: columns[name] + 1})
        found.add(fingerprint(replace(task, federation=changed)))
    renamed = {name.replace("gyroscope", "compass"): column for name, column in columns.items()}
    found.add(fingerprint(replace(task, prepare=None, federation=replace(task.federation, columns=renamed))))
    assert len(found) == 4


# -- what cannot be


def test_a_model_that_takes_neither_form_is_refused():
    with pytest.raises(FedloomError) as refusal:
        fl.task_of(phones.federation(), nn.Linear(9, 3))
    assert str(refusal.value).startswith("Linear cannot take the input columns accelerometer, gyroscope: ")
    assert "\n" not in str(refusal.value)


def test_columns_that_cannot_be_joined_need_a_model_that_takes_them():
    x, y, phone = phones.arrays()
    x["picture"] = np.zeros((len(y), 1, 8, 8), dtype=np.float32)
    federation = fl.from_arrays(x, y, phone)
    with pytest.raises(FedloomError, match=r"'mlp' takes one tensor.*models that take columns are late-fusion"):
        fl.task_of(federation, "mlp")
    assert fl.task_of(federation, "late-fusion").has_named_inputs


def test_a_model_of_columns_is_refused_for_one_tensor():
    with pytest.raises(FedloomError, match="'late-fusion' takes several input columns"):
        fl.task_of(phones.joined_federation(), "late-fusion")


def test_augmentation_is_for_one_column():
    with pytest.raises(FedloomError, match="augment changes one input column, but there are several"):
        replace(phones.task(), augment=CropFlip())


def test_a_transform_of_a_column_that_is_not_there_is_refused():
    task = phones.task()
    with pytest.raises(FedloomError, match="prepare names the column 'compass', but the input columns are acc"):
        replace(task, prepare={"compass": torch.neg})
    whole = fl.task_of(phones.joined_federation(), plain_network())
    with pytest.raises(FedloomError, match="prepare names the column 'gyroscope', but the input columns are x"):
        replace(whole, prepare={"gyroscope": torch.neg})
    every = replace(task, prepare=torch.neg).inputs(torch.arange(3))
    assert torch.equal(every["gyroscope"], -task.federation.columns["x/gyroscope"][:3])


# -- UCI HAR


@pytest.fixture
def har(monkeypatch):
    if not (DATA_FOLDER / "uci_har.npz").is_file():
        pytest.skip(f"uci_har.npz is not in {DATA_FOLDER}")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))


@pytest.mark.usefixtures("har")
@pytest.mark.slow
def test_har_in_columns_has_the_clients_and_numbers_of_har():
    whole, columns = fl.task("har"), fl.task("har-columns")
    assert columns.has_named_inputs
    assert list(columns.federation.names) == list(whole.federation.names)
    some = torch.arange(0, 10_000, 97)
    one, several = whole.inputs(some), columns.inputs(some)
    for name, channels in HAR_COLUMNS.items():
        assert torch.equal(several[name], one[:, channels])
    plain = fl.task("har-columns", model="conv1d")
    assert torch.equal(plain.inputs(some), one[:, [*HAR_COLUMNS["accelerometer"], *HAR_COLUMNS["gyroscope"]]])


@pytest.mark.slow
@pytest.mark.usefixtures("har")
@pytest.mark.exhaustive
def test_both_sensors_together_learn_har():
    task = fl.task("har-columns", clients=8)
    assert task.layout.parts == ("body", "head")
    history = fl.run(task, "fedavg", rounds=15, seed=1)
    assert history.last("global_model/global_test/accuracy") > 0.6


SERIES = [np.random.default_rng(n).normal(size=(6 + n % 5, 3)) for n in range(40)]
HALVES, FOUR = np.arange(40) % 2, np.arange(40) % 4


@pytest.mark.parametrize("model", ["sequence-conv", "sequence-lstm"])
def test_a_model_of_marked_steps_refuses_inputs_whose_last_channel_marks_none(model):
    unmarked = np.stack([series[:6].T for series in SERIES])
    with pytest.raises(FedloomError, match=r"takes the last channel as 1 at real steps.*at step 1: give sequences of"):
        fl.task_of(fl.from_arrays(unmarked, HALVES, FOUR), model)
    with pytest.raises(FedloomError, match="takes the last channel as 1"):
        fl.task_of(fl.from_arrays(unmarked, HALVES, FOUR), models={"mlp": 0.5, model: 0.5})
    fl.task_of(fl.from_arrays(SERIES, HALVES, FOUR), model)


def test_marks_of_ones_own_are_taken_unless_they_are_normalised_away():
    marked = np.stack([np.concatenate([series[:6].T, np.ones((1, 6))]) for series in SERIES]).astype(np.float32)
    marked[::3, :, 4:] = 0
    data = fl.from_arrays(marked, HALVES, FOUR)
    fl.task_of(data, "sequence-conv", normalise=False)
    with pytest.raises(FedloomError, match="takes the last channel as 1"):
        fl.task_of(data, "sequence-conv")
