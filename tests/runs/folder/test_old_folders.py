"""Folders that fedloom 0.4 wrote: their results are read, and resuming them is refused.

``version_0_4/run`` was written by fedloom 0.4.0 with ``fedloom run --task digits --clients 3 --alpha 1 --model mlp
--set task.model_options.hidden=2 --rounds 2 --method fedavg+own+finetune --seed 1``, and ``predictions.json`` with
``fedloom predict run digits.npz --client 1 --all --json``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedloom as fl
from fedloom.cli.app import app
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.runs.folder.load_config import load_config

WRITTEN = Path(__file__).parent / "version_0_4"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(WRITTEN / "run", tmp_path / "run"))


def test_resume_refuses_it_and_names_the_version_that_can(folder):
    with pytest.raises(FedloomError, match=r"written by fedloom 0\.4\.0.*only fedloom 0\.4\.0 can resume it"):
        fl.resume(folder)
    refused = CliRunner().invoke(app, ["resume", str(folder)])
    assert "only fedloom 0.4.0 can resume it to the same bytes" in str(refused.exception)


def test_its_history_is_read_with_todays_keys(folder):
    history = fl.History.load(folder)
    assert history.config["prediction"] == [{"name": "own"}, {"name": "finetune", "epochs": 1}]
    assert "personal" not in history.config
    assert [record["round"] for record in history.records] == [0, 1, 2]
    stages = load_config(folder).prediction
    assert [type(stage).__name__ for stage in stages] == ["LastLocalModel", "FineTune"]


@pytest.mark.slow
def test_a_report_is_written_about_it(folder):
    done = CliRunner().invoke(app, ["report", str(folder), "--json"])
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)["methods"][0]
    assert row["method"] == "fedavg+lastlocalmodel+finetune"
    assert row["client_accuracy"] == fl.History.load(folder).last("client_model/own_test/accuracy/mean")
    assert (folder / "report.html").exists()


def test_its_models_predict_what_they_predicted(folder):
    arguments = ["predict", str(folder), str(WRITTEN / "digits.npz"), "--client", "1", "--all", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    before, now = json.loads((WRITTEN / "predictions.json").read_text()), json.loads(done.stdout)
    assert [one["class"] for one in now["predictions"]] == [one["class"] for one in before["predictions"]]
    for one, other in zip(now["predictions"], before["predictions"], strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


def test_a_new_run_with_its_config_is_told_the_renamed_key(folder):
    done = CliRunner().invoke(app, ["run", str(folder / "config.toml"), "--out", str(folder / "new")])
    assert "personal is now prediction" in str(done.exception)


def test_a_renamed_key_is_refused_with_the_new_name():
    with pytest.raises(FedloomError, match="personal is now prediction"):
        resolve({"personal": [{"name": "finetune"}]})
    with pytest.raises(FedloomError, match="personal is now prediction"):
        fl.run("digits", rounds=1, personal=["finetune"])


@pytest.mark.parametrize("file", ["comparison.toml", "sweep.toml"])
def test_a_plan_that_names_no_version_is_one_of_0_4(tmp_path, file):
    (tmp_path / file).write_text("seeds = 1\n[config]\nrounds = 2\n")
    refused = CliRunner().invoke(app, ["resume", str(tmp_path)])
    assert "was written by fedloom 0.4 and" in str(refused.exception)
    assert str(refused.exception).endswith(f"with the settings in its {file}.")


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
