"""``fedloom flows`` as a person meets it: outlines, pictures, one line per file, exit code 2 for what is broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedloom.cli.flows.app import flows
from fedloom.core.errors import FedloomError
from fedloom.tasks.flows import Corpus, Organisation, read_flow, write_packed
from support.command_line import output
from support.paths import FLOW_EXAMPLES

EXAMPLES = FLOW_EXAMPLES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES, tmp_path / "flows")
    return tmp_path


@pytest.mark.parametrize("path", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_show_prints_the_outline_and_draws_the_picture(path: Path, folder: Path) -> None:
    flow, dialect = read_flow(path)
    text = output(flows, "show", path, "--out", "p.svg")
    assert text.startswith(f"{flow.name} ({dialect.name}): {len(flow.nodes)} nodes")
    assert text.endswith("Picture: p.svg\n")
    assert (folder / "p.svg").read_text().startswith("<?xml")
    assert max(map(len, text.splitlines())) <= 100


def test_show_names_its_picture_after_the_file(folder: Path) -> None:
    assert "Picture: order_approval.png" in output(flows, "show", "flows/order_approval.json")
    assert (folder / "order_approval.png").is_file()


@pytest.mark.slow
def test_show_says_what_was_joined_and_what_is_unfinished(folder: Path) -> None:
    assert "Note: 1 edge was merged" in output(flows, "show", "flows/support_mail.n8n.json", "--out", "p.svg")
    text = (folder / "flows" / "order_approval.json").read_text()
    (folder / "draft.json").write_text(text.replace(',\n    {"source": "nothing to do", "target": "end"}', ""))
    assert "Unfinished: the rule 'terminal ends'" in output(flows, "show", "draft.json", "--out", "p.svg")
    assert "terminal ends" in output(flows, "check", "draft.json", code=2)
    values = json.loads(output(flows, "show", "draft.json", "--json"))
    assert values["finished"] is False
    assert "picture" not in values


def test_show_refuses_a_broken_flow_before_it_prints(folder: Path) -> None:
    text = (folder / "flows" / "order_approval.json").read_text()
    (folder / "bad.json").write_text(text.replace('"kind": "Switch"', '"kind": "Swich"'))
    with pytest.raises(FedloomError, match="known kinds"):
        output(flows, "show", "bad.json")
    assert not (folder / "bad.png").exists()


def test_check_says_of_every_file_whether_it_is_a_flow(folder: Path) -> None:
    flow, dialect = read_flow("flows/order_approval.json")
    write_packed(Corpus((Organisation("us", (flow, flow)),), dialect), folder / "flows" / "all.npz")
    lines = output(flows, "check", "flows").splitlines()
    assert lines == [
        "ok      flows/all.npz  (platform, 2 flows, 1 organisation)",
        "ok      flows/invoice.bpmn  (bpmn, 14 nodes, 16 edges)",
        "ok      flows/order_approval.json  (platform, 12 nodes, 14 edges)",
        "ok      flows/support_mail.n8n.json  (n8n, 10 nodes, 10 edges)",
        "4 files: 4 ok, 0 broken.",
    ]


def test_check_names_the_first_broken_rule_or_the_place_and_exits_with_2(folder: Path) -> None:
    good = (folder / "flows" / "order_approval.json").read_text()
    broken = folder / "broken"
    broken.mkdir()
    changes = {
        "cycle": ('"kind": "ForEach"', '"kind": "If"'),
        "two starts": ('"kind": "DataSet"', '"kind": "Start"'),
        "dangling": ('"target": "refresh the list"', '"target": "lost"'),
        "unknown kind": ('"kind": "Assign"', '"kind": "Asign"'),
    }
    for name, (old, new) in changes.items():
        assert old in good
        (broken / f"{name}.json").write_text(good.replace(old, new, 1))
    (broken / "truncated.json").write_text(good[:300])
    (broken / "bomb.bpmn").write_text('<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><x>&b;</x>')
    text = output(flows, "check", "broken", "flows", code=2)
    reasons = {
        Path(line.split("  ", 1)[1].split(",")[0].split(":")[0]).stem: line
        for line in text.splitlines()
        if "broken  " in line
    }
    assert "the rule 'cycles'" in reasons["cycle"]
    assert "the rule 'one start'" in reasons["two starts"]
    assert "the rule 'no dangling edges'" in reasons["dangling"]
    assert "the rule 'known kinds'" in reasons["unknown kind"]
    assert f"line {good[:300].count(chr(10)) + 1}, column" in reasons["truncated"]
    assert "line 1: a document type" in reasons["bomb"]
    assert text.splitlines()[-1] == "9 files: 3 ok, 6 broken."
    results = json.loads(output(flows, "check", "broken", "--json", code=2))
    assert results["broken"] == 6
    assert not any(result["ok"] for result in results["files"])


def test_check_refuses_a_folder_without_flows(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(FedloomError, match="there is no flow file"):
        output(flows, "check", "empty")
    assert "there is no file none.json" in output(flows, "check", "none.json", code=2)


@pytest.mark.parametrize("name", ["invoice.bpmn", "support_mail.n8n.json", "order_approval.json"])
def test_convert_writes_the_same_flow_in_our_format(name: str, folder: Path) -> None:
    text = output(flows, "convert", f"flows/{name}", "--out", "out.json")
    assert "out.json: " in text
    assert read_flow("out.json") == read_flow(f"flows/{name}")
    assert json.loads((folder / "out.json").read_text())["format"] == "fedloom-flow"


def test_help_teaches() -> None:
    assert "fedloom flows show my_workflow.json" in output(flows, "--help")
    for command in ("show", "check", "convert"):
        assert "Example:  fedloom flows" in output(flows, command, "--help")
