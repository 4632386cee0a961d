"""DP-SGD: its settings, what its runs record, and when they stop."""

import math
from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.task import Task
from fedloom.engines.inline import Inline
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.privacy.sampling import sampling_rate
from fedloom.registry.kinds import METHODS
from fedloom.rounds.answers import Answers
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare
from fedloom.training.local_trainer import LocalTrainer
from fedloom.training.threads import single_thread
from support.synthetic import Branching, federation, mlp

PRIVACY = {"noise": 1.0, "clip": 1.0}
SIZES = [40, 25, 12]


@pytest.mark.parametrize(
    "settings",
    [
        {"noise": 0.0},
        {"noise": math.nan},
        {"clip": -1.0},
        {"clip": math.inf},
        {"delta": 0.0},
        {"delta": 1.0},
        {"epsilon": 0.0},
        {"epsilon": math.inf},
    ],
)
def test_settings_that_protect_nobody_are_refused(settings):
    with pytest.raises(FedloomError, match="sample_privacy"):
        SamplePrivacy(**settings)


@pytest.mark.parametrize(("samples", "batch", "rate"), [(100, 20, 0.2), (10, 20, 1.0), (10, 0, 1.0), (3, 2, 2 / 3)])
def test_the_rate_is_the_expected_share(samples, batch, rate):
    assert sampling_rate(samples, batch) == pytest.approx(rate)


# -- runs


@pytest.fixture(scope="module")
def task():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    return Task("t", federation(SIZES), mlp())


def run(task, method="fedavg", **settings):
    given = {"rounds": 2, "sample_privacy": PRIVACY, "eval_every": 0, "local": {"batch_size": 5}, **settings}
    return fl.run(task, method, **given)


def spent(history) -> list[float]:
    return [record["metrics"]["privacy/sample_epsilon"] for record in history.records if record["round"]]


def test_every_record_has_the_largest_epsilon_of_any_client(task):
    ledger, history = SampleLedger(1.0, 1e-5, batch_size=5), run(task)
    per_round = [8, 5, 3]  # batches of five
    assert spent(history) == [
        max(ledger.epsilon(size, rounds * steps) for size, steps in zip(SIZES, per_round, strict=True))
        for rounds in (1, 2)
    ]


def test_only_rounds_in_which_a_client_took_part_count(task):
    history = run(task, rounds=4, selection={"name": "random", "number": 1})
    steps = dict.fromkeys(range(3), 0)
    for record in history.records:
        for client in record["selected"]:
            steps[client] += [8, 5, 3][client]
    ledger = SampleLedger(1.0, 1e-5, batch_size=5)
    assert spent(history)[-1] == ledger.spent(SIZES, list(steps.values()))


@pytest.mark.parametrize("method", ["fedprox", "scaffold", "fedrep", "ditto", "feddyn", "fedseq", "centralised"])
def test_methods_that_only_train_run_and_all_their_trainings_count(task, method):
    history = run(task, method)
    assert history.stopped is None
    assert spent(history)[1] > spent(history)[0] > 0
    if method in ("fedrep", "ditto"):
        assert spent(history)[0] == spent(run(task, rounds=2))[1]  # two trainings in a round


@pytest.mark.parametrize("make", [mlp, Branching])
def test_a_sample_whose_gradient_is_not_finite_does_not_exclude_its_client(make):
    data = federation(SIZES)
    data.columns["x"][SIZES[0]] = 1e38  # a sample of client 1
    history = run(Task("t", data, make()), local={"batch_size": 0})  # that every step has
    assert not any("excluded" in record for record in history.records)
    assert bool(history.row.isfinite().all())


def test_clients_without_budget_stay_away_and_then_the_run_stops(task):
    ledger = SampleLedger(1.0, 1e-5, batch_size=5)
    small = {**PRIVACY, "epsilon": ledger.epsilon(12, 2 * 3)}  # two rounds of the smallest client
    with pytest.warns(fl.StoppedWarning, match="privacy budgets of 2 of 3 clients"):
        history = run(task, rounds=9, sample_privacy=small)
    assert max(spent(history)) <= small["epsilon"]
    left_out = {client["client"] for record in history.records for client in record.get("excluded", ())}
    assert left_out == {2}


