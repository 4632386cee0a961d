"""A saved model answers to the bit like the one that was saved, and a file that is not one is refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import fedloom
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel, read_flow_model
from fedloom.tasks.flows.rules import Dialect
from support import small_flows
from support.command_line import output

TASK = small_flows.task()
Tensors = dict[str, Tensor]
About = dict[str, Any]


@pytest.fixture(scope="module")
def saved() -> SavedFlowModel:
    row = torch.randn(TASK.layout.width, generator=torch.Generator().manual_seed(3))
    return SavedFlowModel.of_task(TASK, row, "north", "fedavg+fedpredict")


@pytest.fixture
def file(saved: SavedFlowModel, tmp_path: Path) -> Path:
    saved.write(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def change_file(file: Path, change: Callable[[Tensors, About], object], **metadata: str) -> Path:
    """The same file with other tensors, other words about them, or other metadata."""
    with safe_open(file, framework="pt") as opened:
        about = json.loads(opened.metadata()["about"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        found = opened.metadata()
    change(tensors, about)
    save_file(tensors, file, {**found, "about": json.dumps(about), **metadata})
    return file


def test_a_loaded_model_answers_to_the_bit_like_the_one_that_was_saved(saved: SavedFlowModel, file: Path) -> None:
    loaded = read_flow_model(file)
    assert torch.equal(TASK.layout.row(loaded.model), TASK.layout.row(saved.model))
    for number in range(5):
        flow = small_flows.flow(number)
        before, after = Recommender(saved), Recommender(loaded)
        question = before.question(flow, "if", "True")
        assert after.question(flow, "if", "True") == question
        assert torch.equal(before.probabilities(question), after.probabilities(question))


def test_a_loaded_model_has_all_words_of_the_one_that_was_saved(saved: SavedFlowModel, file: Path) -> None:
    loaded = read_flow_model(file)
    assert replace(loaded, model=saved.model) == saved
    assert (loaded.model.blocks, loaded.model.training) == (saved.model.blocks, False)


def test_a_file_says_which_version_wrote_it(file: Path) -> None:
    with safe_open(file, framework="pt") as opened:
        assert json.loads(opened.metadata()["about"])["fedloom"] == fedloom.__version__


def test_a_dialect_of_ones_own_travels_with_the_model(saved: SavedFlowModel, tmp_path: Path) -> None:
    ours = Dialect("ours", "Start", frozenset({"End"}), frozenset({"Start", "If", "End"}), "none", plain="on")
    replace(saved, dialect=ours).write(tmp_path / "model")
    loaded = Recommender.load(tmp_path / "model")
    assert loaded.dialect == ours
    nodes = (Node("start", "Start"), Node("if", "If"))
    assert loaded.question(Flow(nodes, (Edge("start", "if"),))).edges[-1].label == "on"


def test_loading_a_model_draws_nothing(file: Path) -> None:
    before = torch.random.get_rng_state()
    read_flow_model(file)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_model_that_does_not_fit_its_words_cannot_be_made(saved: SavedFlowModel) -> None:
    with pytest.raises(FedloomError, match="there are 2 names"):
        replace(saved, classes=("a", "b"))
    with pytest.raises(FedloomError, match="does not fit a schema"):
        replace(saved, schema=replace(saved.schema, node=saved.schema.edge))


def test_a_model_with_numbers_that_are_not_finite_is_not_written(saved: SavedFlowModel, tmp_path: Path) -> None:
    row = TASK.initial_row()
    row[5] = torch.inf
    with pytest.raises(FedloomError, match="not finite"):
        SavedFlowModel.of_task(TASK, row).write(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(FedloomError, match="cannot be written"):
        saved.write(tmp_path / "nowhere" / "model")


def _set(name: str, value: object) -> Callable[[Tensors, About], object]:
    return lambda _, about: about.__setitem__(name, value)


def _tensor(make: Callable[[Tensor], Tensor], name: str = "head.2.bias") -> Callable[[Tensors, About], object]:
    return lambda tensors, _: tensors.__setitem__(name, make(tensors[name]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_tensor(lambda t: torch.full_like(t, torch.nan)), "the tensor 'head.2.bias' has values that are not finite"),
        (_tensor(lambda t: t[1:].clone()), "the tensor 'head.2.bias' is F32 [26]; it must be F32 [27]"),
        (_tensor(Tensor.double), "the tensor 'head.2.bias' is F64"),
        (lambda tensors, _: tensors.pop("head.2.bias"), "'head.2.bias' is missing"),
        (lambda tensors, _: tensors.update(extra=torch.zeros(1)), "'extra' does not belong"),
        (_set("width", 9), "is F32 [8, "),
        (_set("width", 1_000_000), "at width: expected a whole number from 1 to 1,024"),
        (_set("width", 1024), "it is too short"),
        (_set("blocks", 0), "at blocks: expected a whole number"),
        (_set("blocks", True), "at blocks: expected a whole number"),
        (_set("embeddings", {"node": [1], "edge": [18], "graph": [163]}), "there are 1 widths for 2 attributes"),
        (_set("classes", []), "there must be at least one class"),
        (_set("classes", ["a", "a"]), "there must be at least one class, and none twice"),
        (_set("classes", "Assign"), "at classes"),
        (_set("schema", {"node": {}}), "this is not a schema of flows"),
        (_set("dialect", {"name": "ours"}), "at dialect: the field 'kinds' is missing"),
        (lambda _, about: about.pop("client"), "the field 'client' is missing"),
    ],
)
def test_a_file_with_something_wrong_in_it_is_refused(
    file: Path, change: Callable[[Tensors, About], object], message: str
) -> None:
    _check_refused(change_file(file, change), message)


def _swap_classes(_: Tensors, about: About) -> None:
    about["classes"][:2] = about["classes"][1::-1]


@pytest.mark.parametrize("change", [_tensor(lambda t: t + 1e-6), _swap_classes, _set("method", "another")])
def test_a_model_that_was_changed_is_found_by_its_digest(
    file: Path, change: Callable[[Tensors, About], object]
) -> None:
    _check_refused(change_file(file, change), "is not what was written (its digest differs)")


def test_a_flipped_bit_is_found(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-400] ^= 1  # the lowest bit of a weight: still a finite number
    file.write_bytes(data)
    _check_refused(file, "is not what was written (its digest differs)")
    for command in ("recommend", "serve"):
        with pytest.raises(FedloomError, match="its digest differs"):
            output(app, "flows", command, file, *([file] if command == "recommend" else []))


def test_a_file_of_version_1_has_no_digest_and_is_read(file: Path) -> None:
    change_file(file, _set("method", "older"), version="1", digest="")
    assert read_flow_model(file).method == "older"


def test_a_file_that_is_no_model_is_refused(file: Path, tmp_path: Path) -> None:
    whole = file.read_bytes()
    for size in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        _check_refused(tmp_path / "cut", "is not a readable model")
    save_file({"a": torch.zeros(2)}, tmp_path / "other")
    _check_refused(tmp_path / "other", "holds tensors, but not a model that fedloom flows export wrote")
    _check_refused(change_file(file, lambda *_: None, version="7"), "has version '7'")
    _check_refused(change_file(file, lambda *_: None, version="1", about="{"), "not valid JSON")
    _check_refused(tmp_path / "nothing", "there is no model file")


def _check_refused(path: Path, message: str) -> None:
    with pytest.raises(FedloomError) as caught:
        read_flow_model(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
