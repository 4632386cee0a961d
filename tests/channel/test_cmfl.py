"""CMFL: relevance by hand, who is silent and at what cost, and that sites and the simulator agree."""

import pytest
import torch

import fedloom as fl
from fedloom.channel.cmfl import CMFL
from fedloom.core.errors import FedloomError
from fedloom.runs.folder.checkpoint import load_checkpoint


class Memory:
    """A sender that keeps what it is given."""

    def __init__(self):
        self.kept = {}

    def kept_rows(self, name, default):
        return self.kept.get(name, default)

    def keep(self, name, rows):
        self.kept[name] = rows.clone()


@pytest.fixture(scope="module")
def task():
    return fl.task("digits", clients=6, alpha=0.3)


def test_a_client_is_silent_if_too_few_signs_agree_with_the_last_global_update():
    step, memory = CMFL(threshold=0.75), Memory()
    updates = torch.tensor([[1.0, -2.0, 3.0, 0.0], [1.0, 2.0, 3.0, 0.0], [-1.0, 2.0, 3.0, 1.0]])
    first, second = torch.zeros(4), torch.tensor([0.5, -0.1, 0.2, 0.0])
    assert step.silent(updates, first, memory).tolist() == [False, False, False]  # there is no last update yet
    # the signs of the last update are + - + 0: 4 of 4, 3 of 4 and 1 of 4 entries agree
    assert step.silent(updates, second, memory).tolist() == [False, False, True]
    assert step.silent(updates, second, memory).tolist() == [False, False, False]  # the model stood still


def test_an_update_that_is_not_finite_is_not_hidden():
    step, memory = CMFL(threshold=1.0), Memory()
    rows = torch.tensor([[float("nan"), -1.0], [-1.0, -1.0]])
    step.silent(rows, torch.zeros(2), memory)
    assert step.silent(rows, torch.ones(2), memory).tolist() == [False, True]


def test_a_threshold_that_nobody_misses_changes_only_a_byte_per_client(task):
    plain = fl.run(task, "fedavg", rounds=4)
    sent = fl.run(task, "fedavg", rounds=4, channel=[CMFL(threshold=0.01)])
    for one, other in zip(plain.records, sent.records, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-6)
        assert other["bytes_up"] - one["bytes_up"] == len(one["selected"])


def test_silent_clients_cost_a_byte_and_do_not_count(task):
    history = fl.run(task, "fedavg", rounds=5, channel=[CMFL(threshold=0.62)])
    update = 4 * task.layout.width + 1
    senders = [(record["bytes_up"] - 6) // (update - 1) for record in history.records[1:]]
    assert senders[0] == 6
    assert all(record["bytes_up"] == n * update + (6 - n) for n, record in zip(senders, history.records[1:], strict=True))  # fmt: skip # noqa: E501
    assert 0 < min(senders[1:]) < 6
    assert all(record["selected"] == list(range(6)) for record in history.records[1:])


def test_a_round_in_which_nobody_is_relevant_keeps_the_model_and_is_followed_by_one_in_which_all_send(task):
    history = fl.run(task, "fedavg", rounds=4, channel=[CMFL(threshold=1.0)], server_optimizer={"kind": "adam"})
    accuracy = history.series("global_model/global_test/accuracy")[1]
    assert [record["bytes_up"] == 6 for record in history.records[1:]] == [False, True, False, True]
    assert accuracy[1] == accuracy[2] != accuracy[3] == accuracy[4]


def test_what_a_silent_client_kept_stays_as_it_was(task, tmp_path):
    """FedRep's head, and the error of a step behind: as if the client had not taken part."""
    steps = [CMFL(threshold=1.0), fl.TopK(fraction=0.1)]
    runs = [fl.run(task, "fedrep", rounds=n, channel=steps, out=tmp_path / str(n)) for n in (1, 2)]
    assert runs[1].records[2]["bytes_up"] == 6
    before, after = (load_checkpoint(tmp_path / str(n), 6).client_states.rows for n in (1, 2))
    same = [name for name in before if not name.endswith("/received")]
    assert {name.split("/")[0] for name in same} == {"channel", "head"}
    for name in same:
        assert torch.equal(before[name], after[name]), name


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrep"])
@pytest.mark.slow
def test_workers_and_a_stop_change_no_byte(task, method, tmp_path):
    steps = [CMFL(threshold=0.62), fl.TopK(fraction=0.2)]
    one = fl.run(task, method, rounds=4, channel=steps)
    two = fl.run(task, method, rounds=4, channel=steps, workers=2)
    assert one.records == two.records
    fl.run(task, method, rounds=2, channel=steps, out=tmp_path / "run")
    assert fl.resume(tmp_path / "run", rounds=4, task=task).records[3:] == one.records[3:]


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("fedavg", {"channel": [{"name": "cmfl", "threshold": 0}]}, "above 0 and at most 1"),
        ("fedavg", {"channel": [{"name": "cmfl", "threshold": 1.5}]}, "above 0 and at most 1"),
        ("fedseq", {"channel": ["cmfl"]}, "fedseq plays with groups of clients, .* cmfl lets clients withhold"),
        (
            "fedavg",
            {"channel": ["cmfl"], "aggregation": {"name": "privatemean", "noise": 1.0, "clip": 1.0}},
            "privatemean .* silent, .* cmfl",
        ),
    ],
)
def test_what_is_wrong_is_said(task, method, settings, said):
    with pytest.raises(FedloomError, match=said):
        fl.run(task, method, rounds=1, **settings)
