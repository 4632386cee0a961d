"""``fedloom flows recommend`` and ``export``: from a run's folder to ranked actions, and what goes wrong on the way."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import fedloom as fl
from fedloom.cli.flows.app import flows
from fedloom.runs.folder.checkpoint import save_start
from fedloom.runs.results.client_model import client_model, client_standalone_model
from fedloom.tasks.flows.formats.flow_json import write_flow
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.rules import PLATFORM
from support import small_flows
from support.command_line import json_output, output, refusal
from support.folders import vouch_again
from support.paths import FLOW_EXAMPLES

METHODS = ("fedavg", "fedavg+fedpredict", "fedrep", "fedhybridavglgdual:threshold=24", "fedavg+finetune")
PERSONAL = "fedavg+fedpredict"
EXAMPLES = FLOW_EXAMPLES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a few methods on small flows, and a flow to go on with."""
    home = tmp_path_factory.mktemp("flows")
    small_flows.write_folder(home / "own")
    task = fl.task("own-flows", path=str(home / "own"), model_options={"width": 8, "blocks": 2})
    for method in METHODS:
        fl.run(task, method, rounds=2, out=home / method.partition(":")[0], local={"lr": 0.05, "batch_size": 16})
    write_flow(home / "flow.json", small_flows.flow(1), PLATFORM)
    (home / "digits").mkdir()
    (home / "digits" / "config.toml").write_text(f'made_by.fedloom = "{fl.__version__}"\n[task]\nname = "digits"\n')
    model = client_standalone_model(home / PERSONAL, "north")
    model.write(home / "model")
    whole = (home / "model").read_bytes()
    (home / "cut").write_bytes(whole[:-9])
    (home / "diverged").write_bytes(whole[:-4] + np.float32("nan").tobytes())
    save_file(load_file(home / "model"), home / "other")
    shutil.copy(EXAMPLES / "support_mail.n8n.json", home)
    return home


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_a_clients_model_is_the_one_that_the_run_scored(folder: Path, method: str) -> None:
    run = folder / method.partition(":")[0]
    for row in json.loads((run / "clients.json").read_text()):
        found = client_model(run, row["name"])
        task = found.task
        task.layout.fill(task.model, found.row)
        positions = task.federation.test[row["client"]]
        with torch.no_grad():
            losses, _ = task.objective.losses(task.model(task.inputs(positions)), task.targets(positions))
        assert float(losses.mean()) == pytest.approx(row["loss"], rel=1e-6)
        assert (found.client, found.method) == (row["name"], method.partition(":")[0])


def test_an_exported_model_says_to_the_bit_what_the_run_says(folder: Path) -> None:
    answers = []
    for client in ("north", "east"):
        output(flows, "export", folder / PERSONAL, "--client", client, "--out", folder / "model.safetensors")
        where = (folder / "flow.json", "--after", "if", "--label", "True", "--top", 50)
        of_run = json_output(flows, "recommend", folder / PERSONAL, *where, "--client", client)
        of_file = json_output(flows, "recommend", folder / "model.safetensors", *where)
        assert of_run.pop("milliseconds") > 0
        assert of_file.pop("milliseconds") > 0
        assert of_file == of_run
        assert of_run["model"]["client"] == client
        assert sum(one["probability"] for one in of_run["suggestions"]) == pytest.approx(1, abs=1e-5)
        answers.append(of_run["suggestions"])
    assert answers[0] != answers[1]


def test_a_model_that_all_share_needs_no_client(folder: Path) -> None:
    shared, whose = folder / "shared.safetensors", folder / "north.safetensors"
    assert "the model that all clients share" in output(flows, "export", folder / "fedavg", "--out", shared)
    assert "the model of 'north'" in output(flows, "export", folder / "fedavg", "--client", "north", "--out", whose)
    assert all(torch.equal(a, b) for a, b in zip(load_file(shared).values(), load_file(whose).values(), strict=True))
    assert (
        json_output(flows, "recommend", folder / "fedavg", folder / "flow.json", "--after", "if")["model"]["client"]
        == ""
    )


