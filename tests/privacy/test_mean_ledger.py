"""Runs with a private mean: what they record, when they stop, and settings that protect nobody."""

import math
from dataclasses import replace

import pytest

import fedloom as fl
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.sampling import EveryClient, FixedSize, PoissonChains, PoissonDraw
from fedloom.rounds.answers import Answers

pytest.importorskip("dp_accounting", reason="needs dp-accounting")

POISSON = {"name": "poisson", "rate": 0.5}
PRIVATE = {"name": "privatemean", "noise": 1.0, "clip": 0.5}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=40)


def run(task, method="fedavg", **settings):
    given = {"rounds": 2, "selection": POISSON, "aggregation": PRIVATE, "eval_every": 0, **settings}
    return fl.run(task, method, **given)


def spent(history) -> list[float]:
    return [record["metrics"]["privacy/epsilon"] for record in history.records if record["round"]]


@pytest.mark.parametrize(
    ("selection", "sampling"),
    [
        (POISSON, PoissonDraw(0.5, 40)),
        ("random", EveryClient(40)),
        ({"name": "random", "number": 10}, FixedSize(10, 40)),
    ],
)
@pytest.mark.slow
def test_every_record_has_the_epsilon_of_the_runs_own_sampling(task, selection, sampling):
    history = run(task, selection=selection)
    assert spent(history) == [epsilon_after(sampling, 1.0, number, 1e-5) for number in (1, 2)]


def test_who_is_drawn_is_neither_in_the_seed_nor_in_a_record_nor_in_a_byte_count(task, monkeypatch):
    """Two runs of one seed draw other clients, and what they write down of a round is the same for any draw."""
    drawn, waves = [], Answers.keep

    def keep(answers):
        drawn.append(tuple(answers.wave.ids))
        waves(answers)

    monkeypatch.setattr(Answers, "keep", keep)
    first, second = (run(task, rounds=3) for _ in range(2))
    assert len(set(drawn)) > 3  # 40 clients at rate 0.5: the same draw six times has a probability of 2^-40 each
    assert [without_noise(r) for r in first.records] == [without_noise(r) for r in second.records]
    assert all(record["selected"] == [] for record in first.records)
    assert [record["drawn_on_average"] for record in first.records if record["round"]] == [20.0] * 3


def without_noise(record):
    return {key: value for key, value in record.items() if key != "metrics"}


def test_a_seeded_run_counts_no_draw_and_says_who_was_drawn(task):
    history = run(task, aggregation={**PRIVATE, "seeded": True})
    assert spent(history) == [epsilon_after(EveryClient(), 1.0, number, 1e-5) for number in (1, 2)]
    assert all(record["selected"] for record in history.records if record["round"])


def test_the_example_of_the_docs_spends_without_amplification_what_known_draws_cost():
    """Noise 1.35, rate 0.05: 1.99 after 100 rounds if nobody knows who was drawn; fourteen known draws cost 15.1."""
    assert epsilon_after(PoissonDraw(0.05, 1000), 1.35, 100, 1e-5) == pytest.approx(1.99, abs=0.01)
    known = PoissonDraw(0.05, 1000, known=True)
    assert epsilon_after(known, 1.35, 14, 1e-5) == pytest.approx(15.1, abs=0.1)
    assert "draws are known" in str(known)


@pytest.mark.parametrize("sampling", [PoissonDraw(0.5, 40), FixedSize(10, 40), PoissonChains(0.5, 20)])
def test_known_draws_never_cost_less_than_secret_ones(sampling):
    known = replace(sampling, known=True)
    assert epsilon_after(known, 2.0, 3, 1e-5) > epsilon_after(sampling, 2.0, 3, 1e-5)
    assert (known.expected, known.share) == (sampling.expected, sampling.share)


class Explodes(fl.FedAvg):
    """FedAvg, one client of which replies with huge numbers, and one with none."""

    grants = (fl.Fact.ONLY_MEANS,)

    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        for place, client in enumerate(cohort.ids):
            reply.tensors["row"][place] *= {0: 1e20, 1: math.nan}.get(client, 1.0)
        return reply


@pytest.mark.parametrize("channel", [[], ["topk"], ["qsgd"]])
def test_no_reply_decides_about_another_ones_and_nobody_is_named(task, channel):
    """A screen compares clients: under a private mean one of them would decide whether another one counts."""
    everyone = {"selection": "random", "aggregation": {**PRIVATE, "noise": 0.01, "seeded": True}}
    history = run(task, Explodes(), rounds=1, channel=channel, **everyone)
    assert history.stopped is None
    assert not any("excluded" in record or "remarks" in record for record in history.records)
    assert bool(history.row.isfinite().all())
    assert float((history.row - task.initial_row()).norm()) < 0.5  # the mean of changes that are clipped to 0.5 each


