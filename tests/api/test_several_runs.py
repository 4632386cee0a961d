"""Runs under their labels: seeds are together, settings apart."""

from __future__ import annotations

from pathlib import Path

from fedloom.api.several_runs import folders_of, runs_by_label
from fedloom.runs.results.history import History


def run(seed: int = 0, folder: Path | None = None, **settings: object) -> History:
    return History(
        {"method": {"name": "fedavg"}, "seed": seed, "made_by": {"task": str(seed)}, **settings}, folder=folder
    )


def test_seeds_of_one_method_are_together():
    runs = [run(seed) for seed in range(3)]
    assert runs_by_label(runs) == {"fedavg": runs}


def test_settings_that_differ_are_in_the_labels():
    slow, fast, again = run(local={"lr": 0.1}), run(local={"lr": 1.0}), run(seed=1, local={"lr": 0.1})
    assert runs_by_label([slow, fast, again]) == {"fedavg local.lr=0.1": [slow, again], "fedavg local.lr=1.0": [fast]}


def test_runs_on_the_data_of_another_seed_are_together_too():
    """In a comparison on one task, the config of the first seed does not repeat the seed of its data."""
    runs = [run(0, task={"name": "digits"}), run(1, task={"name": "digits", "seed": 0})]
    assert runs_by_label({"fedavg": runs}) == {"fedavg": runs}


def test_a_mapping_keeps_its_labels():
    runs = {"mine": [run()], "yours": [run(rounds=3), run(seed=1, rounds=3)]}
    assert runs_by_label(runs) == runs


def test_folders_are_those_of_the_runs():
    assert folders_of("a") == [Path("a")]
    assert folders_of(run()) == []
    assert folders_of([run(folder=Path("b")), "c", run()]) == [Path("b"), Path("c")]