def test_the_answer_is_a_ranked_list_for_people(folder: Path) -> None:
    lines = output(flows, "recommend", folder / "model", folder / "flow.json", "--after", "if", "--top", 3)
    first, *ranked, last = lines.splitlines()
    assert re.fullmatch(r"Answered in \d+ ms, once the model was loaded\.", last)
    assert first == f"After 'if' (If), the model of 'north' ({PERSONAL}) expects:"
    suggestions = Recommender.load(folder / "model").recommend(small_flows.flow(1), 3, "if")
    assert [line.split() for line in ranked] == [
        [f"{place}.", f"{probability:.1%}", kind] for place, (kind, probability) in enumerate(suggestions, 1)
    ]


def test_unknown_words_and_labels_are_noted(folder: Path) -> None:
    order = (folder / "model", EXAMPLES / "order_approval.json", "--after", "store order")
    lines = output(flows, "recommend", *order, "--label", "Maybe").splitlines()
    assert lines[-3].startswith("Note: the model does not know 10 words of this flow: kind 'ForEach', kind 'Switch',")
    assert lines[-2] == "Note: the labels it knows: 'False', 'True'."
    assert {"element": "edge", "attribute": "label", "word": "Maybe"} in json_output(
        flows, "recommend", *order, "--label", "Maybe"
    )["unknown"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["recommend", PERSONAL, "flow.json"],
            "has its own model: choose one with --client",
        ),
        (["recommend", PERSONAL, "flow.json", "--client", "norht"], "has no client 'norht': did you mean 'north'?"),
        (["recommend", PERSONAL, "flow.json", "--client", "9"], "no client '9': there are 'east', 'north', 'south'."),
        (
            ["export", "digits", "--out", "x"],
            "of the task digits, whose models cannot be used without it",
        ),
        (["export", "nowhere", "--out", "x"], "nowhere is not the folder of a run"),
        (
            ["recommend", "model", "flow.json"],
            "every branch of this flow has reached an end: name the node to continue after with --after",
        ),
        (["recommend", "model", "flow.json", "--after", "x"], "this flow has no node 'x': the last one is 'False end'"),
        (["recommend", "model", "flow.json", "--after", "True end"], "'True end' is an end of this flow"),
        (["recommend", "model", "flow.json", "--after", "if", "--top", "0"], "top=0: it must be at least 1"),
        (["recommend", "model", "flow.json", "--client", "east"], "is the model of 'north', not of 'east'"),
        (["recommend", "model", "support_mail.n8n.json"], "is a flow of the dialect 'n8n', but this model was trained"),
        (["recommend", "cut", "flow.json"], "cut is not a readable model"),
        (["recommend", "flow.json", "flow.json"], "flow.json is not a readable model"),
        (["recommend", "diverged", "flow.json"], "has values that are not finite"),
        (["recommend", "other", "flow.json"], "not a model that fedloom flows export wrote"),
        (["recommend", "missing", "flow.json"], "there is no model file missing"),
        (["recommend", "model", "missing"], "there is no file missing"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_exit_code_2(folder: Path, words: list[str], message: str, fedloom) -> None:
    error = refusal(fedloom("flows", *words, cwd=folder))
    assert error.startswith("error: ")
    assert message in error


@pytest.mark.slow
def test_a_run_whose_data_or_models_are_gone_says_so(folder: Path, tmp_path: Path) -> None:
    small_flows.write_folder(tmp_path / "own")
    run = tmp_path / "run"
    shutil.copytree(folder / "fedavg", run)
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace(str(folder / "own"), str(tmp_path / "own")))
    vouch_again(run)
    assert client_model(run, "north").client == "north"
    shutil.rmtree(run / "checkpoints")
    save_start(run)
    with pytest.raises(fl.FedloomError, match="has no checkpoint yet"):
        client_model(run, "north")
    (tmp_path / "own" / "north" / "0.json").unlink()
    with pytest.raises(fl.FedloomError, match="was started with other data"):
        client_model(run, "north")
