"""Class fishing: only the class that is fished for moves the body, and one sample of it is read exactly."""

import pytest
import torch

import fedloom as fl
from fedloom.attacks.reconstruction.class_fishing import fish
from fedloom.attacks.reconstruction.gradients import gradient, inputs_of
from fedloom.audits.leaks_of_run import leaks_of_run

WORK = {"epochs": 1, "batch_size": 0, "lr": 0.1}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=10)


def test_samples_of_other_classes_leave_the_body_where_it_is(task):
    row, body = fish(task, task.initial_row(), 3, 20.0), slice(0, 64 * 200 + 200)
    positions = task.federation.train.order
    labels = task.targets(positions)
    others, own = positions[labels != 3][:50], positions[labels == 3][:1]
    moved = [
        gradient(task, row, inputs_of(task, some), task.targets(some))[body].norm()
        for some in (own, others, torch.cat([own, others]))
    ]
    assert moved[1] < 1e-4 * moved[0]
    assert float(moved[2] * 51) == pytest.approx(float(moved[0]), rel=1e-3)  # one in a batch of 51


def test_the_only_sample_of_a_class_is_read_exactly_out_of_all_others():
    task = fl.task("digits", clients=100)
    labels = [task.targets(task.federation.train[client]) for client in range(100)]
    client, target = next(
        (client, digit) for client in range(100) for digit in range(10) if int((labels[client] == digit).sum()) == 1
    )
    assert len(labels[client]) > 5
    (found,) = leaks_of_run(task, "fedavg", fl.ClassFishing(victims=[client], target=target), rounds=1, local=WORK)
    assert float(found.psnr) > 60
    assert found.recognised == 1 / len(labels[client])


def test_of_a_linear_model_the_mean_of_the_class_is_read():
    task = fl.task("digits", clients=10, model="logistic")
    (found,) = leaks_of_run(task, "fedavg", fl.ClassFishing(victims=[2], target=5), rounds=1, local=WORK)
    mean = found.originals.mean(0)
    rebuilt = found.rebuilt[~found.rebuilt.flatten(1).isnan().any(1)]
    assert len(rebuilt) == 1
    torch.testing.assert_close(rebuilt[0], mean, atol=1e-3, rtol=0)


def test_more_images_of_the_class_are_read_than_without_fishing(task):
    def share(attack):
        return sum(float((one.psnr >= 20).sum()) for one in leaks_of_run(task, "fedavg", attack, rounds=1, local=WORK))

    fished = sum(share(fl.ClassFishing(target=digit, most=10)) for digit in range(10))
    assert fished > 2 * share(fl.LinearLeak(most=10))


def test_the_model_is_attacked_in_the_round_that_is_named(task):
    plain, attacked = (
        fl.run(task, "fedavg", rounds=2, local=WORK, adversary=one) for one in (None, fl.ClassFishing(at_round=2))
    )
    scores = [
        [record["metrics"]["global_model/global_test/accuracy"] for record in run.records] for run in (plain, attacked)
    ]
    assert scores[0][:2] == scores[1][:2]
    assert scores[0][2] != scores[1][2]
