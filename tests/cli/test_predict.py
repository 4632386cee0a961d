"""``fedloom predict``: from a model's folder and new samples to classes, and what goes wrong on the way."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.predict import predict
from fedloom.config.resolve import method_from_config, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.deploy.model_folder import save_model
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.settings import SiteData, SiteSettings, to_toml
from fedloom.runs.prepare import prepare
from fedloom.runs.results.client_model import client_model
from fedloom.runs.runner import execute
from support import phones, small_tables
from support.command_line import json_output, output, refusal

FEATURES = list(small_tables.FEATURES)
app = typer.Typer()
app.command()(predict)
MISTAKES = {
    "missing.csv": "age,pulse\n1,2\n",
    "extra.csv": "age,bmi,pulse,height\n1,2,3,4\n",
    "twice.csv": "age,bmi,age,pulse\n1,2,3,4\n",
    "nan.csv": "age,bmi,pulse\n1,2,3\n1,nan,3\n",
    "word.csv": "age,bmi,pulse\n1,2,3\n1,2,high\n",
    "empty.csv": "age,bmi,pulse\n1,,3\n",
    "short.csv": "age,bmi,pulse\n1,2\n",
    "none.csv": "age,bmi,pulse\n",
    "strange.csv": "age,bmi,pulse,outcome\n1,2,3,\n1,2,3,dead\n1,2,3,well\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table and one on images, a site with its model and one without, and samples to predict."""
    home = tmp_path_factory.mktemp("predict")
    config = small_tables.config_of(small_tables.write_patients(home / "patients.csv"))
    execute(prepare(task_from_config(config), method_from_config(config), config), home / "run")
    pixels = np.random.default_rng(2).random((40, 1, 8, 8), dtype=np.float32)
    np.savez(home / "images.npz", x=pixels, y=np.arange(40) % 4)
    of_images = small_tables.config_of(home / "images.npz", "fedavg", client_column="client", clients=2)
    execute(prepare(task_from_config(of_images), method_from_config(of_images), of_images), home / "images")
    blueprint = Blueprint.of(config, small_tables.HOSPITALS)
    for number, name in enumerate(("north", "east")):
        (home / name).mkdir()
        data = SiteData(path="own.csv", target="outcome")
        (home / name / "site.toml").write_bytes(to_toml(SiteSettings(name=name, client=number, data=data)))
    north = client_model(home / "run", "north")
    save_model(home / "north" / "model", blueprint, north.row, client="north", method=north.method, round=north.round)
    for task in ("flows", "cora"):
        (home / task).mkdir()
        made_by = f'made_by.fedloom = "{fl.__version__}"\n'
        (home / task / "config.toml").write_text(f'{made_by}[method]\nname = "fedavg"\n[task]\nname = "{task}"\n')
    (home / "server" / "run").mkdir(parents=True)
    (home / "server" / "deploy.toml").touch()
    (home / "half").mkdir()
    (home / "half" / "model.safetensors").touch()
    x, _ = small_tables.patients(12)
    small_tables.write_rows(home / "new.csv", FEATURES, [list(map(float, row)) for row in x])
    for name, text in MISTAKES.items():
        (home / name).write_text(text)
    np.savez(home / "wide.npz", x=np.zeros((2, 4)))
    np.savez(home / "labels.npz", x=np.zeros((2, 3)), y=np.zeros(3, dtype=int))
    np.savez(home / "bytes.npz", x=np.zeros((2, 1, 8, 8), dtype=np.uint8))
    Image.fromarray(np.zeros((8, 9), dtype=np.uint8)).save(home / "image.png")
    (home / "text.png").write_text("no image")
    return home


def expected_probabilities(folder: Path, client: str, count: int = 12) -> torch.Tensor:
    """What the model of the task itself says of the first patients."""
    found = client_model(folder / "run", client)
    task = found.task
    task.layout.fill(task.model, found.row)
    task.model.eval()
    with torch.no_grad():
        return task.model(task.inputs(torch.arange(count))).softmax(1)


def shares(answer: dict[str, Any]) -> torch.Tensor:
    return torch.tensor([list(row["probabilities"].values()) for row in answer["predictions"]])


def test_predictions_are_those_of_the_tasks_own_model(folder: Path) -> None:
    answers = []
    for client in ("north", "east"):
        answer = json_output(app, folder / "run", folder / "new.csv", "--client", client, "--all")
        assert torch.allclose(shares(answer), expected_probabilities(folder, client), atol=1e-6)
        assert answer["model"] == {"client": client, "method": "fedrep", "round": 2}
        assert answer["accuracy"] is None
        for number, row in enumerate(answer["predictions"], 1):
            best = max(row["probabilities"], key=row["probabilities"].get)
            assert (row["row"], row["class"], row["probability"]) == (number, best, row["probabilities"][best])
        answers.append(shares(answer))
    assert not torch.allclose(*answers)


