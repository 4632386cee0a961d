"""Every selector inside real runs: the same bytes whatever the workers and stops, and the costs of asking."""

import json
import re
from dataclasses import fields

import pytest
import torch

import fedloom as fl
from fedloom.cli.app import main
from fedloom.core.errors import FedloomError
from fedloom.core.selector import Choice
from fedloom.runs import runner
from fedloom.runs.named_parts import make_part
from fedloom.selection.registry import SELECTOR_ALIASES, SELECTORS
from support.paths import DOCS
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


def small():
    return fl.task_of(federation([20, 9, 14, 30, 17, 11]), mlp(hidden=4))


def run(folder, selection, **settings):
    settings = {"rounds": 5, "seed": 3, "local": WORK, "selection": SELECTIONS[selection], **settings}
    fl.run(small(), out=folder, **settings)
    return written(folder)


def written(folder):
    files = [*folder.glob("checkpoints/*.safetensors"), folder / "metrics.jsonl", folder / "clients.json"]
    return {path.name: path.read_bytes() for path in files}


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
    fl.resume(tmp_path / "stopped", task=small())
    assert written(tmp_path / "stopped") == whole


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
    from safetensors.torch import load_file

    run(tmp_path / "run", "rawcs", rounds=2)
    saved = load_file(tmp_path / "run" / "checkpoints" / "round-000002.safetensors")
    assert saved["selection/battery"].dtype == torch.float64
    assert len(saved["selection/battery"]) == 6


def test_who_is_lost_is_recorded_and_was_sent_a_model():
    def losing(_):
        return Choice([0, 2], lost=[1, 5])

    task = small()
    record = fl.run(task, rounds=1, selection=losing).records[-1]
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
    record = fl.run(small(), Pairs(), rounds=1, selection={"name": "poc", "number": 1}).records[-1]
    untrained = fl.run(small(), rounds=1, local={"lr": 1e-30}).clients
    means = [
        sum(untrained[client]["loss"] * untrained[client]["train"] for client in pair)
        / sum(untrained[client]["train"] for client in pair)
        for pair in PAIRS
    ]
    assert record["selected"] == PAIRS[means.index(max(means))]


@pytest.mark.parametrize("name", ["random", "poc", "oort"])
def test_groups_are_selected_by_number(name):
    history = fl.run(small(), Pairs(), rounds=4, selection={"name": name, "number": 2}, eval_every=0)
    for record in history.records:
        assert sum(set(pair) <= set(record["selected"]) for pair in PAIRS) == 2
        assert len(record["selected"]) == 4


def test_rawcs_refuses_a_method_that_selects_groups():
    with pytest.raises(FedloomError, match="this method selects groups of clients"):
        fl.run(small(), Pairs(), rounds=1, selection="rawcs")


@pytest.mark.parametrize("name", ["powerofchoice", "power-of-choice", "Power_of_Choice", "poc", "POC"])
def test_a_selector_has_several_spellings(name):
    selector = make_part(name, SELECTORS, object, "selection", "random", SELECTOR_ALIASES)
    assert type(selector).__name__ == "PowerOfChoice"


def test_aliases_lead_to_selectors():
    assert set(SELECTOR_ALIASES.values()) <= set(SELECTORS)
    assert not set(SELECTOR_ALIASES) & set(SELECTORS)


# -- on the command line


