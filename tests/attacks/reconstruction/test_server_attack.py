"""A server that only looks changes nothing, sees of a sum the sum, and refuses what it cannot read in one sentence."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import fedloom as fl
from fedloom.attacks.reconstruction.linear_leak import LinearLeak
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from support.smooth_lenet import smooth_lenet
from support.synthetic import federation

WORK = {"epochs": 1, "batch_size": 0, "lr": 0.1}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6)


def leaked(history, round_number=1):
    (metrics,) = (record["metrics"] for record in history.records if record["round"] == round_number)
    return {name.removeprefix("adversary/"): value for name, value in metrics.items() if name.startswith("adversary/")}


def without(record):
    metrics = {name: value for name, value in record["metrics"].items() if not name.startswith("adversary/")}
    return {**record, "metrics": metrics}


@pytest.mark.parametrize("attack", ["linearleak", {"name": "gradientinversion", "iterations": 2}])
def test_with_an_attack_that_only_looks_a_run_is_the_plain_run_to_the_byte(task, attack):
    settings = {"rounds": 2, "local": {"lr": 0.1}, "selection": {"number": 4}, "seed": 3}
    plain, watched = (fl.run(task, "fedavg", adversary=one, **settings) for one in (None, attack))
    assert torch.equal(plain.row, watched.row)
    assert [without(record) for record in watched.records] == plain.records
    assert leaked(watched)["psnr"] > 0
    assert leaked(watched, 2) == {}, "it attacks in round 1"


def test_workers_and_another_order_of_clients_change_nothing(task):
    one, two = (
        fl.run(task, "fedavg", rounds=1, adversary={"name": "trapweights", "most": 6}, workers=workers, local=WORK)
        for workers in (1, 2)
    )
    assert one.records == two.records


def test_it_reads_the_clients_and_the_round_that_it_is_told_to(task):
    seen = []

    class Noting(LinearLeak):
        def rebuild(self, found):
            seen.append((found.clients, found.context.round, found.samples))
            return super().rebuild(found)

    fl.run(task, "fedavg", rounds=3, adversary=Noting(victims=[1, 4], at_round=2), local=WORK)
    sizes = task.federation.train.sizes
    assert seen == [((1,), 2, int(sizes[1])), ((4,), 2, int(sizes[4]))]


def test_of_a_secure_sum_it_rebuilds_what_the_sum_leaks_and_says_so(task, caplog):
    single, summed = (
        fl.run(task, "fedavg", rounds=1, adversary={"name": "linearleak", "most": 6}, local=WORK, channel=channel)
        for channel in ([], ["securesum"])
    )
    assert "linearleak sees the sum of 6 clients and no update of any of them" in caplog.text
    assert (leaked(single)["of_sum"], leaked(summed)["of_sum"]) == (0.0, 1.0)
    assert leaked(single)["sought"] == leaked(summed)["sought"] == int(task.federation.train.sizes.sum())
    assert leaked(summed)["rebuilt"] < leaked(single)["rebuilt"]


def test_a_secure_sum_does_not_protect_from_a_trap_where_few_samples_are_added():
    few = fl.task("digits", clients=100)
    selection = {"number": 3}
    found = fl.run(
        few, "fedavg", rounds=1, adversary="trapweights", local=WORK, channel=["securesum"], selection=selection
    )
    assert leaked(found)["rebuilt"] > 0.3


def test_with_default_noise_of_dp_sgd_nothing_is_read():
    few = fl.task("digits", clients=100)
    for name in ("linearleak", "trapweights"):
        attack = {"name": name, "most": 10}
        bare = fl.run(few, "fedavg", rounds=1, adversary=attack, local=WORK, eval_every=0)
        noisy = fl.run(few, "fedavg", rounds=1, adversary=attack, local=WORK, eval_every=0, sample_privacy={})
        assert leaked(bare)["best_psnr"] > 40
        assert leaked(noisy)["rebuilt"] == 0


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("fedavg", {"adversary": {"name": "linearleak", "victims": [1]}, "channel": ["securesum"]},
         "securesum lets only sums .*linearleak reads the updates of single clients: leave out victims"),
        ("fedavg", {"adversary": {"name": "linearleak", "victims": [99]}}, "there is no client 99 to read"),
        ("fedavg", {"adversary": {"name": "linearleak", "victims": []}}, "it must have at least 1 entry"),
        ("fedproto", {"adversary": "linearleak"},
         "linearleak reads models that clients trained, or their changes, and fedproto"),
        ("local", {"adversary": "trapweights"}, "trapweights reads what clients send, and local"),
        ("fedavg", {"adversary": {"name": "classfishing", "target": 10}}, "target=10: there are 10 classes"),
        ("fedavg", {"adversary": {"name": "gradientinversion", "by": "magic"}}, "by='magic'"),
        ("fedavg", {"adversary": {"name": "trapweights", "scale": 0}}, "scale=0 .*: it must be above 0"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(task, method, settings, said):
    with pytest.raises(FedloomError, match=said) as raised:
        fl.run(task, method, rounds=1, **settings)
    assert "\n" not in str(raised.value)


NO_BIAS = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 10, bias=False))


@pytest.mark.parametrize(
    ("attack", "model", "said"),
    [
        ("linearleak", "cnn-small", "begins with something else: use gradientinversion, or a model such as mlp"),
        ("classfishing", smooth_lenet(), "begins with something else"),
        ("classfishing", NO_BIAS, "which has none"),
        ("gradientinversion", NO_BIAS, "finds labels by the bias of the model's last layer, which has none"),
        ("trapweights", "logistic", "needs a linear layer after a ReLU after the first one"),
    ],
)
def test_a_model_that_cannot_be_read_is_refused(attack, model, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(fl.task("digits", clients=3, model=model), "fedavg", rounds=1, adversary=attack)


def test_samples_that_cannot_be_rebuilt_are_refused():
    made = federation([20, 20, 20], shape=(5,), classes=2)
    numbers = replace(made, columns={**made.columns, "y": made.columns["y"].float()}, classes=1)
    with pytest.raises(FedloomError, match="gradientinversion rebuilds images"):
        fl.run(fl.task_of(numbers, "mlp"), "fedavg", rounds=1, adversary="gradientinversion")
    table = fl.task_of(made, "mlp")
    with pytest.raises(
        FedloomError, match=r"gradientinversion rebuilds images, .* use a task on images, or linearleak"
    ):
        fl.run(table, "fedavg", rounds=1, adversary="gradientinversion")
    assert leaked(fl.run(table, "fedavg", rounds=1, adversary="linearleak"))["psnr"] > 0


def test_the_attacks_are_listed():
    result = CliRunner().invoke(app, ["list", "attacks", "--json"])
    names = {row["name"] for row in json.loads(result.stdout)}
    assert {"linearleak", "gradientinversion", "trapweights", "classfishing"} <= names


SERVERS = ["linearleak", "gradientinversion", "trapweights", "classfishing"]


@pytest.mark.parametrize("attack", SERVERS)
@pytest.mark.parametrize("setting", ["clients", "fraction", "groups", "start", "stop"])
def test_a_server_has_no_setting_of_hostile_clients(task, attack, setting):
    with pytest.raises(FedloomError, match=f"unknown key in attack {attack}: '{setting}'"):
        fl.run(task, "fedavg", rounds=1, adversary={"name": attack, setting: [1]})
    rows = json.loads(CliRunner().invoke(app, ["list", "attacks", "--json"]).stdout)
    (listed,) = (row["settings"] for row in rows if row["name"] == attack)
    assert setting not in listed
    assert {"victims", "most", "at_round"} <= set(listed)


def test_an_attack_after_the_last_round_is_refused(task):
    with pytest.raises(FedloomError, match="the attack starts in round 3, and the run has 2"):
        fl.run(task, "fedavg", rounds=2, adversary=LinearLeak(at_round=3))