def test_a_site_says_what_the_run_says_of_its_client(folder: Path) -> None:
    of_run = json_output(app, folder / "run", folder / "new.csv", "--client", "north")
    assert json_output(app, folder / "north", folder / "new.csv") == of_run
    assert json_output(app, folder / "north" / "model", folder / "new.csv", "--client", "north") == of_run


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npz"])
def test_neither_the_kind_of_file_nor_the_order_of_columns_matters(folder: Path, tmp_path: Path, ending: str) -> None:
    x, outcome = small_tables.patients(12)
    path = tmp_path / f"new.{ending}"
    if ending == "npz":
        np.savez(path, x=x, y=np.array(outcome))
    elif ending == "parquet":
        arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: parquet is not tried")
        from pyarrow import parquet

        columns = {"pulse": x[:, 2], "outcome": outcome, "bmi": x[:, 1].astype(np.float64), "age": x[:, 0]}
        parquet.write_table(arrow.table(columns), path)
    else:
        rows = [[float(x[i, 2]), outcome[i], float(x[i, 1]), "anybody", float(x[i, 0])] for i in range(12)]
        small_tables.write_rows(path, ["pulse", "outcome", "bmi", "hospital", "age"], rows)
    answer = json_output(app, folder / "north", path, "--all")
    assert torch.allclose(shares(answer), expected_probabilities(folder, "north"), atol=1e-6)
    right = sum(row["class"] == outcome[i] for i, row in enumerate(answer["predictions"]))
    assert answer["accuracy"]["right"] == right
    assert (answer["accuracy"]["over"], answer["accuracy"]["value"]) == (12, pytest.approx(right / 12))


def test_the_accuracy_is_over_the_rows_that_have_a_label(folder: Path, tmp_path: Path) -> None:
    x, _ = small_tables.patients(12)
    said = [row["class"] for row in json_output(app, folder / "north", folder / "new.csv")["predictions"]]
    labels = [said[0], {"sick": "well", "well": "sick"}[said[1]], *[""] * 10]
    rows = [[*map(float, row), label] for row, label in zip(x, labels, strict=True)]
    lines = output(app, folder / "north", small_tables.write_rows(tmp_path / "x.csv", [*FEATURES, "outcome"], rows))
    assert lines.splitlines()[-1] == (
        "accuracy 50.0%: 1 right over the 2 of 12 samples that have a label in column 'outcome'"
    )


def test_the_answer_is_a_table_for_people(folder: Path) -> None:
    header, first, *others = output(app, folder / "north", folder / "new.csv").splitlines()
    row = json_output(app, folder / "north", folder / "new.csv")["predictions"][0]
    assert header.split() == ["row", "class", "probability"]
    assert first.split() == ["1", row["class"], f"{row['probability']:.1%}"]
    assert len(others) == 11


