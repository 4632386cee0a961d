"""What the server of a run saw: the changes of its clients or their sums, and a run that is the plain run."""

import pytest
import torch

import fedloom as fl
from fedloom.audits.updates_of_run import updates_of_run
from fedloom.core.errors import FedloomError

SETTINGS = {"rounds": 2, "local": {"lr": 0.1}, "selection": {"number": 3}, "seed": 3, "weight_by": "uniform"}


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6)


def test_the_changes_of_the_clients_add_up_to_what_the_model_became(task):
    seen, history = updates_of_run(task, "fedavg", **SETTINGS)
    assert torch.equal(history.row, fl.run(task, "fedavg", **SETTINGS).row)
    assert [one.context.round for one in seen] == [1, 1, 1, 2, 2, 2]
    last = seen[3:]
    assert [one.clients[0] for one in last] == history.records[-1]["selected"]
    became = last[0].row + torch.stack([one.change for one in last]).mean(0)
    torch.testing.assert_close(became.float(), history.row, atol=1e-6, rtol=1e-5)


def test_of_a_sum_there_is_one_change_of_all_its_clients(task):
    seen, _ = updates_of_run(task, "fedavg", **SETTINGS, channel=["securesum"])
    alone, _ = updates_of_run(task, "fedavg", **SETTINGS)
    assert [one.of_sum for one in seen] == [True, True]
    assert seen[0].clients == tuple(one.clients[0] for one in alone[:3])
    torch.testing.assert_close(
        seen[0].change, torch.stack([one.change for one in alone[:3]]).mean(0), atol=1e-4, rtol=0
    )


def test_a_run_without_models_and_a_second_adversary_are_refused(task):
    with pytest.raises(FedloomError, match="leave out adversary"):
        updates_of_run(task, "fedavg", rounds=1, adversary="alie")
    with pytest.raises(FedloomError, match="reads what clients send, and local"):
        updates_of_run(task, "local", rounds=1)