def fedloom(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["fedloom", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr()


SMALL = ["--task", "digits", "--clients", "6", "--rounds", "2", "--eval-every", "0", "--quiet", "--json"]


def test_the_command_line_names_a_selector_with_settings(tmp_path, monkeypatch, capsys):
    words = ["run", *SMALL, "--selection", "poc:candidates=4,by_size=true", "--number", "2", "--out", tmp_path / "a"]
    code, printed = fedloom(monkeypatch, capsys, *words)
    assert code == 0, printed.err
    selection = {"name": "powerofchoice", "fraction": 1.0, "number": 2, "candidates": 4, "by_size": True}
    assert fl.History.load(tmp_path / "a").config["selection"] == {**selection, "estimate": "full"}
    words = [
        "run",
        tmp_path / "a" / "config.toml",
        "--selection",
        "powerofchoice:candidates=5",
        "--out",
        tmp_path / "b",
    ]
    code, printed = fedloom(monkeypatch, capsys, *words, "--quiet", "--json")
    assert code == 0, printed.err
    changed = fl.History.load(tmp_path / "b").config["selection"]
    assert changed == {**selection, "estimate": "full", "candidates": 5}
    words = ["run", tmp_path / "a" / "config.toml", "--selection", "rawcs:level=low", "--out", tmp_path / "c"]
    code, printed = fedloom(monkeypatch, capsys, *words, "--quiet", "--json")
    assert code == 0, printed.err
    assert fl.History.load(tmp_path / "c").config["selection"] == {"name": "rawcs", "level": "low"}


def test_a_comparison_takes_a_selector(tmp_path, monkeypatch, capsys):
    words = ["compare", *SMALL, "--selection", "oort", "--fraction", "0.5", "--out", tmp_path / "c", "fedavg", "local"]
    code, printed = fedloom(monkeypatch, capsys, *words)
    assert code == 0, printed.err
    for name in ("fedavg", "local"):
        assert fl.History.load(tmp_path / "c" / f"{name}-seed0").config["selection"]["name"] == "oort"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--selection", "ort"], "unknown selection 'ort'. Did you mean 'oort'"),
        (["--selection", "poc:candidate=3"], "unknown key in selection powerofchoice: 'candidate'"),
        (["--selection", "rawcs:level=none"], "level='none' in selection rawcs"),
        (["--selection", "rawcs", "--number", "3"], "unknown key in selection rawcs: 'number'"),
        (["--selection", "poc:candidates=1", "--number", "3"], "candidates=1 are fewer than the 3 clients"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_on_the_command_line_get_one_sentence(tmp_path, monkeypatch, capsys, words, sentence):
    code, printed = fedloom(monkeypatch, capsys, "run", *SMALL, *words, "--out", tmp_path / "a")
    assert code == 2
    assert sentence in printed.err
    assert len(printed.err.strip().splitlines()) == 1


def test_a_selector_of_ones_own_is_named_by_its_file_with_settings(tmp_path, monkeypatch, capsys):
    page = (DOCS / "selection.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_file.py").write_text(block.partition("\ntask =")[0])
    monkeypatch.chdir(tmp_path)
    words = ["run", *SMALL, "--selection", "my_file.py:LeastOften:number=3", "--out", "a"]
    code, printed = fedloom(monkeypatch, capsys, *words)
    assert code == 0, printed.err
    history = fl.History.load(tmp_path / "a")
    assert history.config["selection"] == {"name": f"{tmp_path}/my_file.py:LeastOften", "number": 3}
    assert sorted(history.records[0]["selected"] + history.records[1]["selected"]) == [0, 1, 2, 3, 4, 5]


def test_the_page_names_every_selector_and_setting():
    page = (DOCS / "selection.md").read_text()
    for name, kind in SELECTORS.items():
        (line,) = re.findall(rf"^\| `{name}`.*$", page, re.MULTILINE)
        for field in fields(kind):
            assert f"`{field.name}`" in line, f"{name}: {field.name} is not in docs/selection.md"
        assert f"## {name}\n" in page


def test_selectors_are_listed_with_their_settings(monkeypatch, capsys):
    _, printed = fedloom(monkeypatch, capsys, "list", "selectors", "--json")
    rows = {row["name"]: row["settings"] for row in json.loads(printed.out)}
    assert list(rows) == ["random", "powerofchoice", "rawcs", "oort"]
    assert rows["powerofchoice"]["candidates"] is None
    assert rows["rawcs"]["level"] == "high"