def test_a_seeded_run_gives_the_same_bytes_with_workers_and_after_a_stop(tmp_path, task, caplog):
    settings = {"sample_privacy": {**PRIVACY, "seeded": True, "epsilon": 30.0}, "rounds": 3, "eval_every": 1}
    run(task, out=tmp_path / "one", **settings)
    assert "for study only" in caplog.text
    run(task, out=tmp_path / "two", workers=2, execution="loop", **settings)
    with pytest.raises(RuntimeError):
        run(task, out=tmp_path / "stopped", observers=[_stop_after_one], **settings)
    fl.resume(tmp_path / "stopped", task=task)
    one = (tmp_path / "one" / "metrics.jsonl").read_bytes()
    assert (tmp_path / "stopped" / "metrics.jsonl").read_bytes() == one
    states = [next((tmp_path / name / "checkpoints").glob("round-*")) for name in ("one", "stopped")]
    assert states[0].read_bytes() == states[1].read_bytes()


def _stop_after_one(record):
    if record["round"] == 1:
        raise RuntimeError


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epsilon": 0.1}, "the first round alone spends"),
        ({"noise": 0.0}, "noise=0.0 .*: it must be at least 1e-12"),
        ({"noise": 1e-6}, "protects nobody"),
    ],
)
def test_what_would_not_protect_samples_is_refused_before_any_training(task, monkeypatch, settings, said):
    monkeypatch.setattr(LocalTrainer, "train", lambda *_: pytest.fail("it trained"))
    with pytest.raises(FedloomError, match=said):
        run(task, sample_privacy={**PRIVACY, **settings})


class LargerBatches(fl.FedAvg):
    """FedAvg that trains with batches of its own size, of which the ledger knows nothing."""

    grants = (fl.Fact.ONLY_MEANS, fl.Fact.ONLY_TRAINING)

    def client_update(self, cohort, message):
        work = replace(cohort.setting.work, batch_size=0)
        return fl.Reply({"row": cohort.train(cohort.spread(message["row"]), work=work)})


def test_batches_of_another_size_than_the_ledger_counts_are_refused(task):
    with pytest.raises(FedloomError, match=r"batch_size=0, and the privacy of samples is counted for .* set local"):
        run(task, LargerBatches())


# -- methods that train more than once


def _promises(name):
    try:
        return holds(Fact.ONLY_TRAINING, METHODS.make(name))
    except FedloomError:  # a method that needs settings
        return False


TRAIN_ONLY = [name for name in METHODS if _promises(name) and name != "fedbn"]  # no noise per sample with BatchNorm


@pytest.mark.parametrize("name", TRAIN_ONLY)
@pytest.mark.slow
def test_no_client_makes_more_steps_in_a_round_than_its_method_states(name):
    """Noise for a target is planned for as many."""
    task = fl.task("digits", clients=6, server_set={"share": 0.1})
    method = METHODS.make({"name": name, **({"threshold": 150} if name.startswith("fedhybrid") else {})})
    run = prepare(task, method, resolve({"rounds": 1, "eval_every": 0, "local": {"epochs": 2}})).composition
    state, most = initial_state(run), []
    collect = Answers.collect

    def note(*args, **more):
        answers = collect(*args, **more)
        most.extend(zip(answers.arrived.ids, answers.arrived.steps.tolist(), strict=True))
        return answers

    with pytest.MonkeyPatch.context() as patch, single_thread():
        engine = Inline(run.runtime())
        play_prelude(run, engine, state)
        patch.setattr(Answers, "collect", staticmethod(note))
        play_round(run, engine, state)
    sizes = run.training_federation(1).train.sizes.tolist()
    assert most
    for client in {client for client, _ in most}:
        made = [steps for one, steps in most if one == client]
        assert len(made) <= run.algorithm.turns
        assert max(made) <= run.algorithm.steps_per_turn(run.setting.work, sizes[client])


@pytest.mark.parametrize("method", ["fedrep", "ditto:personal_epochs=3"])
def test_a_target_lasts_for_all_rounds_of_a_method_that_trains_twice(method):
    history = fl.run(fl.task("digits", clients=4), method, rounds=3, eval_every=0, sample_privacy={"epsilon": 8.0})
    assert history.stopped is None
    assert not any("excluded" in record for record in history.records)
    assert 7.5 < history.last("privacy/sample_epsilon") <= 8.0
