"""State of every method: a run that is stopped and resumed leaves the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedloom as fl
from fedloom.core.facts import Fact, holds
from fedloom.registry.kinds import METHODS, SELECTORS
from support.compositions import SELECTION, spec_of, task_for

COMPARED = ("metrics.jsonl", "clients.json")


def run(folder: Path, method: str, **settings: object) -> None:
    spec = spec_of(method)
    none = not holds(Fact.SHARED_PREDICTION, METHODS[method]()) or method in ("local", "centralised", "fedsgd")
    stage = "" if none else "+fedpredict"
    settings = {"selection": {"number": 2}, **settings}
    task, work = task_for(method)
    fl.run(task, spec + stage, rounds=4, seed=2, local=work, out=folder, **settings)  # type: ignore[arg-type]


class Stop(Exception):  # noqa: N818
    """A stop in the middle of a run."""


def stop_after(number: int):
    def observe(record: dict) -> None:
        if record["round"] == number:
            raise Stop

    return observe


def result_files(folder: Path) -> dict[str, bytes]:
    newest = sorted((folder / "checkpoints").glob("*.safetensors"))
    return {path.name: path.read_bytes() for path in [*newest, *(folder / name for name in COMPARED)]}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_bytes(method, tmp_path):
    run(tmp_path / "whole", method)
    with pytest.raises(Stop):
        run(tmp_path / "stopped", method, observers=[stop_after(3)])
    fl.resume(tmp_path / "stopped", task=task_for(method)[0])
    assert result_files(tmp_path / "stopped") == result_files(tmp_path / "whole")


@pytest.mark.parametrize("selector", SELECTORS)
def test_what_a_selector_remembers_survives_a_stop(selector, tmp_path):
    chosen = {"name": selector, **SELECTION.get(selector, {})}
    run(tmp_path / "whole", "fedavg", selection=chosen)
    with pytest.raises(Stop):
        run(tmp_path / "stopped", "fedavg", selection=chosen, observers=[stop_after(3)])
    fl.resume(tmp_path / "stopped", task=task_for("fedavg")[0])
    assert result_files(tmp_path / "stopped") == result_files(tmp_path / "whole")
