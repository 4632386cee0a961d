"""Models in folders of their own: they answer as the task's model does, and are there whole or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedloom.config.resolve import resolve, task_from_config
from fedloom.config.trusted_code import TrustedCode
from fedloom.core.errors import FedloomError
from fedloom.deploy import model_folder as saving
from fedloom.deploy.model_folder import About, save_model
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.saved_model import load_model, model_at
from fedloom.deploy.settings import SiteData, SiteSettings, to_toml
from fedloom.runs.start_model import with_start
from fedloom.tasks.graphs.read import save_graph
from support import small_graphs, small_tables


@pytest.fixture(scope="module")
def blueprint(tmp_path_factory: pytest.TempPathFactory) -> Blueprint:
    path = small_tables.write_patients(tmp_path_factory.mktemp("data") / "patients.csv")
    return Blueprint.of(small_tables.config_of(path, communal_per_class=2), small_tables.HOSPITALS)


def row_of(blueprint: Blueprint, seed: int = 0) -> torch.Tensor:
    """Some model of the blueprint's that is not its initial one."""
    return blueprint.initial + 0.3 * torch.randn(len(blueprint.initial), generator=torch.Generator().manual_seed(seed))


def save(folder: Path, blueprint: Blueprint, seed: int = 0, **about: Any) -> None:
    save_model(
        folder, blueprint, row_of(blueprint, seed), **{"client": "north", "method": "fedrep", "round": 2, **about}
    )


def sign(folder: Path) -> None:
    """Write the digests of a changed folder, as somebody does who means harm."""
    about = About(**json.loads((folder / "model.json").read_text()))
    files = {path.name: saving.digest_of(path.read_bytes()) for path in folder.iterdir() if path.name != "model.json"}
    (folder / "model.json").write_bytes(about.model_copy(update={"files": files}).to_json())


def samples(count: int = 60) -> torch.Tensor:
    return torch.from_numpy(small_tables.patients(count)[0])


def test_a_site_saves_the_model_that_it_has_where_models_differ(tmp_path: Path) -> None:
    path = small_tables.write_patients(tmp_path / "patients.csv")
    models = {"mlp:hidden=[16]": [0, 2], "mlp:hidden=[8,4]": [1]}
    blueprint = Blueprint.of(small_tables.config_of(path, "local", models=models), small_tables.HOSPITALS)
    task = task_from_config(blueprint.config)
    for client, site in enumerate(small_tables.HOSPITALS):
        own = task.of_client(client)
        row = torch.randn(own.layout.width, generator=torch.Generator().manual_seed(client))
        save_model(tmp_path / site, blueprint, row, client=site, method="local", round=2, task=own)
        own.layout.fill(own.model, row)
        with torch.no_grad():
            expected = own.model.eval()(own.inputs(torch.arange(60)))
        torch.testing.assert_close(load_model(tmp_path / site).outputs(own.federation.columns["x"]), expected)


def test_a_saved_model_answers_as_the_tasks_own_model(blueprint: Blueprint, tmp_path: Path) -> None:
    save(tmp_path / "model", blueprint)
    loaded = load_model(tmp_path / "model")
    task = task_from_config(blueprint.config)
    task.layout.fill(task.model, row_of(blueprint))
    task.model.eval()
    with torch.no_grad():
        wanted = task.model(task.inputs(torch.arange(60))).softmax(1)
    found = loaded.predict(task.federation.columns["x"])
    assert torch.allclose(found, wanted, atol=1e-6)
    assert found.std(0).min() > 0.01
    assert loaded.labels == ("sick", "well") == tuple(task.federation.class_names)
    about = loaded.about
    assert (about.client, about.method, about.round) == ("north", "fedrep", 2)


@pytest.mark.parametrize("trained", [{"frozen": ["1.*"]}, {"adapters": {"rank": 2}}], ids=["frozen", "adapters"])
def test_a_site_saves_and_reads_a_model_of_which_a_part_trains(trained: dict[str, Any], tmp_path: Path) -> None:
    path = small_tables.write_patients(tmp_path / "patients.csv")
    made = Blueprint.of(small_tables.config_of(path, "fedavg", **trained), small_tables.HOSPITALS)
    save(tmp_path / "model", made)
    task = task_from_config(made.config)
    task.layout.fill(task.model, row_of(made))
    with torch.no_grad():
        expected = task.model.eval()(task.inputs(torch.arange(60)))
    torch.testing.assert_close(load_model(tmp_path / "model").outputs(task.federation.columns["x"]), expected)
    started = with_start(task_from_config(made.config), str(tmp_path / "model")).model.state_dict()
    assert all(torch.equal(started[name], tensor) for name, tensor in task.model.state_dict().items())


