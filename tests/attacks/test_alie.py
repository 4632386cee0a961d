"""ALIE: how far hostile clients go by the paper's formula, what they send, and that no cohort or worker changes it."""

import math

import pytest
import torch
from scipy.stats import norm

import fedloom as fl
from fedloom.attacks.alie import largest_z
from fedloom.core.errors import FedloomError


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10, alpha=1.0)


def test_z_by_hand():
    # 50 clients, 24 of them hostile: 26 - 24 = 2 honest ones must be farther away, of 26: Phi(z) < 24 / 26
    assert largest_z(50, 24) == pytest.approx(1.4261, abs=1e-4)
    # 25 and 6: 13 - 6 = 7 of 19
    assert largest_z(25, 6) == pytest.approx(norm.ppf(12 / 19))
    # 20 and 2: 11 - 2 = 9 of 18, the median itself
    assert largest_z(20, 2) == 0.0


def test_z_is_never_negative_and_finite_for_any_number_of_hostile_clients():
    for clients in range(1, 41):
        found = [largest_z(clients, hostile) for hostile in range(1, clients + 1)]
        assert all(0 <= z < math.inf for z in found)


@pytest.mark.slow
def test_all_send_the_mean_less_z_deviations_of_their_own_updates():
    changes = torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 6.0]])
    sent = fl.ALIE(z=1.5).collude("row", changes, 10)
    # means 3 and 2, standard deviations sqrt(8 / 3) and sqrt(8)
    by_hand = torch.tensor([3 - 1.5 * math.sqrt(8 / 3), 2 - 1.5 * math.sqrt(8)])
    torch.testing.assert_close(sent, by_hand.expand(3, 2))
    found = fl.ALIE().collude("row", changes, 9)  # 5 - 3 = 2 honest of 6 farther away: Phi(z) < 4 / 6
    torch.testing.assert_close(found[0], torch.tensor([3.0, 2.0]) - 0.4307 * torch.tensor([8 / 3, 8.0]).sqrt(), atol=1e-3, rtol=0)  # fmt: skip # noqa: E501


@pytest.mark.parametrize("attack", [{"clients": [3]}, {"clients": [3, 3]}, {"fraction": 0.1}])
def test_one_hostile_client_has_no_deviation_and_is_refused(task, attack):
    with pytest.raises(FedloomError, match=r"alie needs at least 2 hostile clients, .* never more than 1: name others"):
        fl.run(task, "fedavg", rounds=1, adversary={"name": "alie", **attack})


@pytest.fixture(scope="module")
def two_widths():
    return fl.task("digits", clients=4, models={"mlp:hidden=[16]": [0, 1], "mlp:hidden=[8]": [2, 3]})


@pytest.mark.parametrize("method", ["heterofl", "fjord"])
def test_hostile_clients_with_different_models_cannot_agree_and_are_refused(two_widths, method):
    with pytest.raises(FedloomError, match=r"at least 2 hostile clients with the same model .* never more than 1"):
        fl.run(two_widths, method, rounds=1, adversary=fl.ALIE(clients=[0, 3], z=1.0))


def test_two_hostile_clients_with_the_same_model_agree(two_widths):
    honest = fl.run(two_widths, "heterofl", rounds=1)
    attacked = fl.run(two_widths, "heterofl", rounds=1, adversary=fl.ALIE(clients=[2, 3], z=2.0))
    loss = "global_model/global_test/loss"
    assert abs(attacked.last(loss) - honest.last(loss)) > 1e-4


def test_a_round_with_one_hostile_client_is_told_once_in_each_run(task, caplog):
    alone = {"name": "alie", "clients": [3, 4]}
    selection = {"name": "random", "fraction": 0.2}
    for _ in range(2):
        caplog.clear()
        fl.run(task, "fedavg", rounds=12, adversary=alone, selection=selection, eval_every=12)
        assert caplog.text.count("alie needs at least 2 hostile clients with the same model in a round") == 1
    caplog.clear()
    fl.run(task, "fedavg", rounds=1, adversary=alone)
    assert "hostile" not in caplog.text


@pytest.mark.slow
def test_hostile_clients_agree_across_cohorts_and_workers(task):
    attack = fl.ALIE(clients=[0, 4, 9], z=1.0)
    together = fl.run(task, "fedavg", rounds=2, adversary=attack, execution="vectorised")
    divided = fl.run(task, "fedavg", rounds=2, adversary=attack, execution="vectorised", workers=2)
    one_by_one = fl.run(task, "fedavg", rounds=2, adversary=attack, execution="loop")
    assert divided.records == together.records
    loss = "global_model/global_test/loss"
    assert one_by_one.last(loss) == pytest.approx(together.last(loss), rel=1e-4)


def test_the_server_gets_one_update_of_all_hostile_clients_and_honest_bytes_of_others(task):
    class Look(fl.Adversary):
        def look_at_replies(self, wave, replies):
            seen.append(replies["row"])
            return {}

    class LookAtALIE(Look, fl.ALIE):
        pass

    seen: list[torch.Tensor] = []
    fl.run(task, "fedavg", rounds=1, adversary=Look(clients=[2, 5, 7]))
    fl.run(task, "fedavg", rounds=1, adversary=LookAtALIE(clients=[2, 5, 7], z=1.0))
    honest, attacked = seen
    hostile = torch.tensor([2, 5, 7])
    others = torch.tensor([0, 1, 3, 4, 6, 8, 9])
    assert torch.equal(honest[others], attacked[others])
    assert torch.equal(attacked[2], attacked[5])
    assert torch.equal(attacked[2], attacked[7])
    mean, std = honest[hostile].mean(0), honest[hostile].std(0, correction=0)
    torch.testing.assert_close(attacked[2], mean - std, atol=1e-5, rtol=0)


def test_it_costs_the_median_more_than_the_mean(task):
    attack = {"name": "alie", "fraction": 0.4, "z": 1.5}
    lost = {}
    for rule in ("mean", "median"):
        runs = [fl.run(task, "fedavg", rounds=6, aggregation=rule, adversary=a, eval_every=6) for a in (None, attack)]
        honest, attacked = (run.last("global_model/global_test/accuracy") for run in runs)
        lost[rule] = honest - attacked
    assert lost["median"] > lost["mean"] + 0.05


@pytest.mark.parametrize(
    ("method", "attack", "said"),
    [
        ("fedavg", {"name": "alie", "z": 0}, "z=0 in attack alie: it must be above 0"),
        ("fedavg", {"name": "alie", "z": math.inf}, "finite"),
        ("fedproto", {"name": "alie"}, "alie changes the updates that clients send, and fedproto sends no update"),
    ],
)
def test_what_is_wrong_is_said(task, method, attack, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, method, rounds=1, adversary=attack)


def test_a_wrong_agreement_is_refused(task):
    class OneRow(fl.Adversary):
        def collude(self, name, changes, clients):
            return changes[0]

    with pytest.raises(FedloomError, match=r"collude makes .* return a row for each"):
        fl.run(task, "fedavg", rounds=1, adversary=OneRow(clients=[2, 5]))
