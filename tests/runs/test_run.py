"""Running from Python: what comes back, and what resuming insists on."""

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from support.synthetic import federation, mlp


@pytest.fixture
def task():
    return fl.task("digits", clients=5, partition=fl.dirichlet(0.5), seed=7)


def test_a_history_has_records_frames_and_the_trained_model(task):
    history = fl.run(task, "fedavg", rounds=3)
    assert [r["round"] for r in history.records] == [0, 1, 2, 3]
    assert len(history.frame()) == 4
    model = history.model(task)
    positions = task.federation.global_test
    accuracy = (model(task.inputs(positions)).argmax(1) == task.targets(positions)).float().mean()
    assert float(accuracy) == pytest.approx(history.last("global_model/global_test/accuracy"))


def test_the_model_of_a_loaded_run_is_the_same(task, tmp_path):
    history = fl.run(task, "fedavg", rounds=2, out=tmp_path / "a")
    assert torch.equal(fl.History.load(tmp_path / "a").row, history.row)


def test_local_training_has_no_global_model(task):
    with pytest.raises(FedloomError, match="no global model"):
        fl.run(task, "local", rounds=1).model(task)


def test_a_run_of_a_named_task_is_resumed_from_its_folder_alone(task, tmp_path):
    fl.run(task, "fedavg", rounds=2, seed=3, out=tmp_path / "a")
    assert fl.resume(tmp_path / "a").records[-1]["round"] == 2


def test_resuming_with_another_task_is_refused(task, tmp_path):
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "a")
    other = fl.task("digits", clients=5, partition=fl.dirichlet(0.5), seed=8)
    with pytest.raises(FedloomError, match="was started with other data, another partition or another model"):
        fl.resume(tmp_path / "a", task=other)


def test_objects_of_ones_own_are_given_to_resume(tmp_path):
    class Mine(fl.FedAvg):
        pass

    own = fl.task_of(federation([30, 20]), mlp(), name="hospitals")
    fl.run(own, Mine(), rounds=2, out=tmp_path / "a")
    assert fl.resume(tmp_path / "a", task=own, method=Mine()).records[-1]["round"] == 2


def test_a_message_that_a_method_writes_into_is_its_own_copy():
    class Careless(fl.FedAvg):
        def client_update(self, cohort, message):
            message["row"].mul_(1.5)
            return super().client_update(cohort, message)

    own = fl.task_of(federation([30, 20, 10]), mlp())
    rows = [fl.run(own, Careless(), rounds=2, execution=how, workers=w).row for how, w in [("loop", 1), ("loop", 2)]]
    assert torch.equal(*rows)
    assert torch.allclose(rows[0], fl.run(own, Careless(), rounds=2, execution="vectorised").row, atol=1e-4)


def test_server_optimisers_leave_batch_norms_statistics_to_the_mean():
    model = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 5))
    own = fl.task_of(federation([32, 24]), model)
    local = {"lr": 0.05, "batch_size": 8}
    plain = fl.run(own, "fedavg", rounds=1, local=local).row
    moved = fl.run(own, fl.FedAvgM(server_lr=0.5), rounds=1, local=local).row
    trained = own.layout.trained_columns
    assert torch.equal(plain[~trained], moved[~trained])
    assert not torch.equal(plain[trained], moved[trained])


def test_compare_keeps_two_settings_of_a_method_apart(task, tmp_path):
    found = fl.compare(task, [fl.FedProx(mu=0.1), fl.FedProx(mu=5.0)], rounds=1, out=tmp_path)
    assert list(found) == ["fedprox:mu=0.1", "fedprox:mu=5.0"]


def test_a_task_by_name_and_a_method_by_class_work():
    assert fl.run("digits", fl.FedSGD, rounds=1).label == "fedsgd"


def test_a_federation_and_a_module_of_ones_own_make_a_task():
    own = fl.task_of(federation([30, 20, 10]), mlp())
    history = fl.run(own, rounds=2, local={"lr": 0.1})
    assert history.config["task"]["name"] == "own"
    assert history.records[-1]["steps"] == 3


class Adapter(torch.nn.Module):
    """A frozen network with a causal mask, and a small correction that trains."""

    def __init__(self, base_seed=1):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(base_seed)
            self.base = torch.nn.Linear(20, 5).requires_grad_(False)
            torch.manual_seed(2)
            self.down, self.up = torch.nn.Linear(20, 2, bias=False), torch.nn.Linear(2, 5, bias=False)
        self.register_buffer("mask", torch.full((5, 5), -torch.inf).triu(1))

    def forward(self, x):
        logits = self.base(x) + self.up(self.down(x))
        return logits + torch.softmax(self.mask, 1).sum(0)


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_only_what_trains_travels_and_what_is_frozen_does_not_drift(execution):
    model = Adapter()
    own = fl.task_of(federation([30, 20, 10]), model)
    history = fl.run(own, rounds=3, local={"lr": 0.1, "momentum": 0.9}, execution=execution)
    trainable = 4 * (20 * 2 + 2 * 5)
    assert [r["bytes_up"] for r in history.records] == [0, *[3 * trainable] * 3]
    trained = history.model(own)
    assert torch.equal(trained.base.weight, model.base.weight)
    assert torch.equal(trained.mask, model.mask)
    assert not torch.equal(trained.up.weight, model.up.weight)


def test_a_run_is_resumed_only_with_the_same_frozen_parameters(tmp_path):
    data = federation([30, 20, 10])
    fl.run(fl.task_of(data, Adapter()), rounds=2, out=tmp_path / "a")
    assert fl.resume(tmp_path / "a", task=fl.task_of(data, Adapter())).records[-1]["round"] == 2
    with pytest.raises(FedloomError, match="other data, another partition or another"):
        fl.resume(tmp_path / "a", task=fl.task_of(data, Adapter(base_seed=9)))


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_a_module_of_another_precision_trains_as_its_float32_copy(kind, execution):
    model, local = mlp().to(kind), {"lr": 0.1}
    rows = [
        fl.run(fl.task_of(federation([30, 20, 10]), one), rounds=2, local=local, execution=execution).row
        for one in (model, mlp().to(kind).float())
    ]
    assert rows[0].dtype == torch.float32
    assert torch.equal(*rows)


def test_a_shared_row_given_to_train_is_told_how_to_be_spread():
    class Careless(fl.FedAvg):
        def client_update(self, cohort, message):
            return fl.Reply({"row": cohort.train(message["row"])})

    with pytest.raises(FedloomError, match=r"cohort.spread\(row\)"):
        fl.run(fl.task_of(federation([8, 8]), mlp()), Careless(), rounds=1)


def test_rows_of_a_run_are_its_last_checkpoints(task, tmp_path):
    from safetensors.torch import load_file

    history = fl.run(task, "fedyogi", rounds=2, out=tmp_path / "a")
    saved = load_file(tmp_path / "a" / "checkpoints" / "round-000002.safetensors")
    assert torch.equal(saved["server/row"], history.row)
    assert {"optimizer/m", "optimizer/v", "round"} <= set(saved)
