"""Every selector inside real runs: the same bytes whatever the workers and stops, and the costs of asking."""

import json

import pytest
import torch
from safetensors.torch import load_file

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice
from fedloom.runs import runner
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}
SELECTIONS = {
    "random": {"name": "random", "number": 2},
    "poc": {"name": "poc", "number": 2, "candidates": 4},
    "rpoc": {"name": "poc", "number": 2, "candidates": 4, "estimate": "last", "by_size": True},
    "rawcs": {"name": "rawcs", "level": "medium"},
    "oort": {"name": "oort", "number": 2, "epsilon": 0.5},
}

each_selection = pytest.mark.parametrize("selection", SELECTIONS)


def six_clients():
    return fl.task_of(federation([20, 9, 14, 30, 17, 11]), mlp(hidden=4))


def run(folder, selection, **settings):
    settings = {"rounds": 5, "seed": 3, "local": WORK, "selection": SELECTIONS[selection], **settings}
    fl.run(six_clients(), out=folder, **settings)
    return result_files(folder)


def result_files(folder):
    files = [*folder.glob("checkpoints/*.safetensors"), folder / "metrics.jsonl", folder / "clients.json"]
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.slow
@each_selection
def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path, monkeypatch, selection):
    whole = run(tmp_path / "whole", selection)
    usual, rounds = runner.play_round, []

    def stops(*args):
        rounds.append(1)
        if len(rounds) == 4:
            raise KeyboardInterrupt
        return usual(*args)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "play_round", stops)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", selection)
    fl.resume(tmp_path / "stopped", task=six_clients())
    assert result_files(tmp_path / "stopped") == whole


@pytest.mark.slow
@each_selection
def test_workers_change_nothing(tmp_path, selection):
    one, two = (run(tmp_path / str(workers), selection, workers=workers, rounds=3) for workers in (1, 2))
    assert one == two


@each_selection
def test_loop_and_vectorised_runs_select_the_same_clients(tmp_path, selection):
    chosen = []
    for execution in ("loop", "vectorised"):
        lines = run(tmp_path / execution, selection, execution=execution, rounds=3)["metrics.jsonl"].splitlines()
        chosen.append([(json.loads(line)["selected"], json.loads(line).get("lost")) for line in lines])
    assert chosen[0] == chosen[1]


def test_what_a_selector_remembers_is_in_the_checkpoint(tmp_path):
    run(tmp_path / "run", "rawcs", rounds=2)
    saved = load_file(tmp_path / "run" / "checkpoints" / "round-000002.safetensors")
    assert saved["selection/battery"].dtype == torch.float64
    assert len(saved["selection/battery"]) == 6


def test_who_is_lost_is_recorded_and_was_sent_a_model():
    def lose_two(_):
        return Choice([0, 2], lost=[1, 5])

    task = six_clients()
    record = fl.run(task, rounds=1, selection=lose_two).records[-1]
    assert (record["selected"], record["lost"]) == ([0, 2], [1, 5])
    row = task.layout.width * 4
    assert (record["bytes_down"], record["bytes_up"]) == (4 * row, 2 * row)
    accuracy = record["metrics"]["client_model/own_test/accuracy/mean"]
    assert record["metrics"]["client_model/own_test/accuracy/per_selected"] == accuracy / 4


PAIRS = [[0, 1], [2, 3], [4, 5]]


class Pairs(fl.FedAvg):
    """A method that selects pairs of clients."""

    def groups(self, server):
        return PAIRS

    def play(self, server, ids, context):
        return (yield from super().play(server, [client for pair in ids for client in PAIRS[pair]], context))


def test_a_group_is_chosen_by_the_mean_loss_over_its_samples():
    record = fl.run(six_clients(), Pairs(), rounds=1, selection={"name": "poc", "number": 1}).records[-1]
    untrained = fl.run(six_clients(), rounds=1, local={"lr": 1e-30}).clients
    means = [
        sum(untrained[client]["loss"] * untrained[client]["train"] for client in pair)
        / sum(untrained[client]["train"] for client in pair)
        for pair in PAIRS
    ]
    assert record["selected"] == PAIRS[means.index(max(means))]


@pytest.mark.parametrize("name", ["random", "poc", "oort"])
def test_groups_are_selected_by_number(name):
    history = fl.run(six_clients(), Pairs(), rounds=4, selection={"name": name, "number": 2}, eval_every=0)
    for record in history.records:
        assert sum(set(pair) <= set(record["selected"]) for pair in PAIRS) == 2
        assert len(record["selected"]) == 4


def test_rawcs_refuses_a_method_that_selects_groups():
    with pytest.raises(
        FedloomError, match=r"selection rawcs selects single devices, .* pairs selects groups of clients"
    ):
        fl.run(six_clients(), Pairs(), rounds=1, selection="rawcs")
