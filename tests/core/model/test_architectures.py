"""Clients with different models: who has which, and the names under which they keep their state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.kept_rows import KeptRows
from fedloom.core.model.architectures import Architectures, own_state, stored_name
from fedloom.runs.results.client_model import client_model
from support.checkpoints import checkpoint_tensors
from support.folders import stop_after, written

NARROW, WIDE = "mlp:hidden=[8]", "mlp:hidden=[16]"
WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


def three() -> Architectures:
    return Architectures(
        (nn.Linear(2, 2), nn.Linear(2, 3), nn.Linear(2, 4)), ("a", "b", "c"), torch.tensor([1, 0, 1, 2])
    )


def mixed(**more):
    return fl.task("digits", clients=5, models={NARROW: [0, 2], WIDE: [1, 3], "logistic": [4]}, seed=1, **more)


def alone(model):
    return fl.task("digits", clients=5, model=model, seed=1)


def test_clients_are_split_by_architecture_in_their_order():
    assert three().split([3, 2, 1, 0]) == {0: [1], 1: [2, 0], 2: [3]}
    assert three().split([0, 2]) == {1: [0, 2]}
    assert three().clients_of(1) == [0, 2]
    assert three().one_client_each().of_client.tolist() == [0, 1, 2]
    assert three().of(4) == 0  # an evaluator, who has no model of its own


@pytest.mark.parametrize("architecture", [0, 1, 2])
def test_state_goes_by_the_name_that_the_method_gave_and_rests_under_one_of_its_architecture(architecture):
    mine, theirs = (KeptRows.of_all(rows) for rows in (torch.zeros(1), torch.ones(1)))
    kept = {stored_name(name, architecture): mine for name in ("row", "channel/0/row")}
    everybody = kept | {stored_name("row", other): theirs for other in range(3) if other != architecture}
    own = own_state(everybody, architecture, 3)
    assert own == {"row": mine, "channel/0/row": mine}
    assert own_state({"row~1": mine}, 0, 1).keys() == {"row~1"}  # one model for all: names are as they are


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_local_training_of_mixed_clients_is_that_of_each_model_alone(tmp_path, execution):
    settings = {"rounds": 2, "seed": 3, "local": WORK, "execution": execution, "eval_every": 0}
    fl.run(mixed(), "local", out=tmp_path / "mixed", **settings)
    kept = checkpoint_tensors(tmp_path / "mixed", "kept")
    for number, (model, clients) in enumerate({NARROW: [0, 2], WIDE: [1, 3], "logistic": [4]}.items()):
        name = stored_name("row", number)
        fl.run(alone(model), "local", out=tmp_path / str(number), **settings)
        expected = checkpoint_tensors(tmp_path / str(number), "kept")["row"][clients]
        assert kept[f"{name}/ids"].tolist() == clients
        torch.testing.assert_close(kept[name], expected, rtol=0, atol=0 if execution == "loop" else 1e-6)


def test_centralised_training_trains_each_architecture_on_all_data():
    def play(task, method="centralised"):
        return fl.run(task, method, rounds=2, seed=3, local=WORK, execution="loop")

    together, first, isolated = play(mixed()), play(alone(NARROW)), play(mixed(), "local")
    scores = [{row["client"]: row["accuracy"] for row in run.clients} for run in (together, first, isolated)]
    assert [scores[0][client] for client in (0, 2)] == [scores[1][client] for client in (0, 2)]
    assert all(scores[0][client] > scores[2][client] for client in (1, 3, 4))
    assert together.total("steps") == 3 * first.total("steps")


@pytest.mark.slow
def test_the_same_bytes_with_workers_and_after_a_stop(tmp_path):
    settings = {"rounds": 3, "seed": 3, "local": WORK}
    fl.run(mixed(), "local", out=tmp_path / "one", **settings)
    fl.run(mixed(), "local", out=tmp_path / "two", workers=2, **settings)
    with pytest.raises(KeyboardInterrupt):
        fl.run(mixed(), "local", out=tmp_path / "stopped", observers=[stop_after(2)], **settings)
    fl.resume(tmp_path / "stopped")
    first = checkpoint_tensors(tmp_path / "one", "kept")
    for other in ("two", "stopped"):
        again = checkpoint_tensors(tmp_path / other, "kept")
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert written(tmp_path / "one")["metrics.jsonl"] == written(tmp_path / other)["metrics.jsonl"]


def test_the_model_of_a_client_is_of_its_own_architecture(tmp_path):
    fl.run(mixed(), "local", rounds=1, seed=3, local=WORK, out=tmp_path / "run")
    history = fl.run(mixed(), "local", rounds=1, seed=3, local=WORK)
    models = {client: history.model(mixed(), client) for client in (0, 1, 4)}
    widths = {client: sum(p.numel() for p in model.parameters()) for client, model in models.items()}
    saved = client_model(tmp_path / "run", "4")
    assert torch.equal(saved.row, saved.task.layout.row(models[4]))
    assert widths == {0: 64 * 8 + 8 + 8 * 10 + 10, 1: 64 * 16 + 16 + 16 * 10 + 10, 4: 650}


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrep", "moon"])
def test_methods_that_send_rows_are_refused(method):
    with pytest.raises(FedloomError, match=r"different models \(mlp:hidden=\[8\], .*that exchanges logits"):
        fl.run(mixed(), method, rounds=1)


def test_prototypes_need_features_of_one_width():
    with pytest.raises(FedloomError, match=r"different numbers of them \(mlp:hidden=\[8\] 8, mlp:hidden=\[8,16\] 16\)"):
        fl.run(fl.task("digits", clients=2, models={NARROW: [0], "mlp:hidden=[8,16]": [1]}), "fedproto", rounds=1)
    task = fl.task("digits", clients=4, models={"mlp:hidden=[32,16]": 0.5, "mlp:hidden=[16]": 0.5})
    history = fl.run(task, "fedproto", rounds=2, seed=1)
    assert history.total("bytes_up") > 0


def test_what_is_made_for_one_model_is_refused():
    with pytest.raises(FedloomError, match=r"different models .*, and downlink is made for one model"):
        fl.run(mixed(), "heterofl", rounds=1, downlink={"precision": "float16"})
    with pytest.raises(FedloomError, match=r"downlink codes the model .*, and local sends no model down"):
        fl.run(mixed(), "local", rounds=1, downlink={"precision": "float16"})