def test_predictions_are_written_to_a_file(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "predictions.csv"
    assert output(app, folder / "north", folder / "new.csv", "--out", out, "--all") == (
        f"{out}: 12 predictions of the model of 'north' (fedrep, round 2)\n"
    )
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["row", "class", "probability", "sick", "well"]
    found = torch.tensor([[float(row["sick"]), float(row["well"])] for row in rows])
    assert torch.allclose(found, expected_probabilities(folder, "north"), atol=1e-6)
    assert json_output(app, folder / "north", folder / "new.csv", "--out", out)["written"] == str(out)


def test_images_are_predicted_by_name_and_labelled_by_their_folders(folder: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    files = ["3/a.png", "3/b.png", "unsorted/c.png"]
    for name, image in zip(files, pixels, strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / name)
    np.savez(tmp_path / "same.npz", x=pixels[:, None].astype(np.float32) / 255)
    answer = json_output(app, folder / "images", tmp_path, "--all")
    assert [row["file"] for row in answer["predictions"]] == files
    assert torch.allclose(
        shares(answer), shares(json_output(app, folder / "images", tmp_path / "same.npz", "--all")), atol=1e-6
    )
    right = sum(row["class"] == "3" for row in answer["predictions"][:2])
    assert answer["accuracy"] == {
        "right": right, "over": 2, "value": right / 2, "that": "lie in a folder with the name of a class"
    }  # fmt: skip
    some = json_output(app, folder / "images", *(tmp_path / name for name in files[1:]), "--all")
    assert torch.allclose(shares(some), shares(answer)[1:], atol=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["north", "missing.csv"],
            "missing.csv has no column 'bmi', which this model needs: its features are age, bmi,",
        ),
        (["north", "extra.csv"], "extra.csv has the column 'height', which this model does not know"),
        (["north", "twice.csv"], "twice.csv has the column 'age' twice"),
        (["north", "nan.csv"], "nan.csv: column 'bmi', row 2: the cell is empty"),
        (["north", "word.csv"], "word.csv: column 'pulse', row 2: 'high' is not a number"),
        (["north", "empty.csv"], "empty.csv: column 'bmi', row 1: the cell is empty"),
        (["north", "short.csv"], "short.csv, row 1: 2 cells where the header has 3."),
        (["north", "none.csv"], "none.csv has a header and no rows"),
        (["north", "strange.csv"], "the label 'dead' of row 2 is not a class of the task: its classes are sick, well."),
        (["north", "missing.npz"], "missing.npz does not exist"),
        (["north", "wide.npz"], "wide.npz: an input has shape (4,), but the task needs (3,)."),
        (["north", "labels.npz"], "labels.npz: 2 inputs and labels of shape (3,): give one label each, or none."),
        (["north", "image.png"], "image.png is not supported here: this model needs inputs of shape (3,)"),
        (["north", "new.csv", "new.csv"], "new.csv is not supported beside others here"),
        (["images", "new.csv"], "new.csv has no column whose first cell is the path of an image"),
        (["images", "bytes.npz"], "bytes.npz: the inputs are uint8, but the task needs float32: convert them."),
        (["images", "text.png"], "text.png is not a readable image (it looks like a text)"),
        (["images", "north"], "north has no images"),
        (["run", "new.csv"], "has its own model: choose one with --client"),
        (["run", "new.csv", "--client", "norht"], "run has no client 'norht': did you mean 'north'?"),
        (["north", "new.csv", "--client", "east"], "north is the model of 'north' and not of 'east'"),
        (["east", "new.csv"], "site east has no model yet: it saves one when the run has ended"),
        (["half", "new.csv"], "half has no model.json, so it is not a whole saved model: "),
        (["server", "new.csv"], "server is the server's, but models are saved at the sites"),
        (["server/run", "new.csv"], "server/run is the server's, but models are saved at the sites"),
        (["nowhere", "new.csv"], "there is no folder nowhere"),
        (["flows", "new.csv"], "task flows is about flows: use fedloom flows recommend"),
        (["cora", "new.csv"], "task cora is about nodes of graphs, which are not predicted one by one"),
        (["north", "new.csv", "--out", "nowhere/x.csv"], "nowhere/x.csv cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_one_sentence(
    folder: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, FedloomError), result.output
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.output == ""


def test_a_mistake_ends_with_exit_code_2(folder: Path, fedloom) -> None:
    result = fedloom("predict", "north", "missing.csv", cwd=folder)
    assert refusal(result).startswith("error: missing.csv has no column 'bmi'")


@pytest.mark.parametrize("model", ["late-fusion", "mlp"])
def test_samples_with_several_input_columns_are_predicted_as_the_task_does(tmp_path: Path, model: str) -> None:
    path = phones.write(tmp_path / "phones.npz")
    task = fl.task("own", path=str(path), model=model)
    fl.run(task, "fedavg", rounds=2, out=tmp_path / "run")
    found = json_output(app, tmp_path / "run", path)
    trained = client_model(tmp_path / "run", None)
    task.layout.fill(task.model, trained.row)
    with torch.no_grad():
        wanted = task.model.eval()(task.inputs(torch.arange(120))).argmax(1)
    assert [int(one["class"]) for one in found["predictions"]] == wanted.tolist()
    assert found["accuracy"]["over"] == found["samples"] == 120


def test_samples_that_lack_an_input_column_are_refused(tmp_path: Path) -> None:
    path = phones.write(tmp_path / "phones.npz")
    fl.run(fl.task("own", path=str(path), model="late-fusion"), "fedavg", rounds=1, out=tmp_path / "run")
    x, y, _ = phones.arrays(5)
    np.savez(tmp_path / "new.npz", accelerometer=x["accelerometer"], y=y)
    with pytest.raises(FedloomError, match="has no array 'gyroscope'"):
        output(app, tmp_path / "run", tmp_path / "new.npz")
    np.savez(tmp_path / "new.npz", accelerometer=x["accelerometer"], gyroscope=x["gyroscope"][:4])
    with pytest.raises(FedloomError, match=r"differ in length \(accelerometer has 5, gyroscope has 4\)"):
        output(app, tmp_path / "run", tmp_path / "new.npz")
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FedloomError, match="this model needs the input columns accelerometer, gyroscope"):
        output(app, tmp_path / "run", tmp_path / "new.csv")