def test_batches_do_not_change_an_answer(blueprint: Blueprint, tmp_path: Path) -> None:
    save(tmp_path / "model", blueprint)
    loaded, x = load_model(tmp_path / "model"), samples(1_100)
    found = loaded.predict(x)
    assert found.shape == (1_100, 2)
    assert torch.allclose(found.sum(1), torch.ones(1_100), atol=1e-6)
    assert torch.allclose(
        found[::137], torch.cat([loaded.predict(x[i : i + 1]) for i in range(0, 1_100, 137)]), atol=1e-6
    )
    assert loaded.predict(x[:0]).shape == (0, 2)


@pytest.mark.parametrize("wrong", [torch.zeros(2, 4), torch.zeros(2, 3, 1), torch.zeros(2, 3, dtype=torch.int64)])
def test_inputs_of_another_form_are_refused(blueprint: Blueprint, tmp_path: Path, wrong: torch.Tensor) -> None:
    save(tmp_path / "model", blueprint)
    with pytest.raises(FedloomError, match=r"this model needs float32 of shape \(3,\)"):
        load_model(tmp_path / "model").predict(wrong)


def test_classes_without_names_are_called_by_their_numbers(tmp_path: Path) -> None:
    x, _ = small_tables.patients()
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(60) % 3)
    config = small_tables.config_of(tmp_path / "own.npz", client_column="client", clients=2)
    save(tmp_path / "model", Blueprint.of(config, ["a", "b"]))
    assert load_model(tmp_path / "model").labels == ("0", "1", "2")


def test_a_models_folder_holds_no_sample(blueprint: Blueprint, tmp_path: Path) -> None:
    assert blueprint.communal is not None
    save(tmp_path / "model", blueprint)
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert files == {"config.toml", "schema.json", "initial.safetensors", "model.safetensors", "model.json"}


def test_a_new_model_takes_the_place_of_an_older_one(blueprint: Blueprint, tmp_path: Path) -> None:
    (tmp_path / ".model.part").mkdir()
    (tmp_path / ".model.part" / "model.json").write_text("what a stopped save left")
    for number in (1, 2):
        save(tmp_path / "model", blueprint, seed=number, round=number)
        loaded = load_model(tmp_path / "model")
        assert loaded.about.round == number
        assert torch.equal(torch.cat([p.flatten() for p in loaded.model.parameters()]), row_of(blueprint, number))
    assert {path.name for path in tmp_path.iterdir()} == {"model", ".model.old"}


@pytest.mark.parametrize("renames", [0, 1])
def test_a_save_that_is_killed_leaves_the_older_model(
    blueprint: Blueprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    save(tmp_path / "model", blueprint, round=1)
    done: list[str] = []

    def rename(source: Path, target: Path) -> None:
        if source.is_dir() and len(done) == renames:
            raise KeyboardInterrupt
        done.extend(["renamed"] * source.is_dir())
        source.rename(target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", rename)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path / "model", blueprint, round=2)
    assert load_model(tmp_path / "model").about.round == 1
    save(tmp_path / "model", blueprint, round=3)
    assert load_model(tmp_path / "model").about.round == 3
    assert {path.name for path in tmp_path.iterdir()} == {"model", ".model.old"}


def test_a_full_disk_is_told_and_leaves_the_older_model(
    blueprint: Blueprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    save(tmp_path / "model", blueprint, round=1)
    with monkeypatch.context() as patched:
        patched.setattr(saving, "write_atomic", full)
        with pytest.raises(FedloomError, match=r"cannot be saved .*No space left on device"):
            save(tmp_path / "model", blueprint, round=2)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert load_model(tmp_path / "model").about.round == 1


def test_a_model_that_diverged_is_not_saved(blueprint: Blueprint, tmp_path: Path) -> None:
    row = row_of(blueprint)
    row[3] = torch.nan
    with pytest.raises(FedloomError, match="not finite"):
        save_model(tmp_path / "model", blueprint, row, client="north", method="fedrep", round=2)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "lost", ["config.toml", "schema.json", "initial.safetensors", "model.safetensors", "model.json"]
)
@pytest.mark.parametrize("cut", [False, True])
def test_a_folder_that_is_not_whole_is_refused(blueprint: Blueprint, tmp_path: Path, lost: str, cut: bool) -> None:
    save(tmp_path / "model", blueprint)
    path = tmp_path / "model" / lost
    content = path.read_bytes()
    path.unlink()
    if cut:
        path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FedloomError, match=lost):
        load_model(tmp_path / "model")


def test_tensors_of_another_model_are_refused(blueprint: Blueprint, tmp_path: Path) -> None:
    save(tmp_path / "model", blueprint)
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    name, first = next(iter(tensors.items()))
    for changed, message in [
        ({**tensors, "more": first.clone()}, "has in addition 'more'"),
        ({key: tensor for key, tensor in tensors.items() if key != name}, f"lacks '{name}'"),
        ({**tensors, name: first.flatten()[1:]}, f"the tensor '{name}' is F32"),
        ({**tensors, name: first.double()}, f"the tensor '{name}' is F64"),
        ({**tensors, name: first * torch.inf}, "not finite"),
    ]:
        save_file(changed, path)
        sign(tmp_path / "model")  # by somebody who writes the digests too
        with pytest.raises(FedloomError, match=message):
            load_model(tmp_path / "model")


def test_another_format_is_refused(blueprint: Blueprint, tmp_path: Path) -> None:
    save(tmp_path / "model", blueprint)
    path = tmp_path / "model" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 3}))
    with pytest.raises(FedloomError, match="format 3, this one knows 2"):
        load_model(tmp_path / "model")


