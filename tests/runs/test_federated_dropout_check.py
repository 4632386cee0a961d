"""Runs whose clients train sub-models: bytes, bytes again after stops, and what is refused."""

import pytest

import fedloom as fl
from fedloom.core.errors import FedloomError

LOSS = "global_model/global_test/loss"


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=1.0, model="mlp", model_options={"hidden": [20, 10]})


def test_the_whole_model_as_a_sub_model_changes_nothing_but_a_seed(task):
    plain, whole = (fl.run(task, "fedavg", rounds=2, federated_dropout=how) for how in (None, {"keep": 1.0}))
    assert whole.last(LOSS) == pytest.approx(plain.last(LOSS), rel=1e-5)
    assert whole.total("bytes_down") == plain.total("bytes_down")
    assert whole.total("bytes_up") == plain.total("bytes_up") + 2 * 6 * 8


def test_only_the_weights_of_sub_models_go_down_and_up(task):
    history = fl.run(task, "fedprox", rounds=2, federated_dropout={"keep": 0.5}, downlink={"precision": "float16"})
    weights = 64 * 10 + 10 + 10 * 5 + 5 + 5 * 10 + 10
    assert history.total("bytes_down") == 2 * 6 * 2 * weights
    assert history.total("bytes_up") == 2 * 6 * (4 * weights + 8)


def test_it_learns():
    task = fl.task("digits", clients=6, alpha=1.0, model="mlp", model_options={"hidden": [100]})
    history = fl.run(task, "fedavg", rounds=12, federated_dropout={"keep": 0.75}, eval_every=12)
    assert history.last("global_model/global_test/accuracy") > 0.75


def test_workers_executions_and_a_stop(task, tmp_path):
    how = {"federated_dropout": {"keep": 0.5}, "selection": {"number": 4}}
    one, two = (fl.run(task, "fedavg", rounds=4, workers=workers, **how) for workers in (1, 2))
    assert one.records == two.records
    loop = fl.run(task, "fedavg", rounds=4, execution="loop", **how)
    assert loop.last(LOSS) == pytest.approx(one.last(LOSS), rel=1e-3)
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "run", **how)
    assert fl.resume(tmp_path / "run", rounds=4, task=task).records[3:] == one.records[3:]


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("scaffold", {}, "keep, get or send something else"),
        ("fedrep", {}, "keep, get or send something else"),
        ("feddyn", {}, "keep, get or send something else"),
        ("fedseq", {}, "federated_dropout"),
        ("local", {}, "federated_dropout"),
        ("fedavg", {"channel": ["topk"]}, "topk keeps what it did not send"),
        ("fedavg", {"channel": [{"name": "localnoise", "seeded": True}]}, "localnoise adds noise to whole updates"),
        ("fedavg", {"channel": ["securesum"]}, "securesum adds rows of one model"),
        ("fedavg", {"channel": ["cmfl"]}, "cmfl compares an update"),
        ("fedavg", {"sample_privacy": {"noise": 1.0, "seeded": True}}, "sample_privacy adds noise"),
        ("fedavg+lastlocalmodel", {}, "lastlocalmodel keeps the model"),
    ],
)
def test_what_cannot_bear_it_is_refused(task, method, settings, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, method, rounds=1, federated_dropout={"keep": 0.5}, **settings)
