"""Sequences of unequal length: padding, the last channel, what is fitted on training samples, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.data.sequences.sequence_plan import split_sequences
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.under_schema import read_under_schema
from fedloom.deploy.new_samples import read_new_samples
from fedloom.deploy.saved_model import model_at


def sequences(samples: int = 40) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    x = [draw.normal(5 * (row % 2), 2, size=(int(draw.integers(2, 12)), 3)) for row in range(samples)]
    return x, np.arange(samples) % 2, np.arange(samples) % 4


def test_a_list_of_arrays_is_padded_and_marked():
    x, y, client = sequences()
    made = fl.from_arrays(x, y, client)
    inputs, plan = made.columns["x"], made.plan
    train = made.train.order.tolist()
    assert plan.steps == max(len(x[row]) for row in train)
    together = np.concatenate([x[row] for row in train])
    assert np.allclose(plan.mean, together.mean(0))
    assert np.allclose(plan.std, together.std(0))
    for row, sample in enumerate(x):
        steps = min(len(sample), plan.steps)
        assert inputs[row, 3].tolist() == [1.0] * steps + [0.0] * (plan.steps - steps)
        assert np.allclose(inputs[row, :3, :steps].T, (sample[:steps] - plan.mean) / plan.std, atol=1e-5)
        assert not inputs[row, :, steps:].any()
    task = fl.task_of(made)
    assert torch.equal(task.inputs(torch.arange(40)), inputs)
    assert type(task.model).__name__ == "SequenceConv"
    assert "the last channel is 1 at real steps and 0 at padding" in " ".join(made.notes)


def test_datasets_per_client_may_have_sequences():
    x, y, _ = sequences()
    tensors = [(torch.from_numpy(sample).float(), int(label)) for sample, label in zip(x, y, strict=True)]

    class Part(torch.utils.data.Dataset):
        def __init__(self, samples):
            self.samples = samples

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, place):
            return self.samples[place]

    made = fl.read({"a": Part(tensors[:20]), "b": Part(tensors[20:])})
    assert list(made.names) == ["a", "b"]
    assert made.columns["x"].shape[1] == 4


@pytest.mark.parametrize("model", ["sequence-conv", "sequence-lstm"])
def test_the_loop_and_the_stacked_execution_agree_and_learn(model):
    task = fl.task_of(fl.from_arrays(*sequences(120)), model)
    local = {"lr": 0.2, "epochs": 3, "batch_size": 8}
    loop, stacked = (fl.run(task, rounds=4, local=local, execution=one) for one in ("loop", "vectorised"))
    name = "client_model/own_test/loss/mean"
    assert loop.last(name) == pytest.approx(stacked.last(name), rel=1e-3)
    accuracy = "client_model/own_test/accuracy/mean"
    assert loop.last(accuracy) > loop.baselines[0]["metrics"][accuracy] + 0.2


def test_an_npz_file_with_lengths_gives_the_same_by_run_prediction_and_site(tmp_path: Path):
    x, y, client = sequences()
    lengths = np.array([len(sample) for sample in x])
    padded = np.full((40, 12, 3), np.nan)
    for row, sample in enumerate(x):
        padded[row, : len(sample)] = sample
    np.savez(tmp_path / "joined.npz", x=np.concatenate(x), lengths=lengths, y=y, client=client)
    np.savez(tmp_path / "padded.npz", x=padded, lengths=lengths, y=y, client=client)
    made = fl.from_arrays(x, y, client)
    for name in ("joined", "padded"):
        assert torch.equal(fl.read(tmp_path / f"{name}.npz").columns["x"], made.columns["x"])
    task = fl.task("own", path=str(tmp_path / "joined.npz"))
    assert task.made_from["model"] == "sequence-conv"
    fl.run(task, rounds=1, out=tmp_path / "run")
    saved = model_at(tmp_path / "run")
    samples = read_new_samples([tmp_path / "padded.npz"], saved)
    assert torch.equal(samples.inputs, made.columns["x"])
    assert bool(samples.labelled.all())
    own = read_under_schema(tmp_path / "joined.npz", saved.schema, TableColumns())
    assert torch.equal(own.columns["x"], made.columns["x"])
    assert own.columns["y"].tolist() == y.tolist()
    np.savez(tmp_path / "new.npz", x=x[0], lengths=lengths[:1])
    alone = read_new_samples([tmp_path / "new.npz"], saved)
    assert torch.allclose(saved.predict(alone.inputs)[0], saved.predict(samples.inputs)[0], atol=1e-5)
    np.savez(tmp_path / "other.npz", x=x[0][:, :2], lengths=lengths[:1])
    with pytest.raises(FedloomError, match=r"other\.npz: sample 1 has 2 channels, but the task has 3"):
        read_new_samples([tmp_path / "other.npz"], saved)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda x: [*x[:3], x[3][:, :2], *x[4:]],
            r"sample 4 has shape \(\d+, 2\), and most others 3 entries along the second axis",
        ),
        (lambda x: [*x[:3], x[3][:0], *x[4:]], "own data: sample 4 has no steps: leave it out"),
        (lambda x: [*x[:3], x[3] * np.nan, *x[4:]], "sample 4, step 1, channel 1 is not a finite number: fill it in"),
    ],
)
def test_a_sequence_that_does_not_fit_is_named(change, sentence):
    x, y, client = sequences()
    with pytest.raises(FedloomError, match=sentence):
        fl.from_arrays(change(x), y, client)


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(FedloomError, match="2 lengths add up to 6: give x as"):
        split_sequences(np.zeros((5, 2)), np.array([2, 4]), "a.npz")
    with pytest.raises(FedloomError, match="lengths must be a whole number of at least 1 per sample"):
        split_sequences(np.zeros((4, 2)), np.array([0, 4]), "a.npz")
