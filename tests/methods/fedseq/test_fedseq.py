"""FedSeq: chains composed by hand, its limits FedAvg and the ring, what travels, and other methods inside."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.config.method_spec import label_of, method_from
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.rounds.run_state import RunState
from fedloom.runs.folder.checkpoint import load_checkpoint
from support.chains import CHAINS, SIZES, row_after_chain, six_clients
from support.checkpoints import WORK, final, same
from support.quadratic import quadratic
from support.silent_clients import missing, play_run, prepare_run
from support.synthetic import distance, federation, mlp

RING = fl.FedSeq(chains=[[3, 1, 0, 5, 2, 4]], reshuffle=False)
FIXED = fl.FedSeq(chains=CHAINS, reshuffle=False)
MODEL_BYTES = 4 * (20 * 16 + 16 + 16 * 5 + 5)
LINEAR_BYTES = 4 * (20 * 16 + 16 * 5)


def public(**changes) -> Task:
    return Task("t", replace(federation(SIZES), communal=torch.arange(40), **changes), mlp())


def chains_of(state: RunState) -> list[list[int]]:
    return fl.FedSeq().groups(state.server)


# -- limits


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
@pytest.mark.parametrize("weight_by", ["samples", "steps", "uniform"])
def test_chains_of_one_are_fedavg_to_the_byte(tmp_path, execution, weight_by):
    settings = {"execution": execution, "selection": {"fraction": 0.5}, "weight_by": weight_by, "eval_every": 1}
    settings |= {"rounds": 3, "seed": 3, "local": WORK}
    plain = fl.run(six_clients(), "fedavg", out=tmp_path / "avg", **settings)
    for name, method in {"by limit": fl.FedSeq(grouping="random", max_clients=1), "given": singles()}.items():
        history = fl.run(six_clients(), method, out=tmp_path / name, **settings)
        assert history.records == plain.records  # bytes, steps, who was selected and every score
        assert same(history.row, plain.row)


def singles() -> fl.FedSeq:
    return fl.FedSeq(chains=[[client] for client in range(len(SIZES))])


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_one_chain_of_all_is_sequential_training_to_the_byte(tmp_path, execution):
    state = final(tmp_path / "run", RING, six_clients(), rounds=2, execution=execution)
    row = six_clients().initial_row()
    for number in (1, 2):
        row = row_after_chain(row, RING.chains[0], number, execution=execution)
    assert same(state.server["row"], row)


def test_a_second_pass_goes_on_from_the_first_with_batches_of_its_own(tmp_path):
    twice = final(tmp_path / "run", replace(RING, passes=2), six_clients(), rounds=1)
    chain, start = RING.chains[0], six_clients().initial_row()
    assert same(twice.server["row"], row_after_chain(row_after_chain(start, chain), chain, turn=1))
    assert not same(twice.server["row"], row_after_chain(row_after_chain(start, chain), chain))


# -- a round


@pytest.mark.parametrize("weight_by", ["samples", "steps", "uniform"])
def test_the_server_takes_the_mean_of_the_chains_ends_weighted_as_asked(tmp_path, weight_by):
    state = final(tmp_path / "run", FIXED, six_clients(), rounds=1, weight_by=weight_by)
    ends = torch.stack([row_after_chain(six_clients().initial_row(), chain) for chain in CHAINS])
    steps = [2 * math.ceil(size / 16) for size in SIZES]
    each = {"samples": SIZES, "steps": steps}.get(weight_by)
    raw = torch.tensor([1.0 if each is None else float(sum(each[client] for client in chain)) for chain in CHAINS])
    assert distance((raw / raw.sum()) @ ends, state.server["row"]) < 1e-6


def test_chains_train_the_same_alone_and_beside_each_other(tmp_path):
    """Members of the same place are one cohort: no chain may notice the others."""
    state = final(tmp_path / "run", fl.FedSeq(chains=CHAINS), six_clients(), rounds=1, selection={"number": 1})
    (chosen,) = [chain for chain in CHAINS if set(chain) == last_selected(tmp_path / "run")]
    context = SimpleNamespace(seed=3, round=1)
    order = fl.FedSeq().order(chosen, CHAINS.index(chosen), 0, context)
    assert distance(row_after_chain(six_clients().initial_row(), order), state.server["row"]) < 1e-6


def last_selected(folder) -> set[int]:
    return set(fl.History.load(folder).records[-1]["selected"])


def test_a_fraction_counts_chains():
    history = fl.run(six_clients(), FIXED, rounds=8, local=WORK, selection={"fraction": 0.5}, eval_every=0)
    found = {frozenset(record["selected"]) for record in history.records}
    assert found <= {frozenset(a + b) for a, b in [CHAINS[:2], CHAINS[1:], CHAINS[::2]]}  # two of three chains
    assert len(found) > 1


@pytest.mark.parametrize("passes", [1, 2])
def test_models_travel_from_the_server_to_the_first_between_members_and_from_the_last_to_the_server(passes):
    history = fl.run(six_clients(), replace(FIXED, passes=passes), rounds=1, local=WORK, eval_every=0)
    record = history.records[-1]
    assert record["bytes_down"] == record["bytes_up"] == 3 * MODEL_BYTES
    assert record["bytes_between"] == (passes * 6 - 3) * MODEL_BYTES
    assert record["steps"] == passes * sum(2 * math.ceil(size / 16) for size in SIZES)


# -- the order in a chain

SITE = SimpleNamespace(seed=5, round=4)


def test_a_chain_has_a_new_order_in_every_pass_and_round():
    members = list(range(20, 32))
    orders = [fl.FedSeq().order(members, 3, turn, SimpleNamespace(seed=5, round=r)) for r in (1, 2) for turn in (0, 1)]
    assert all(sorted(order) == members for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert orders[0] == fl.FedSeq().order(members, 3, 0, SimpleNamespace(seed=5, round=1))
    assert fl.FedSeq(reshuffle=False).order(members, 3, 0, SITE) == members


@given(count=st.integers(1, 30), dropout=st.floats(0.01, 0.99), turn=st.integers(0, 3))
def test_each_pass_leaves_out_its_share_of_members_but_never_all(count, dropout, turn):
    method, members = fl.FedSeq(dropout=dropout, reshuffle=False), list(range(100, 100 + count))
    left = method.order(members, 0, turn, SITE)
    dropped = 0 if count == 1 else max(1, min(count - 1, math.ceil(dropout * count)))
    assert len(left) == count - dropped
    assert left == sorted(left)
    assert set(left) <= set(members)


def test_everybody_is_left_out_now_and_then():
    members = list(range(6))
    gone = [set(members) - set(fl.FedSeq(dropout=0.2).order(members, 0, turn, SITE)) for turn in range(60)]
    assert set().union(*gone) == set(members)
    assert all(len(some) == 2 for some in gone)


def test_a_member_that_drops_out_still_counts_in_its_chains_weight(tmp_path):
    method = fl.FedSeq(chains=CHAINS, dropout=0.3)
    state = final(tmp_path / "run", method, six_clients(), rounds=1)
    context = SimpleNamespace(seed=3, round=1)
    orders = [method.order(chain, number, 0, context) for number, chain in enumerate(CHAINS)]
    assert [len(order) for order in orders] == [2, 1, 1]
    ends = torch.stack([row_after_chain(six_clients().initial_row(), order) for order in orders])
    samples = torch.tensor([float(sum(SIZES[client] for client in chain)) for chain in CHAINS])
    assert distance(samples / samples.sum() @ ends, state.server["row"]) < 1e-6


# -- finding the chains


@pytest.mark.parametrize("grouping", ["greedy", "kmeans", "random"])
@pytest.mark.parametrize("approximator", ["clf", "conf"])
def test_chains_hold_every_client_once_within_the_limits(tmp_path, grouping, approximator):
    method = fl.FedSeq(grouping=grouping, approximator=approximator, min_samples=40, max_clients=3, pretrain_epochs=1)
    state = final(tmp_path / "run", method, public(), rounds=1)
    groups = chains_of(state)
    assert sorted(client for chain in groups for client in chain) == list(range(6))
    assert all(sum(SIZES[client] for client in chain) >= 40 or len(chain) == 3 for chain in groups)
    assert 1 < len(groups) < 6


def test_pretraining_costs_a_model_down_and_what_is_compared_up():
    def first(**settings):
        method = fl.FedSeq(max_clients=2, pretrain_epochs=3, **settings)
        return fl.run(public(), method, rounds=1, local=WORK, eval_every=0).records[0]

    steps = sum(3 * math.ceil(size / 16) for size in SIZES)
    for approximator, sent in (("conf", MODEL_BYTES), ("clf", LINEAR_BYTES)):
        record = first(approximator=approximator)
        assert (record["round"], record["selected"], record["bytes_between"]) == (0, [], 0)
        assert (record["bytes_down"], record["bytes_up"]) == (6 * MODEL_BYTES, 6 * sent)
        assert record["steps"] == steps
    assert first(grouping="random")["round"] == 1  # nothing happened before


def test_what_is_pretrained_serves_the_grouping_only(tmp_path):
    """With the same chains, a run with pre-training is the run with those chains given."""
    found = final(tmp_path / "found", fl.FedSeq(max_clients=2, pretrain_epochs=2), public())
    given = final(tmp_path / "given", fl.FedSeq(chains=chains_of(found)), public())
    assert same(found.server["row"], given.server["row"])


def test_confidences_taken_in_blocks_of_clients_group_alike(tmp_path, monkeypatch):
    method = fl.FedSeq(approximator="conf", metric="kl", max_clients=2, pretrain_epochs=5)
    sizes = [30] * 20
    task = Task("t", replace(federation(sizes), communal=torch.arange(80)), mlp())
    whole = chains_of(final(tmp_path / "whole", method, task, rounds=1))
    monkeypatch.setattr("fedloom.methods.fedseq.fedseq.PRETRAINED_NUMBERS", 1)  # blocks of eight
    assert chains_of(final(tmp_path / "blocks", method, task, rounds=1)) == whole


def test_one_class_clients_are_put_beside_other_classes(tmp_path):
    """Digits, one class per client: greedy chains see more classes than random ones."""
    task = fl.task("digits", clients=20, partition=fl.dirichlet(0), communal_per_class=5, seed=4)
    label = torch.tensor(task.federation.counts()).argmax(1)

    def classes(**settings) -> float:
        state = final(tmp_path / str(settings), fl.FedSeq(max_clients=5, **settings), task, rounds=1)
        return sum(len(label[torch.tensor(chain)].unique()) for chain in chains_of(state)) / 4

    chance = classes(grouping="random")
    assert classes() > chance
    assert classes(approximator="conf", metric="kl") > chance


def test_clients_held_out_are_in_no_chain(tmp_path):
    for number, method in enumerate((fl.FedSeq(max_clients=2, pretrain_epochs=1), fl.FedSeq(chains=CHAINS))):
        state = final(tmp_path / str(number), method, six_clients(), new_clients=2)
        named = sorted(client for chain in chains_of(state) for client in chain)
        history = fl.run(six_clients(), "fedavg", rounds=1, seed=3, new_clients=2, local=WORK, eval_every=0)
        assert named == history.records[-1]["selected"]
        assert len(named) == 4


def test_clients_held_out_of_given_chains_train_in_no_round():
    history = fl.run(six_clients(), fl.FedSeq(chains=CHAINS), rounds=3, seed=3, new_clients=2, local=WORK)
    trained = {client for record in history.records for client in record["selected"]}
    held_out = fl.run(six_clients(), "fedavg", rounds=1, seed=3, new_clients=2, local=WORK, eval_every=0)
    assert trained == set(held_out.records[-1]["selected"])


def test_a_private_mean_over_given_chains_counts_no_chain_that_may_be_held_out():
    with pytest.raises(FedloomError, match=r"^chains are private if no client .* leave out new_clients\.$"):
        fl.run(
            six_clients(),
            fl.FedSeq(chains=CHAINS),
            rounds=1,
            new_clients=2,
            eval_every=0,
            selection={"name": "poisson", "rate": 0.99},
            aggregation="privatemean",
        )


# -- other methods inside


def test_fedprox_inside_holds_members_near_the_model_received_in_the_chain(tmp_path):
    state = final(tmp_path / "run", replace(RING, inner="fedprox:mu=0.7"), six_clients(), rounds=1)
    start, chain = six_clients().initial_row(), RING.chains[0]
    here = row_after_chain(start, chain, pull=lambda rows, received: 0.7 * (rows - received))
    assert distance(here, state.server["row"]) < 1e-6
    home = row_after_chain(start, chain, pull=lambda rows, _, home: 0.7 * (rows - home), given={"home": start[None]})
    assert distance(home, state.server["row"]) > 1e-3  # not near the server's model


def test_fedprox_without_its_term_inside_is_fedavg_inside(tmp_path):
    plain = final(tmp_path / "avg", FIXED, six_clients())
    prox = final(tmp_path / "prox", replace(FIXED, inner=fl.FedProx(mu=0)), six_clients())
    assert same(plain.server["row"], prox.server["row"])


def test_a_method_inside_brings_its_server_optimiser(tmp_path):
    inside = final(tmp_path / "in", replace(FIXED, inner="fedavgm"), six_clients())
    beside = final(tmp_path / "by", FIXED, six_clients(), server_optimizer={"kind": "sgd", "lr": 1.0, "momentum": 0.9})
    assert same(inside.server["row"], beside.server["row"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [fl.FedSeq, fl.FedSeqInter])
@pytest.mark.parametrize("passes", [1, 2])
def test_with_feddyn_inside_h_is_the_mean_of_what_clients_remember_after_every_round(tmp_path, kind, passes):
    method = kind(grouping="random", max_clients=2, passes=passes, inner={"name": "feddyn", "alpha": 0.3})
    for rounds in (1, 2, 3, 4):
        state = final(tmp_path / str(rounds), method, six_clients(), rounds=rounds, selection={"number": 2})
        remembered = state.client_states.rows["g"]
        assert not remembered.any(1).all() or rounds > 1  # the first round leaves somebody out
        assert distance(remembered.mean(0), state.server["h"]) < 1e-4


@pytest.mark.slow
def test_with_feddyn_inside_chains_reach_the_optimum_where_fedavg_inside_does_not(tmp_path):
    """Four quadratics a/2 (w - c)^2: the joint loss is least at sum(ac) / sum(a)."""
    optima, curvatures = [0.0, 6.0, -2.0, 3.0], [1.0, 2.0, 0.5, 1.5]
    expected = sum(a * c for a, c in zip(curvatures, optima, strict=True)) / sum(curvatures)
    settings = {"rounds": 30, "local": {"steps": 10, "batch_size": 0, "lr": 0.3}, "checkpoint_every": 30}
    method = fl.FedSeq(chains=[[0, 1], [2, 3]], reshuffle=False)
    plain = final(tmp_path / "avg", method, quadratic(optima, curvatures), **settings)
    dynamic = replace(method, inner=fl.FedDyn(alpha=1.0))
    reached = final(tmp_path / "dyn", dynamic, quadratic(optima, curvatures), **settings)
    assert reached.server["row"].item() == pytest.approx(expected, abs=1e-4)
    assert abs(plain.server["row"].item() - expected) > 0.1


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        ("scaffold", "scaffold cannot run inside chains: a chain passes on a model, but its clients need row, c"),
        ("fedprox:adaptive=true", "fedprox cannot run inside chains: a chain passes on a model, .* need row, mu"),
        ("local", "local cannot run inside chains: a chain passes on one whole model that each member trains"),
        ("fedper", "fedper cannot run inside chains"),
        ("fedsgd", "fedsgd cannot run inside chains"),
        ("centralised", "centralised cannot run inside chains"),
        ("fedseq", "fedseq cannot run inside chains"),
        ("cfl", "cfl cannot run inside chains"),
        ("fedprx", "did you mean 'fedprox'"),
    ],
)
def test_methods_that_send_more_than_a_model_are_refused_before_any_work(inner, says):
    with pytest.raises(FedloomError, match=f"(?i){says}"):
        fl.run(six_clients(), fl.FedSeq(grouping="random", inner=inner), rounds=1, observers=[pytest.fail])


class Chatty(fl.FedAvg):
    """Sends its loss with its model, which no rule on paper forbids."""

    def client_update(self, cohort, message):
        reply = super().client_update(cohort, message)
        return fl.Reply({**reply.tensors, "extra": cohort.samples.float()})


def test_a_method_of_ones_own_that_sends_more_is_refused_when_it_does():
    with pytest.raises(FedloomError, match="chatty cannot run inside chains: its clients send back row, extra"):
        fl.run(six_clients(), fl.FedSeq(grouping="random", inner=Chatty()), rounds=1)


# -- members that do not answer


def ring(rounds: int = 1, **settings):
    return prepare_run(six_clients(), RING, rounds=rounds, local=WORK, eval_every=0, **settings)


def test_a_member_that_does_not_answer_is_skipped_and_its_chain_goes_on():
    history = play_run(ring(), missing(r1=[0]))
    chain = [client for client in RING.chains[0] if client != 0]
    assert same(history.row, row_after_chain(six_clients().initial_row(), chain))
    assert history.records[-1]["selected"] == sorted(chain)


def test_the_last_member_may_be_the_one_that_is_skipped():
    history = play_run(ring(), missing(r1=[4, 2]))
    assert same(history.row, row_after_chain(six_clients().initial_row(), RING.chains[0][:-2]))


def test_a_chain_of_which_nobody_answers_does_not_count():
    """The mean is that of the others, by the samples of their chains."""
    history = play_run(prepare_run(six_clients(), FIXED, rounds=1, local=WORK, eval_every=0), missing(r1=CHAINS[1]))
    ends = torch.stack([row_after_chain(six_clients().initial_row(), chain) for chain in (CHAINS[0], CHAINS[2])])
    samples = torch.tensor([float(sum(SIZES[client] for client in chain)) for chain in (CHAINS[0], CHAINS[2])])
    assert distance(samples / samples.sum() @ ends, history.row) < 1e-6


def test_where_nobody_answers_the_round_is_abandoned():
    with pytest.raises(
        FedloomError, match="round 1 was abandoned, the model is unchanged: no client of any chain answ"
    ):
        play_run(ring(), missing(r1=range(6)))


def test_a_member_that_is_skipped_in_one_pass_works_in_the_next():
    run = prepare_run(six_clients(), replace(RING, passes=2), rounds=1, local=WORK, eval_every=0)
    history = play_run(run, lambda job: job.ids == [0] and job.turn == 0)
    chain = RING.chains[0]
    first = row_after_chain(six_clients().initial_row(), [client for client in chain if client != 0])
    assert same(history.row, row_after_chain(first, chain, turn=1))


def test_with_feddyn_inside_h_stays_the_mean_of_what_clients_remember(tmp_path):
    method = fl.FedSeq(chains=CHAINS, inner={"name": "feddyn", "alpha": 0.3})
    run = prepare_run(six_clients(), method, local=WORK, eval_every=0)
    play_run(run, missing(r1=[1, 3], r2=[0, 5], r3=[2]), tmp_path / "run")
    state = load_checkpoint(tmp_path / "run", 6)
    assert distance(state.client_states.rows["g"].mean(0), state.server["h"]) < 1e-4


def test_clients_that_do_not_answer_before_the_first_round_are_in_no_chain(tmp_path):
    method = fl.FedSeq(max_clients=2, pretrain_epochs=1)
    run = prepare_run(public(), method, rounds=1, local=WORK, eval_every=0)
    play_run(run, missing(r0=[1, 4]), tmp_path / "run")
    state = load_checkpoint(tmp_path / "run", 6)
    assert sorted(client for chain in chains_of(state) for client in chain) == [0, 2, 3, 5]


# -- runs

EVERYTHING = "fedseqinter:max_clients=2,period=3,pretrain_epochs=2,dropout=0.4,inner.name=feddyn,inner.alpha=0.2"


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["fedseq:max_clients=2,pretrain_epochs=2,inner=fedprox", EVERYTHING])
def test_a_stopped_run_goes_on_to_the_same_bytes_with_other_workers(tmp_path, spec):
    settings = {"rounds": 5, "seed": 3, "local": WORK, "selection": {"number": 2}}

    def stop(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    whole = fl.run(six_clients(), spec, out=tmp_path / "whole", **settings)
    with pytest.raises(KeyboardInterrupt):
        fl.run(six_clients(), spec, out=tmp_path / "stopped", observers=[stop], workers=2, **settings)
    resumed = fl.resume(tmp_path / "stopped", task=six_clients(), workers=1)
    assert resumed.records == whole.records
    states = [load_checkpoint(tmp_path / folder, 6) for folder in ("whole", "stopped")]
    for name, tensor in states[0].server.items():
        assert same(tensor, states[1].server[name])


def test_a_method_given_as_an_object_is_written_into_the_config(tmp_path):
    method = fl.FedSeq(grouping="random", max_clients=3, inner=fl.FedProx(mu=0.25))
    assert method.inner == {"name": "fedprox", "mu": 0.25, "adaptive": False}
    fl.run(six_clients(), method, rounds=1, local=WORK, out=tmp_path / "run")
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["method"]
    assert written["inner"] == method.inner
    assert "min_samples" not in written
    assert fl.resume(tmp_path / "run", task=six_clients()).records[-1]["round"] == 1


def test_what_is_inside_has_a_label_that_can_be_read_again():
    label = label_of(fl.FedSeq(max_clients=3, inner=fl.FedProx(mu=0.25)))
    assert label == "fedseq:max_clients=3,inner.name=fedprox,inner.mu=0.25,inner.adaptive=False"
    assert method_from(label).method == fl.FedProx(mu=0.25)


def test_executions_agree_to_rounding(tmp_path):
    loop, together = (final(tmp_path / way, FIXED, six_clients(), execution=way) for way in ("loop", "vectorised"))
    assert distance(loop.server["row"], together.server["row"]) < 1e-5


# -- refusals


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_clients": 0}, "max_clients=0: it must be at least 1"),
        ({"passes": 0}, "passes=0: it must be at least 1"),
        ({"pretrain_epochs": 0}, "pretrain_epochs=0: it must be at least 1"),
        ({"min_samples": 0}, "min_samples=0: it must be at least 1"),
        ({"dropout": 1.0}, r"dropout=1\.0: it must be at least 0"),
        ({"metric": "kl"}, "metric=kl compares distributions, but approximator=clf gives weights"),
        ({"metric": "gini"}, "metric=gini compares distributions"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, says):
    with pytest.raises(FedloomError, match=says):
        fl.FedSeq(**settings)


def test_a_metric_that_is_not_used_is_not_refused():
    fl.FedSeq(grouping="random", metric="kl")
    fl.FedSeq(grouping="kmeans", metric="gini")


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (fl.FedSeq(min_samples=120, max_clients=3), "the 3 largest clients .max_clients=3. have 111 training samples"),
        (fl.FedSeq(min_samples=500, max_clients=9), "the 6 largest clients .max_clients=9. have 157 training samples"),
        (fl.FedSeq(approximator="conf"), r"set task\.communal_per_class"),
        (fl.FedSeq(chains=[[0, 1], [2, 3, 4]]), "clients 5 are in no chain"),
    ],
)
def test_what_the_task_cannot_give_is_refused_before_any_work(method, says):
    with pytest.raises(FedloomError, match=says):
        fl.run(six_clients(), method, rounds=1, observers=[pytest.fail])
    fl.run(
        six_clients(), fl.FedSeq(min_samples=111, max_clients=3, grouping="random"), rounds=1, local=WORK, eval_every=0
    )


def test_an_unknown_setting_on_the_command_line_is_named():
    with pytest.raises(FedloomError, match="Did you mean 'max_clients'"):
        fl.run(six_clients(), "fedseq:max_client=3", rounds=1)
