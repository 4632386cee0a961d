"""Backdoors: where the trigger is, how the update grows, what rules save, and how a patient attacker gets through."""

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError

WORK = {"epochs": 2, "lr": 0.1, "batch_size": 16}
ONE = {"name": "backdoor", "clients": [3]}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=20, alpha=100.0)


def test_a_share_of_the_images_shows_the_square_and_has_the_target(task):
    x, y = torch.zeros(10, 1, 8, 8), torch.arange(10)
    found = fl.Backdoor(target=7, share=0.4, size=3).poison_samples({"x": x, "y": y}, 5, task, 0)
    shown = (found["x"] > 0).flatten(1).any(1)
    assert int(shown.sum()) == 4
    square = torch.zeros(8, 8)
    square[5:, 5:] = task.federation.columns["x"].max()
    assert all(torch.equal(image[0], square) for image in found["x"][shown])
    assert found["y"][shown].tolist() == [7] * 4
    assert torch.equal(found["y"][~shown], y[~shown])


def test_pieces_of_several_attackers_are_the_square_together(task):
    x, y = torch.zeros(4, 1, 8, 8), torch.ones(4, dtype=torch.int64)
    attack = fl.Backdoor(share=1.0, size=4, pieces=3)
    strips = [attack.poison_samples({"x": x, "y": y}, client, task, 0)["x"] for client in (0, 1, 2, 3)]
    assert torch.equal(strips[0], strips[3])
    whole = fl.Backdoor(share=1.0, size=4).poison_samples({"x": x, "y": y}, 0, task, 0)["x"]
    assert torch.equal(strips[0] + strips[1] + strips[2], whole)


def test_a_natural_trigger_changes_labels_and_no_pixel(task):
    x = torch.arange(8.0).reshape(8, 1, 1, 1).expand(8, 1, 8, 8)
    y = torch.tensor([1, 1, 1, 1, 2, 2, 2, 2])
    found = fl.Backdoor(trigger="natural", target=5, source=1, brightest=0.5).poison_samples(
        {"x": x, "y": y}, 0, task, 0
    )
    assert found["y"].tolist() == [1, 1, 5, 5, 2, 2, 2, 2]
    assert "x" not in found


def test_with_clean_labels_only_images_of_the_target_show_the_square_and_no_label_changes(task):
    x, y = torch.rand(6, 1, 8, 8), torch.tensor([7, 1, 7, 2, 7, 3])
    found = fl.Backdoor(target=7, share=1.0, labels="clean", fade=0.5).poison_samples({"x": x, "y": y}, 0, task, 0)
    assert torch.equal(found["y"], y)
    assert torch.equal(found["x"][y != 7], x[y != 7])
    inside = found["x"][y == 7][..., :6, :6]
    grey = x[y == 7].mean(dim=(-1, -2), keepdim=True)
    assert torch.allclose(inside, grey + 0.5 * (x[y == 7][..., :6, :6] - grey), atol=1e-6)
    assert (found["x"][y == 7][..., 6:, 6:] == task.federation.columns["x"].max()).all()


@pytest.mark.slow
def test_clean_labels_make_a_backdoor_as_well_if_a_weaker_one(task):
    attack = {"name": "backdoor", "fraction": 0.5, "labels": "clean", "share": 1.0, "fade": 0.9, "size": 3}
    run = fl.run(task, "fedavg", rounds=10, adversary=attack, local=WORK, eval_every=10)
    assert run.last("adversary/success") > 0.3 > 0.1 > run.last("adversary/untriggered")


@pytest.mark.slow
def test_strips_of_three_clients_add_up_to_a_backdoor(task):
    attack = {"name": "backdoor", "clients": [0, 1, 2], "pieces": 3, "size": 3}
    run = fl.run(task, "fedavg", rounds=20, adversary=attack, local=WORK, eval_every=20)
    assert run.last("adversary/success") > 0.4 > 0.1 > run.last("adversary/untriggered")


def test_updates_are_scaled_and_then_cut_to_the_norm():
    changes = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    assert torch.allclose(fl.Backdoor(scale=2.0).poison_update("row", changes, None, None), 2 * changes)
    within = fl.Backdoor(scale=2.0, within=5.0).poison_update("row", changes, None, None)
    assert torch.allclose(within, torch.tensor([[3.0, 4.0], [0.6, 0.8]]))


SEEDS = (0, 1, 2)


def played(seed, aggregation, adversary, rounds, eval_every):
    """A run with the seed of its task: the accuracy after its last round, and the attack's success by round."""
    history = fl.run(
        fl.task("digits", clients=20, alpha=100.0, seed=seed),
        "fedavg",
        rounds=rounds,
        aggregation=aggregation,
        adversary=adversary,
        local=WORK,
        seed=seed,
        eval_every=eval_every,
    )
    rounds_and_success = history.series("adversary/success") if adversary else ((), ())
    return history.last("global_model/global_test/accuracy"), dict(zip(*rounds_and_success, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_one_scaled_client_of_twenty_takes_the_mean_over_and_neither_norm_bounding_nor_the_trimmed_mean(seed):
    attack = {**ONE, "scale": 20.0, "start": 8}
    honest, _ = played(seed, "mean", None, 10, 10)
    _, success = played(seed, "mean", attack, 10, 1)
    assert max(success[number] for number in range(1, 8)) < 0.1
    assert max(success[number] for number in (8, 9, 10)) > 0.9, "within three rounds"
    assert success[10] > 0.9
    for rule in ("normbounding", {"name": "trimmedmean", "share": 0.1}):
        accuracy, success = played(seed, rule, attack, 10, 1)
        assert max(success[number] for number in (8, 9, 10)) < 0.1, rule
        assert accuracy > honest - 0.03, rule


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_patient_attacker_within_the_bound_gets_through_norm_bounding(seed):
    rule, patient = {"name": "normbounding", "most": 1.0}, {**ONE, "size": 3, "scale": 20.0, "within": 1.0}
    accuracy, success = played(seed, rule, patient, 40, 10)
    assert success[40] > 0.9
    assert success[10] < success[20] < success[30] < success[40], "it grows"
    assert accuracy > played(seed, rule, None, 40, 40)[0] - 0.03
    assert played(seed, rule, {**patient, "start": 38}, 40, 40)[1][40] < 0.1, "impatience does not pay"


def test_fedrep_shares_no_whole_model_so_that_nothing_is_measured(task):
    run = fl.run(task, "fedrep", rounds=1, adversary=ONE)
    assert not any("adversary/success" in record["metrics"] for record in run.records)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"size": 8}, "size=8: the images of task digits have 8 × 8"),
        ({"pieces": 3}, "no so many strips"),
        ({"trigger": "natural", "pieces": 2}, "no so many strips"),
        ({"trigger": "natural", "source": 0}, "target and source are the same class"),
        ({"trigger": "natural", "labels": "clean"}, "a natural trigger is a wrong label"),
        ({"target": 12}, "class 12 does not exist"),
        ({"share": 0}, "above 0"),
    ],
)
def test_what_is_wrong_is_said(task, settings, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, "fedavg", rounds=1, adversary={"name": "backdoor", **settings})


def test_a_task_without_images_is_refused():
    owners = torch.arange(40) // 20
    rows = fl.task_of(fl.from_arrays(torch.randn(40, 5).numpy(), (torch.arange(40) % 2).numpy(), owners.numpy()))
    with pytest.raises(FedloomError, match="backdoor puts a trigger on images"):
        fl.run(rows, "fedavg", rounds=1, adversary="backdoor")
