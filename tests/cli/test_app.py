"""The command line as a person or a script meets it: real processes, exit codes, one sentence per mistake."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedloom as fl
from fedloom import __version__
from fedloom.cli.listing import KINDS
from support.command_line import refusal
from support.waiting import LIMIT, wait_until

FEDLOOM = [sys.executable, "-m", "fedloom.cli.app"]
SMALL = ["--task", "digits", "--clients", "10", "--alpha", "0.1", "--rounds", "2", "--quiet"]


def fedloom(*words, cwd, data="nowhere"):
    environment = {**os.environ, "FEDLOOM_DATA": str(data), "COLUMNS": "200"}
    return subprocess.run([*FEDLOOM, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.fixture
def inside(fedloom_in_process):
    return fedloom_in_process


def csv(folder, text):
    path = Path(folder) / "own.csv"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_run_prints_one_json_object_and_leaves_a_complete_folder(tmp_path):
    words = (
        "run --task digits --method fedavg --clients 20 --alpha 0.1 --rounds 5 --seed 1 --workers 2 --out DIR --json"
    )
    result = fedloom(*words.split(), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert values["rounds"] == 5
    assert 0 < values["metrics"]["global_model/global_test/accuracy"] <= 1
    names = {str(path.relative_to(tmp_path / "DIR")) for path in (tmp_path / "DIR").rglob("*") if path.is_file()}
    assert {"config.toml", "metrics.jsonl", "report.html", "checkpoints/round-000005.safetensors"} <= names
    assert len((tmp_path / "DIR" / "metrics.jsonl").read_text().splitlines()) == 6


@pytest.mark.slow
def test_a_runs_own_config_repeats_it_to_the_byte(inside, tmp_path):
    inside("run", *SMALL, "--method", "fedprox:mu=0.5", "--out", "a")
    result = inside("run", "a/config.toml", "--out", "b", "--quiet")
    assert result.returncode == 0, result.stderr
    for name in ("metrics.jsonl", "config.toml", "checkpoints/round-000002.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.slow
def test_compare_prints_a_table_a_verdict_and_a_report_and_goes_on_past_divergence(inside, tmp_path):
    words = ["compare", *SMALL, "--seeds", "2", "--out", "c", "--json", "fedavg", "fedprox:mu=1", "fedsgd"]
    values = json.loads(inside(*words).stdout)
    assert [row["method"] for row in values["methods"]] == ["fedavg", "fedprox:mu=1", "fedsgd"]
    assert all(row["seeds"] == 2 and row["client_accuracy_std"] is not None for row in values["methods"])
    assert (tmp_path / "c" / "report.html").exists()
    words = ["compare", *SMALL, "--lr", "1e20", "--out", "d", "--json", "fedavg", "local"]
    done = inside(*words)
    values = json.loads(done.stdout)
    assert all("diverged in round 1" in row["stopped"] for row in values["methods"])
    assert done.returncode == 3
    assert [line.split(" stopped: ")[0] for line in done.stderr.splitlines()] == ["fedavg", "local"]


@pytest.mark.slow
def test_a_run_that_diverges_ends_with_code_3_and_its_reason(inside):
    done = inside("run", *SMALL, "--lr", "1e20", "--out", "d", "--json")
    assert done.returncode == 3
    assert done.stderr.startswith("fedavg stopped: fedavg diverged in round 1")
    assert json.loads(done.stdout)["stopped"] in done.stderr
    assert inside("run", *SMALL, "--out", "e", "--json").returncode == 0


@pytest.mark.slow
def test_resuming_a_finished_comparison_only_reads_it(inside, tmp_path):
    inside("compare", *SMALL, "--out", "c", "fedavg", "local")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")}
    result = inside("resume", "c", "--json")
    assert result.returncode == 0, result.stderr
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")} == before


@pytest.mark.slow
def test_report_keeps_two_settings_of_one_method_apart(inside):
    for mu in ("0.1", "5"):
        inside("run", *SMALL, "--method", f"fedprox:mu={mu}", "--out", f"p{mu}")
    values = json.loads(inside("report", "p0.1", "p5", "--json").stdout)
    assert {row["method"] for row in values["methods"]} == {"fedprox:mu=0.1", "fedprox:mu=5.0"}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_report_keeps_a_method_apart_from_the_same_with_a_stage(inside):
    for number, method in enumerate(("fedavg", "fedavg+fedpredict", "fedavg+finetune:epochs=2")):
        inside("run", *SMALL, "--method", method, "--out", f"r{number}")
    values = json.loads(inside("report", "r0", "r1", "r2", "--json").stdout)
    assert {row["method"] for row in values["methods"]} == {"fedavg", "fedavg+fedpredict", "fedavg+finetune:epochs=2"}


@pytest.mark.slow
def test_a_comparison_shows_what_else_was_measured_and_what_was_asked_for(inside, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    words = [*SMALL, "--fraction", "0.5", "--new-clients", "2", "--reach", "0.05", "--out", "c"]
    words += ["--set", "task.withhold={label=3, clients=1}", "--set", "task.drift={rounds=[2]}"]
    shown = inside("compare", *words, "fedavg", "fedavg+fedpredict:dynamic=true")
    assert shown.returncode == 0, shown.stderr
    for heading in ("new clients' models", "withheld class", "accuracy per selected", "rounds to 5 %"):
        assert heading in shown.stdout
    rows = json.loads(inside("resume", "c", "--json").stdout)["methods"]  # the target is remembered
    assert all(row["reach"] == 0.05 and row["new_accuracy"] is not None for row in rows)
    values = tomllib.loads((tmp_path / "c" / "fedavg_fedpredict_dynamic=True-seed0" / "config.toml").read_text())
    assert values["prediction"] == [{"name": "fedpredict", "dynamic": True}]
    assert values["new_clients"] == 2
    assert values["task"]["drift"] == {"rounds": [2], "share": 1.0}
    plain = inside("compare", *SMALL, "--out", "d", "fedavg", "local")
    assert "rounds to" not in plain.stdout
    assert "accuracy per selected" not in plain.stdout
    assert "reach=80" in refusal(inside("compare", *SMALL, "--reach", "80", "--out", "e", "fedavg"))


STAGE = """
from dataclasses import dataclass

