"""Options that several commands share: selectors with settings, by name or by file."""

import re

import pytest

import fedloom as fl
from support.paths import DOCS

SMALL = ["--task", "digits", "--clients", "6", "--rounds", "2", "--eval-every", "0", "--quiet", "--json"]


def test_the_command_line_names_a_selector_with_settings(tmp_path, fedloom):
    words = ["run", *SMALL, "--selection", "poc:candidates=4,by_size=true", "--number", "2", "--out", tmp_path / "a"]
    done = fedloom(*words)
    assert done.returncode == 0, done.stderr
    selection = {
        "name": "powerofchoice",
        "fraction": 1.0,
        "number": 2,
        "candidates": 4,
        "by_size": True,
        "loss_on": "validation",
    }
    assert fl.History.load(tmp_path / "a").config["selection"] == {**selection, "estimate": "full"}
    words = [
        "run",
        tmp_path / "a" / "config.toml",
        "--selection",
        "powerofchoice:candidates=5",
        "--out",
        tmp_path / "b",
    ]
    done = fedloom(*words, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    changed = fl.History.load(tmp_path / "b").config["selection"]
    assert changed == {**selection, "estimate": "full", "candidates": 5}
    words = ["run", tmp_path / "a" / "config.toml", "--selection", "rawcs:level=low", "--out", tmp_path / "c"]
    done = fedloom(*words, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    assert fl.History.load(tmp_path / "c").config["selection"] == {"name": "rawcs", "level": "low"}


def test_a_comparison_takes_a_selector(tmp_path, fedloom):
    words = ["compare", *SMALL, "--selection", "oort", "--fraction", "0.5", "--out", tmp_path / "c", "fedavg", "local"]
    done = fedloom(*words)
    assert done.returncode == 0, done.stderr
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
def test_mistakes_on_the_command_line_get_one_sentence(tmp_path, fedloom, words, sentence):
    done = fedloom("run", *SMALL, *words, "--out", tmp_path / "a")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_users_selector_is_named_by_its_file_with_settings(tmp_path, fedloom):
    page = (DOCS / "selection.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_file.py").write_text(block.partition("\ntask =")[0])
    words = ["run", *SMALL, "--selection", "my_file.py:LeastOften:number=3", "--out", "a"]
    done = fedloom(*words)
    assert done.returncode == 0, done.stderr
    history = fl.History.load(tmp_path / "a")
    assert history.config["selection"] == {"name": f"{tmp_path}/my_file.py:LeastOften", "number": 3}
    assert sorted(history.records[0]["selected"] + history.records[1]["selected"]) == [0, 1, 2, 3, 4, 5]


def test_what_only_a_run_continues_with_is_refused_for_a_plan(tmp_path, fedloom):
    assert fedloom("compare", *SMALL, "--out", tmp_path / "c", "fedavg", "local").returncode == 0
    words = ["--set", "local.lr=0.1", "--from-round", "1", "--engine", "inline"]
    said = fedloom("resume", tmp_path / "c", *words).stderr
    assert "--from-round and --set and --engine: only the resume of a single run takes this, not that of a comp" in said