def test_a_round_that_is_played_again_is_counted_again(task, tmp_path):
    """Its record was written, and its checkpoint was lost: what it told has been told."""
    run(task, rounds=3, out=tmp_path / "run", checkpoint_every=3)
    for path in (tmp_path / "run" / "checkpoints").glob("*000003*"):
        path.unlink()
    (tmp_path / "run" / "clients.json").unlink()
    history = fl.resume(tmp_path / "run", task=task)
    assert spent(history) == [epsilon_after(PoissonDraw(0.5, 40), 1.0, number, 1e-5) for number in (1, 2, 4)]


def test_given_chains_are_drawn_and_accounted_for_as_chains(task):
    chains = [[2 * k, 2 * k + 1] for k in range(20)]
    history = run(task, fl.FedSeq(chains=chains), selection={"name": "poisson", "rate": 0.8})
    assert spent(history)[0] == epsilon_after(PoissonChains(0.8, 20), 1.0, 1, 1e-5)


@pytest.mark.parametrize("method", ["fedprox:mu=0.1", "fedrep", "ditto", "fedavgm", "fedsgd", "pfedme", "moon"])
def test_methods_that_only_average_run(task, method):
    assert run(task, method, rounds=1).stopped is None


def test_a_budget_stops_the_run_before_it_is_exceeded(task):
    with pytest.warns(fl.StoppedWarning, match="would spend epsilon"):
        history = run(task, rounds=6, aggregation={**PRIVATE, "epsilon": 6.0})
    last = spent(history)[-1]
    assert last <= 6.0 < epsilon_after(PoissonDraw(0.5, 40), 1.0, history.records[-1]["round"] + 1, 1e-5)


def test_a_seeded_run_repeats_and_says_that_it_is_for_study(task, caplog):
    settings = {"aggregation": {**PRIVATE, "seeded": True}, "eval_every": 1}
    first, second = run(task, **settings), run(task, **settings)
    assert first.records == second.records
    assert "for study only" in caplog.text


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        (
            fl.FedSeq(chains=[[2 * k, 2 * k + 1] for k in range(20)]),
            {"selection": "random"},
            "chains are private if selection poisson draws",
        ),
        ("fedavg", {"selection": {"name": "poisson", "rate": 0.05}}, r"raise selection\.rate"),
        ("fedavg", {"aggregation": {**PRIVATE, "epsilon": 0.1}}, "the first round alone spends"),
        ("fedavg", {"aggregation": {**PRIVATE, "noise": 0.0}}, "noise=0.0 .*: it must be at least 1e-12"),
        ("fedavg", {"aggregation": {**PRIVATE, "noise": 1e-6}}, "protects nobody"),
        ("fedavg", {"aggregation": {**PRIVATE, "quantile": 0.5, "noise": 4.0}}, "draw more clients"),
    ],
)
def test_what_would_protect_nobody_is_refused(task, method, settings, said):
    with pytest.raises(fl.FedloomError, match=said):
        run(task, method, **settings)


# -- what attackers found


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("local", {"channel": [{"name": "localnoise", "noise": 4.0, "clip": 0.5}]}),
        ("sum", {"channel": [{"name": "privatesum", "noise": 4.0, "clip": 0.5}]}),
        ("sample", {"sample_privacy": {"noise": 2.0}}),
    ],
)
def test_a_round_that_is_played_again_is_counted_again_for_noise_of_clients(task, tmp_path, name, settings):
    folder, key = tmp_path / "run", f"privacy/{name}_epsilon"
    first = fl.run(task, rounds=2, out=folder, eval_every=0, **settings)
    for path in (folder / "checkpoints").glob("*000002*"):
        path.unlink()
    (folder / "clients.json").unlink()
    history = fl.resume(folder, task=task)
    assert history.records[-1]["metrics"][key] > first.records[-1]["metrics"][key]


class TwoTurns(fl.FedAvg):
    """FedAvg that takes a second mean in every round."""

    turns = 2
    grants = (fl.Fact.ONLY_MEANS, fl.Fact.ONLY_TRAINING)

    def play(self, server, ids, context):
        for turn in range(2):
            replies = yield fl.Wave(ids, self.broadcast(server, ids), turn=turn)
            server = self.aggregate(server, replies)
        return server


def test_every_mean_of_a_round_is_counted(task):
    assert spent(run(task, TwoTurns(), rounds=1)) == [epsilon_after(PoissonDraw(0.5, 40), 1.0, 1, 1e-5, mechanisms=2)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stream": {"tasks": 2, "rounds": 1}}, "privatemean counts draws of the same clients"),
        ({}, "early_stopping decides by scores on clients' samples"),
    ],
)
def test_what_changes_who_is_drawn_or_forgets_rounds_is_refused(changes, said):
    settings = {} if changes else {"early_stopping": {"patience": 1}, "eval_every": 1}
    with pytest.raises(fl.FedloomError, match=said):
        run(fl.task("digits", clients=40, valid_share=0.2, **changes), **settings)