import fedloom as fl


@dataclass(frozen=True)
class Half(fl.PredictionStage):
    share: float = 0.5

    def weights(self, rows, message, cohort):
        return self.share * rows
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_stage_of_ones_own_runs_from_its_file_and_is_found_again(inside, tmp_path):
    (tmp_path / "mine.py").write_text(STAGE)
    words = ["run", *SMALL, "--method", "fedavg+mine.py:Half:share=0.25", "--out", "a", "--json"]
    assert inside(*words).returncode == 0
    whole = (tmp_path / "a" / "metrics.jsonl").read_bytes()
    (tmp_path / "a" / "clients.json").unlink()
    result = fedloom("resume", tmp_path / "a", "--json", cwd=tmp_path.parent)  # another process and folder
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == whole
    assert json.loads((tmp_path / "a" / "clients.json").read_text())


NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, inputs, classes, width=4):
        super().__init__()
        self.body, self.head = nn.Linear(inputs, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x.flatten(1)).relu())
"""


@pytest.mark.slow
def test_a_model_of_ones_own_runs_from_its_file_and_is_found_again(inside, tmp_path):
    (tmp_path / "net.py").write_text(NET)
    few = ["--task", "digits", "--clients", "2", "--rounds", "1", "--quiet", "--json"]
    result = inside("run", *few, "--model", "net.py:Net:width=6", "--workers", "2", "--out", "run")
    assert result.returncode == 0, result.stderr
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert (config["task"]["model"], config["task"]["model_options"]) == (f"{tmp_path}/net.py:Net", {"width": 6})
    whole = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    (tmp_path / "run" / "clients.json").unlink()
    result = fedloom("resume", tmp_path / "run", "--json", cwd=tmp_path.parent)  # another process and folder
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == whole
    result = inside("sweep", *few, "--grid", "task.model=logistic,net.py:Net:width=6", "--out", "sweep")
    assert result.returncode == 0, result.stderr


def test_a_model_of_ones_own_goes_to_the_sites_of_a_deployment(inside, tmp_path):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "run.toml").write_text('rounds = 1\n[task]\nname = "digits"\nclients = 2\nmodel = "net.py:Net"\n')
    result = inside("deploy", "init", "run.toml", "--clients", "a,b", "--rehearsal", "--no-proxy")
    assert result.returncode == 0, result.stderr
    for place in ("server", "a", "b"):
        assert (tmp_path / "deploy" / place / "net.py").read_text() == NET


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_has_a_line_for_each_thing(kind, inside):
    rows = json.loads(inside("list", kind, "--json").stdout)
    assert rows
    assert all(row["name"] and row["about"] for row in rows)


def test_data_shows_counts_and_draws_a_picture(inside, tmp_path):
    words = ["data", "digits", "--clients", "5", "--alpha", "0.1"]
    values = json.loads(inside(*words, "--json", "--png", "p.png").stdout)
    assert values["clients"] == 5
    assert sum(map(sum, values["counts"])) == values["train_samples"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_data_reads_sentences_and_series_as_a_run_does(inside, tmp_path):
    rows = "\n".join(f"the soup was {'good' if n % 2 else 'cold'} on day {n},{n % 2},h{n % 3}" for n in range(60))
    csv(tmp_path, "review,label,client\n" + rows)
    assert json.loads(inside("data", "own.csv", "--text", "review", "--json").stdout)["input_shape"] == [7]
    rows = "\n".join(f"{n // 4},{n % 4},{n}.5,{n // 4 % 2},h{n // 4 % 3}" for n in range(160))
    csv(tmp_path, "visit,minute,pulse,label,client\n" + rows)
    series = ["own.csv", "--set", "task.sequences={series='visit', order='minute'}"]
    assert json.loads(inside("data", *series, "--json").stdout)["input_shape"] == [2, 4]
    assert "only task.dates, task.images, task.sequences, " in refusal(
        inside("data", "own.csv", "--set", "task.seed=1")
    )


def test_data_speaks_of_classes_only_where_there_are_some(inside, tmp_path):
    csv(tmp_path, "age,days,cost,client\n" + "\n".join(f"{n},{n}.5,{n % 7}.25,h{n % 3}" for n in range(60)))
    shown = inside("data", "own.csv", "--target", "days,cost").stdout
    assert "numbers" in shown
    assert "class" not in shown


def test_a_users_csv_is_trained_on(inside, tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3},{'yes' if i % 2 else 'no'},h{i % 4}" for i in range(200))
    csv(tmp_path, "age,dose,outcome,hospital\n" + rows)
    words = [
        "run",
        "--data",
        "own.csv",
        "--target",
        "outcome",
        "--client-column",
        "hospital",
        "--rounds",
        "2",
        "--json",
    ]
    result = inside(*words)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rounds"] == 2


def test_rows_of_one_patient_stay_together_and_predict_ignores_the_column(inside, tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3},{'yes' if i % 2 else 'no'},h{i % 4},p{i // 5}" for i in range(200))
    csv(tmp_path, "age,dose,outcome,hospital,patient\n" + rows)
    own = ["own.csv", "--target", "outcome", "--client-column", "hospital", "--group-column", "patient"]
    shown = json.loads(inside("data", *own, "--json").stdout)
    assert shown["clients"] == 4
    result = inside("run", "--data", *own, "--rounds", "1", "--out", "run", "--json")
    assert result.returncode == 0, result.stderr
    assert 'group_column = "patient"' in (tmp_path / "run" / "config.toml").read_text()
    assert inside("predict", "run", "own.csv", "--json").returncode == 0


MISTAKES = {
    "group column of a data set": (["--task", "digits", "--group-column", "patient"], "leave out group_column"),
    "unknown method": (["--method", "fedprx"], "unknown method 'fedprx'. Did you mean 'fedprox'?"),
    "unknown task": (["--task", "digit"], "Did you mean 'digits'?"),
    "unknown model": (["--model", "mlpp"], "Did you mean 'mlp'?"),
    "too many clients": (["--clients", "5000"], "clients=5000 is more than"),
    "no clients": (["--clients", "0"], "task.clients=0 in the configuration: it must be at least 1"),
    "negative rate": (["--lr", "-0.1"], "local.lr=-0.1 in the configuration: it must be above 0"),
    "missing data": (["--task", "cifar10"], "fedloom data get cifar10"),
    "unknown key": (["--set", "local.momentun=0.9"], "Did you mean 'local.momentum'?"),
    "unknown hyper-parameter": (["--method", "fedprox:nu=3"], "Did you mean 'mu'?"),
    "wrong type": (["--set", "local.lr=fast"], "local.lr='fast'"),
    "rounds": (["--rounds", "0"], "rounds=0 in the configuration: it must be at least 1"),
    "two divisions": (["--alpha", "1", "--partition", "iid"], "give one"),
    "two counts": (["--number", "2", "--fraction", "0.5"], "give one"),
    "too many per round": (["--number", "50", "--clients", "10"], "there are only 10"),
    "no meaning": (["--method", "local", "--set", "server_optimizer.kind=adam"], "drop server_optimizer"),
    "two optimisers": (["--method", "fedadam", "--set", "server_optimizer.kind=yogi"], "its own server optimiser"),
    "bad setting": (["--set", "rounds"], "write it as key=value"),
    "size groups": (["--set", "size_groups=[9,3]"], "the first below the second"),
    "missing file": (["nowhere.toml"], "there is no configuration file nowhere.toml"),
    "method without its option": (["fedprox:mu=1"], "for a method write --method fedprox:mu=1"),
    "missing own data": (["--data", "nowhere.csv"], "nowhere.csv does not exist"),
    "unknown execution": (["--execution", "fast"], "unknown execution 'fast'"),
    "unknown tracker": (["--track", "comet"], "unknown tracker 'comet'"),
    "own method's file": (["--method", "mine.py:Mine"], "there is no file"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(mistake, inside, tmp_path):
    words, part = mistake
    assert part in refusal(inside("run", *words))
    assert list(tmp_path.iterdir()) == []


OWN = {
    "missing column": ("a,b,client\n1,2,x\n", "label"),
    "not a number": ("a,label,client\n" + "".join(f"{n},{n % 2},x\n" for n in range(30)) + "cold,1,x\n", "row 31"),
    "infinite": ("a,label,client\n1,0,x\ninf,1,x\n", "row 2"),
    "empty": ("a,label,client\n", "own.csv"),
}


@pytest.mark.parametrize("case", OWN.values(), ids=OWN)
def test_a_broken_csv_is_named_by_column_and_row(case, inside, tmp_path):
    text, part = case
    csv(tmp_path, text)
    sentence = refusal(inside("run", "--data", "own.csv"))
    assert "own.csv" in sentence
    assert part in sentence


def test_a_table_without_a_client_column_is_asked_for_one_and_made_up_clients_are_mentioned(inside, tmp_path):
    csv(tmp_path, "a,hospital,label\n" + "".join(f"{n},h{n % 4},{n % 2}\n" for n in range(40)))
    sentence = refusal(inside("run", "--data", "own.csv"))
    assert "'hospital' (4 values) may be one" in sentence
    made = inside("run", "--data", "own.csv", "--clients", "3", "--rounds", "1", "--out", "run")
    assert "3 clients are made up: the samples are divided by iid" in made.stderr
    named = inside("run", "--data", "own.csv", "--client-column", "hospital", "--rounds", "1", "--out", "named")
    assert "made up" not in named.stderr


def test_whole_numbers_are_classes_wherever_they_begin(inside, tmp_path):
    import numpy as np

    np.savez(tmp_path / "own.npz", x=np.eye(30)[:, :4], y=np.arange(30) % 3 - 1)
    assert inside("run", "--data", "own.npz", "--clients", "3", "--rounds", "1", "--out", "run").returncode == 0
    names = json.loads((tmp_path / "run" / "partition.json").read_text())["class_names"]
    assert names == ["-1", "0", "1"]


def test_a_config_with_an_unknown_key_and_one_that_is_no_toml_are_refused(inside, tmp_path):
    (tmp_path / "a.toml").write_text("roundz = 3\n")
    assert "Did you mean 'rounds'?" in refusal(inside("run", "a.toml"))
    (tmp_path / "b.toml").write_text("rounds = = 3\n")
    assert "b.toml is not valid TOML" in refusal(inside("run", "b.toml"))


def test_a_folder_of_another_version_or_of_no_run_is_not_resumed(inside, tmp_path):
    inside("run", *SMALL, "--out", "a")
    config = tmp_path / "a" / "config.toml"
    config.write_text(config.read_text().replace(f'fedloom = "{__version__}"', 'fedloom = "0.0.1"'))
    assert "config.toml was changed since the run wrote it" in refusal(inside("resume", "a"))
    for manifest in (tmp_path / "a" / "checkpoints").glob("manifest-*"):  # versions before 0.6 wrote none
        manifest.unlink()
    assert "was written by Fedloom 0.0.1" in refusal(inside("resume", "a"))
    assert "not the folder of a run" in refusal(inside("resume", "."))


def test_a_run_is_never_overwritten(inside, tmp_path):
    inside("run", *SMALL, "--out", "a")
    before = (tmp_path / "a" / "metrics.jsonl").read_bytes()
    assert "already contains a run" in refusal(inside("run", *SMALL, "--out", "a"))
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == before


def test_faults_in_a_users_own_method_are_told_in_a_sentence(inside, tmp_path):
    (tmp_path / "mine.py").write_text("import fedloom as fl\nclass Mine(fl.FedAvg)\n    pass\n")
    assert "SyntaxError" in refusal(inside("run", "--method", "mine.py:Mine"))
    (tmp_path / "mine.py").write_text("x = 1\n")
    assert "no class Mine" in refusal(inside("run", "--method", "mine.py:Mine"))


def test_help_needs_no_torch(tmp_path):
    code = "import sys, fedloom.cli.app; print('torch' in sys.modules or 'numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.stdout.strip() == "False"


def test_importing_the_library_imports_neither_torch_nor_anything_heavy():
    code = "import sys, fedloom; print([m for m in ('torch', 'numpy', 'sklearn', 'matplotlib') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
def test_using_the_library_leaves_plots_and_scikit_learn_alone():
    code = "import sys, fedloom as fl; fl.run; fl.FedAvg; print([m for m in ('sklearn', 'matplotlib', 'pandas') if m in sys.modules])"  # fmt: skip # noqa: E501
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tmp_path):
    words = [*FEDLOOM, "run", *SMALL[:-3], "--rounds", "100000", "--quiet", "--out", "a"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: process.poll() is not None or list((tmp_path / "a").glob("checkpoints/round-*")))
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "fedloom resume a" in error


def test_python_and_the_command_line_write_the_same_config(tmp_path, fedloom):
    fl.run("digits", "fedprox:mu=0.1", rounds=1, seed=3, out=tmp_path / "python")
    fedloom("run", "--method", "fedprox:mu=0.1", "--rounds", "1", "--seed", "3", "--out", "shell")
    both = [(tmp_path / name / "config.toml").read_text() for name in ("python", "shell")]
    assert both[0] == both[1]
    assert "clients = 20" in both[0]  # what the data say is written out too
