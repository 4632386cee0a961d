"""Folders that earlier versions wrote: their results are read, and resuming them is refused in one sentence.

``version_0_4/run`` was written by fedloom 0.4.0 with ``fedloom run --task digits --clients 3 --alpha 1 --model mlp
--set task.model_options.hidden=2 --rounds 2 --method fedavg+own+finetune --seed 1``, and ``predictions.json`` with
``fedloom predict run digits.npz --client 1 --all --json``; ``version_0_6/run`` by 0.6 with the same commands and
today's name of the stage ``own``; ``version_0_5/run`` is the first run of a comparison of 0.5.0.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.runs.folder.load_config import load_config

WRITTEN, VERSIONS = Path(__file__).parent, ["0.4.0", "0.5.0", "0.6.0.dev0"]
STAGES = {"0.4.0": "fedavg+lastlocalmodel+finetune", "0.5.0": "fedavg", "0.6.0.dev0": "fedavg+lastlocalmodel+finetune"}


def written(version: str) -> Path:
    return WRITTEN / f"version_{version[0]}_{version[2]}"


@pytest.fixture(params=VERSIONS)
def version(request) -> str:
    return request.param


@pytest.fixture
def folder(version, tmp_path):
    return Path(shutil.copytree(written(version) / "run", tmp_path / "run"))


def test_resume_refuses_it_in_one_sentence(folder, version):
    said = (
        f"{folder} was written by Fedloom {version} and this is {fl.__version__}: its results can be read (report, "
        "predict), but it cannot be resumed: start it again."
    )
    with pytest.raises(FedloomError) as refused:
        fl.resume(folder)
    assert str(refused.value) == said
    assert str(CliRunner().invoke(app, ["resume", str(folder)]).exception) == said


def test_its_history_is_read_with_todays_keys(folder, version):
    history = fl.History.load(folder)
    assert "personal" not in history.config
    assert [record["round"] for record in history.records] == [0, 1, 2]
    stages = [type(stage).__name__.lower() for stage in load_config(folder).prediction]
    assert "+".join(["fedavg", *stages]) == STAGES[version]


@pytest.mark.slow
def test_a_report_is_written_about_it(folder, version):
    done = CliRunner().invoke(app, ["report", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)["methods"][0]
    assert row["method"] == STAGES[version]
    assert row["client_accuracy"] == fl.History.load(folder).last("client_model/own_test/accuracy/mean")
    assert (folder / "report.html").exists()


@pytest.mark.parametrize("version", ["0.4.0", "0.6.0.dev0"], indirect=True)
def test_its_models_predict_what_they_predicted(folder, version):
    arguments = ["predict", str(folder), str(WRITTEN / "version_0_4/digits.npz"), "--client", "1", "--all", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    before, now = json.loads((written(version) / "predictions.json").read_text()), json.loads(done.stdout)
    assert [one["class"] for one in now["predictions"]] == [one["class"] for one in before["predictions"]]
    for one, other in zip(now["predictions"], before["predictions"], strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


@pytest.mark.parametrize("version", ["0.5.0"], indirect=True)
def test_a_model_without_digests_predicts(folder):
    arguments = ["predict", str(folder), str(WRITTEN / "version_0_4/digits.npz"), "--client", "1", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["samples"] == 4


@pytest.mark.parametrize("file", ["comparison.toml", "sweep.toml"])
def test_a_plan_that_names_no_version_is_one_of_0_4(tmp_path, file):
    (tmp_path / file).write_text("seeds = 1\n[config]\nrounds = 2\n")
    refused = CliRunner().invoke(app, ["resume", str(tmp_path)])
    assert "was written by Fedloom 0.4 and" in str(refused.exception)


@pytest.mark.parametrize("note", ["fedloom", "format"])
def test_a_version_of_thousands_of_digits_is_a_sentence(tmp_path, note):
    fl.run(fl.task("digits", clients=2), "fedavg", rounds=1, eval_every=0, out=tmp_path / "run")
    path = tmp_path / "run/config.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{note} =")]
    lines.insert(lines.index("[made_by]") + 1, f'{note} = "{"9" * 5000}"')
    path.write_text("\n".join(lines) + "\n")
    for command in ("report", "resume"):
        ended = CliRunner().invoke(app, [command, str(tmp_path / "run")])
        assert ended.exception is None or isinstance(ended.exception, FedloomError | SystemExit), ended.exception
