"""Every kind of a user's own data, from a file to a run, a comparison, a prediction and a site: the same inputs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.inputs import input_columns
from fedloom.deploy.new_samples import read_new_samples
from fedloom.deploy.saved_model import SavedModel, model_at
from fedloom.deploy.settings import SiteData, SiteSettings
from support.local_transport import Local, Plan, simulate
from support.site_tasks import blueprint_of

SITES = ("north", "east", "south")


@dataclass(frozen=True)
class Kind:
    """A file of some kind of data, and how it is read.

    Args:
        lines: The lines of a table, of which the first is the header.
        target: The column of the target.
        more: Further settings of the task.
        header: The columns of a prediction.
        samples: How many samples there are, where these are not the rows.
    """

    lines: list[str]
    target: str
    more: dict[str, Any]
    header: list[str]
    samples: int = 0

    def rows(self, numbers: Collection[int]) -> list[str]:
        """The lines of some samples, and the header; of a series all of its steps."""
        if not self.samples:
            return [self.lines[0], *(self.lines[1 + number] for number in numbers)]
        named = {f"v{number}" for number in numbers}
        return [self.lines[0], *(line for line in self.lines[1:] if line.split(",")[0] in named)]


def _tags() -> Kind:
    draw = np.random.default_rng(0)
    names, others = ["Anna", "Ben", "Cleo"], ["sees", "and", "calls", "knows"]
    lines = ["text,tags,site"]
    for row in range(90):
        words = [str(draw.choice(names if draw.random() < 0.4 else others)) for _ in range(draw.integers(2, 9))]
        lines.append(
            f"{' '.join(words)},{' '.join('PER' if word in names else 'O' for word in words)},{SITES[row % 3]}"
        )
    return Kind(lines, "tags", {"kind": "tokens"}, ["row", "tags"])


def _numbers() -> Kind:
    draw = np.random.default_rng(0)
    lines = ["age,dose,days,cost,site"]
    for row in range(90):
        age, dose = draw.normal(size=2)
        lines.append(f"{age:.4f},{dose:.4f},{5 + 2 * age:.4f},{1000 - 300 * dose:.2f},{SITES[row % 3]}")
    return Kind(lines, "days,cost", {}, ["row", "days", "cost"])


def _text() -> Kind:
    draw = np.random.default_rng(0)
    good, bad, others = ["good", "fine", "nice"], ["bad", "poor", "dull"], ["the", "film", "was", "so", "and", "plot"]
    lines = ["review,label,site"]
    for row in range(90):
        own = good if row % 2 else bad
        words = [str(draw.choice(own if draw.random() < 0.3 else others)) for _ in range(draw.integers(4, 12))]
        lines.append(f'"{" ".join(words).capitalize()}, {own[row % 3]}!",{"+" if row % 2 else "-"},{SITES[row % 3]}')
    return Kind(lines, "label", {"text": {"column": "review", "length": 10}}, ["row", "class", "probability"])


def _series() -> Kind:
    draw = np.random.default_rng(0)
    lines = ["visit,minute,pulse,fever,label,site"]
    for row in range(90):
        steps, rise = int(draw.integers(3, 15)), 0.5 if row % 2 else -0.5
        for minute in draw.permutation(steps):
            cells = [f"v{row}", minute, f"{60 + rise * minute + draw.normal():.3f}", f"{37 + draw.normal():.3f}"]
            lines.append(",".join(map(str, [*cells, "ill" if row % 2 else "well", SITES[row % 3]])))
    series = {"series": "visit", "order": "minute"}
    return Kind(lines, "label", {"sequences": series}, ["row", "class", "probability"], samples=90)


KINDS = {"tags": _tags, "numbers": _numbers, "text": _text, "series": _series}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]()


@pytest.fixture(scope="module")
def path(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.csv"
    path.write_text("\n".join(kind.lines) + "\n")
    return path


def settings(kind: Kind, path: Path) -> dict[str, Any]:
    return {"path": str(path), "target": kind.target, "client_column": "site", **kind.more}


@pytest.fixture(scope="module")
def made(kind: Kind, path: Path) -> fl.Task:
    return fl.task("own", **settings(kind, path))


@pytest.fixture(scope="module")
def saved(made: fl.Task, tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    folder = tmp_path_factory.mktemp("run")
    history = fl.run(made, rounds=3, out=folder / "run")
    assert history.stopped is None
    return model_at(folder / "run")


def test_padding_and_precision_aside_the_loop_and_the_stacked_execution_agree(made: fl.Task) -> None:
    loop, stacked = (fl.run(made, rounds=2, execution=execution) for execution in ("loop", "vectorised"))
    for name in ("client_model/own_test/loss/mean", f"client_model/own_test/{made.score_name}/mean"):
        assert loop.last(name) == pytest.approx(stacked.last(name), rel=1e-3)


def test_methods_are_compared_with_the_baselines(made: fl.Task) -> None:
    compared = fl.compare(made, ["fedavg", "local"], rounds=2, seeds=2)
    assert len(compared.baselines) >= 1


def test_new_samples_become_the_inputs_that_the_training_had(
    kind: Kind, path: Path, made: fl.Task, saved: SavedModel, tmp_path: Path
) -> None:
    samples = read_new_samples([path], saved)
    assert torch.equal(samples.inputs, input_columns(made.federation.columns))
    everyone = saved.predict(samples.inputs)
    (tmp_path / "one.csv").write_text("\n".join(kind.rows([4])) + "\n")
    alone = saved.predict(read_new_samples([tmp_path / "one.csv"], saved).inputs)
    assert torch.allclose(alone[0], everyone[4], atol=1e-5)


def test_the_command_line_writes_what_it_predicts(kind: Kind, path: Path, made: fl.Task, tmp_path: Path) -> None:
    fl.run(made, rounds=1, out=tmp_path / "run")
    out = tmp_path / "out.csv"
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    written = out.read_text().splitlines()
    assert written[0].split(",") == kind.header
    assert len(written) == 1 + (kind.samples or len(kind.lines) - 1)


def test_a_site_makes_the_inputs_that_the_training_had(kind: Kind, path: Path, made: fl.Task, tmp_path: Path) -> None:
    """The site's own words, lengths and means do not count: what it reads is what the run's plan makes of its rows."""
    blueprint = blueprint_of({"name": "own", **settings(kind, path), "clients": None}, SITES)
    places = list(range(2, kind.samples or len(kind.lines) - 1, 3))
    (tmp_path / "mine.csv").write_text("\n".join(kind.rows(places)) + "\n")
    data = SiteData(path="mine.csv", target=kind.target)
    task = blueprint.site_task(SiteSettings(name=SITES[2], client=2, data=data), tmp_path)
    own = torch.cat([task.federation.train[2], task.federation.test[2]]).sort().values
    assert torch.equal(task.inputs(own), made.inputs(torch.tensor(places)))
    assert torch.equal(task.targets(own), made.targets(torch.tensor(places)))


def test_a_deployment_gives_the_simulators_bytes(kind: Kind, path: Path, tmp_path: Path) -> None:
    local = {"epochs": 1, "batch_size": 8, "lr": 0.05}
    plan = Plan.of("fedavg", task={"name": "own", **settings(kind, path), "clients": 3}, local=local)
    played, simulated = Local(plan, tmp_path).play(), simulate(plan)
    assert torch.equal(played.row, simulated.row)
    assert not torch.equal(played.row, plan.blueprint.initial)