def test_a_sites_folder_gives_its_model_under_its_own_columns(blueprint: Blueprint, tmp_path: Path) -> None:
    settings = SiteSettings(name="north", client=0, data=SiteData(path="x.csv", target="result", ignore=["number"]))
    (tmp_path / "site.toml").write_bytes(to_toml(settings))
    with pytest.raises(FedloomError, match="site north has no model yet: it saves one when the run has ended"):
        model_at(tmp_path)
    save(tmp_path / "model", blueprint)
    for client in (None, "north"):
        found = model_at(tmp_path, client)
        assert (found.target, set(found.others)) == ("result", {"hospital", "number"})
    with pytest.raises(FedloomError, match="is the model of 'north' and not of 'east'"):
        model_at(tmp_path, "east")


def test_a_model_of_graphs_is_saved_and_not_asked_about_rows(tmp_path: Path) -> None:
    source = small_graphs.clubs(sizes=(12, 12), classes=2, client=[0] * 12 + [1] * 12)
    apart = source.graph.edges[:, (source.graph.edges < 12).sum(0) != 1]  # two pieces, nothing shared
    save_graph(replace(source, graph=replace(source.graph, edges=apart)), tmp_path / "clubs.npz")
    task = {"name": "own-graph", "path": str(tmp_path / "clubs.npz"), "model_options": {"hidden": 4}}
    blueprint = Blueprint.of(resolve({"task": task, "method": {"name": "fedavg"}}), ["a", "b"])
    save(tmp_path / "model", replace(blueprint, global_test=None))  # as a site has it
    with pytest.raises(FedloomError, match="task own-graph is about nodes of graphs"):
        load_model(tmp_path / "model")


def test_a_folder_that_names_code_of_its_own_does_not_get_it_run(blueprint: Blueprint, tmp_path: Path) -> None:
    save(tmp_path / "model", blueprint)
    config = tmp_path / "model" / "config.toml"
    (tmp_path / "model" / "evil.py").write_text("raise SystemExit('it was run')\n")
    config.write_text(config.read_text().replace('name = "random"', 'name = "evil.py:Evil"'))
    assert "evil.py" in config.read_text()
    sign(tmp_path / "model")
    with pytest.raises(FedloomError, match=r"names code, the selection '.*evil.py:Evil', which is not run"):
        load_model(tmp_path / "model")


NET = """from torch import nn


class Net(nn.Module):
    def __init__(self, inputs, classes, width=4):
        super().__init__()
        self.body, self.head = nn.Linear(inputs, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x).relu())
"""


def test_a_model_of_the_users_class_predicts_where_she_names_it_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    path = small_tables.write_patients(tmp_path / "patients.csv")
    config = small_tables.config_of(path, model=f"{tmp_path / 'net.py'}:Net:width=3")
    blueprint = Blueprint.of(config, small_tables.HOSPITALS)
    site = tmp_path / "north"
    blueprint.save(site, server=False)
    assert (site / "net.py").read_text() == NET
    loaded = Blueprint.load(site)
    assert (loaded.config.task.model, loaded.config.task.model_options) == (f"{site / 'net.py'}:Net", {"width": 3})
    assert loaded.digest == blueprint.digest
    save(site / "model", loaded)
    (site / "site.toml").write_bytes(
        to_toml(SiteSettings(name="north", client=0, server="127.0.0.1:1", data=SiteData(rehearsal=True)))
    )
    wanted = task_from_config(blueprint.config)
    wanted.layout.fill(wanted.model, row_of(blueprint))
    with torch.no_grad():
        expected = wanted.model(wanted.inputs(torch.arange(60))).softmax(1)
    by_model, by_file = TrustedCode(f"{site / 'net.py'}:Net"), TrustedCode(files=(str(site / "net.py"),))
    for folder, trusted in product((site, site / "model"), (by_model, by_file)):
        found = model_at(folder, trusted=trusted).predict(wanted.federation.columns["x"])
        assert torch.allclose(found, expected, atol=1e-6)
        with pytest.raises(FedloomError, match=r"name it yourself with --trust net.py\."):
            model_at(folder)
