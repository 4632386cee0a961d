"""Flow tasks: clients, classes and parts, and FullGN through methods, stages and engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.models.fullgn import FullGN
from fedloom.tasks.flows.corpus import Corpus, Organisation
from fedloom.tasks.flows.flow import Edge, Flow, Node
from fedloom.tasks.flows.formats.packed_corpus import write_packed
from fedloom.tasks.flows.formats.read_corpus import read_folder
from fedloom.tasks.flows.formats.real_corpora import BPMN_FILE, N8N_FILE
from fedloom.tasks.flows.learning.flow_federation import FlowClasses, schema_of
from fedloom.tasks.flows.learning.flow_task import task_of_corpus
from fedloom.tasks.flows.platform_kinds import KINDS, NEVER_TARGETS, SUBKINDS
from fedloom.tasks.flows.rules import N8N, PLATFORM
from fedloom.training.execution import decide
from support import small_flows
from support.paths import DATA_FOLDER

CORPUS = small_flows.corpus(4, 12)


def small_task(corpus: Corpus = CORPUS, **settings: Any) -> Task:
    return task_of_corpus(corpus, **{"model_options": {"width": 8, "blocks": 3}, **settings})


def named_task(name: str, **settings: Any) -> Task:
    return fl.task(name, **{"model_options": {"width": 8, "blocks": 3}} | settings)


def parts(task: Task) -> dict[str, list[list[int]]]:
    held = task.federation
    return {name: [getattr(held, name)[k].tolist() for k in range(held.clients)] for name in ("train", "valid", "test")}


# -- points and classes


def test_every_action_but_those_nobody_predicts_is_a_point_with_its_kind_as_class() -> None:
    nodes = (*small_flows.flow(1).nodes, Node("c", "Comment"))
    commented = Flow(nodes, (*small_flows.flow(1).edges, Edge("if", "c")))  # the platform would not join it
    task = small_task(Corpus((Organisation("one", (commented, small_flows.flow(2))),), PLATFORM))
    names = task.federation.class_names
    found = sorted(names[y] for y in task.federation.columns["y"].tolist())
    there = [node.kind for flow in (commented, small_flows.flow(2)) for node in flow.nodes]
    assert found == sorted(kind for kind in there if kind not in NEVER_TARGETS)


def test_the_platform_has_the_documents_classes() -> None:
    assert FlowClasses.of(CORPUS).names == (*KINDS, "unknown")
    assert FlowClasses.of(CORPUS, "subkind").names == (*SUBKINDS, "unknown")
    assert (len(FlowClasses.of(CORPUS).names), len(FlowClasses.of(CORPUS, "subkind").names)) == (27, 196)


def test_a_subkind_is_the_class_where_a_node_has_one() -> None:
    classes = FlowClasses.of(CORPUS, "subkind")
    nodes = [Node("1", "If", {"subkind": "If/Empty"}), Node("2", "Assign"), Node("3", "If", {"subkind": "If/New"})]
    assert [classes.names[i] for i in classes.numbers(nodes)] == ["If/Empty", "Assign", "unknown"]


def test_real_kinds_that_are_rare_are_one_class() -> None:
    flow = Flow(
        (Node("s", "Start"), Node("a", "set"), Node("b", "set"), Node("c", "rare"), Node("e", "End")),
        (Edge("s", "a"), Edge("a", "b"), Edge("b", "c"), Edge("c", "e")),
    )
    corpus = Corpus((Organisation("one", (flow, flow)),), N8N)
    assert FlowClasses.of(corpus, least_count=2).names == ("End", "rare", "set", "other")
    classes = FlowClasses.of(corpus, least_count=3)
    assert classes.names == ("set", "other")
    assert classes.numbers(flow.nodes[1:]) == [0, 0, 1, 1]


def test_subkinds_describe_actions_only_where_they_are_predicted() -> None:
    node = Node("a", "Assign", {"subkind": "Assign", "module": "m"})
    flow = Flow((Node("s", "Start"), node, Node("e", "End")), (Edge("s", "a"), Edge("a", "e")))
    corpus = Corpus((Organisation("one", (flow, flow)),), PLATFORM)
    assert list(schema_of(corpus, "kind").node) == ["kind", "module"]
    assert list(schema_of(corpus, "subkind").node) == ["kind", "module", "subkind"]


def test_widths_are_the_documents() -> None:
    task = task_of_corpus(CORPUS)
    assert isinstance(task.model, FullGN)
    assert (task.model.node.width, task.model.edge.width, task.model.graph.width) == (117, 18, 163)
    assert task.model(task.inputs(task.federation.train[0][:3])).shape == (3, 27)
    task = task_of_corpus(CORPUS, label="subkind")
    assert (task.model.node.width, task.model.edge.width, task.model.graph.width) == (119, 18, 165)
    assert task.model(task.inputs(task.federation.train[0][:3])).shape == (3, 196)


# -- parts


def test_all_points_of_a_flow_are_in_one_part_of_one_client() -> None:
    task = small_task()
    flow_of = task.federation.columns["x"][:, 0]
    seen: dict[int, tuple[str, int]] = {}
    for name, lists in parts(task).items():
        for client, positions in enumerate(lists):
            for flow in flow_of[positions].tolist():
                assert seen.setdefault(flow, (name, client)) == (name, client)
    assert len(seen) == sum(len(organisation.flows) for organisation in CORPUS.organisations)
    assert {place for _, place in seen.values()} == {0, 1, 2, 3}


def test_points_are_shared_as_nearly_as_whole_flows_can() -> None:
    task = small_task(test_share=0.15, valid_share=0.15)
    largest = max(len(flow.nodes) - 1 for organisation in CORPUS.organisations for flow in organisation.flows)
    for name, share in (("test", 0.15), ("valid", 0.15), ("train", 0.7)):
        for positions, whole in zip(parts(task)[name], task.federation.points.tolist(), strict=True):
            assert abs(len(positions) - share * whole) <= largest


def test_without_a_share_there_is_no_such_part_and_two_flows_make_two_parts() -> None:
    task = small_task(test_share=0.5, valid_share=0.0)
    assert not int(task.federation.valid.sizes.sum())
    few = small_flows.corpus(2, 2)
    assert small_task(few, test_share=0.01, valid_share=0.01).federation.test.sizes.min() > 0
    assert small_task(few, test_share=0.9, valid_share=0.05).federation.train.sizes.min() > 0


def test_who_else_takes_part_does_not_change_an_organisations_parts() -> None:
    def training_inputs(task: Task, client: int) -> list[list[int]]:
        positions = task.federation.train[client]
        return task.inputs(positions).tolist()

    last_two = replace(CORPUS, organisations=CORPUS.organisations[2:])
    whole, some = small_task(), small_task(last_two, vocabulary=CORPUS)
    assert training_inputs(whole, 2) == training_inputs(some, 0)
    assert training_inputs(whole, 3) == training_inputs(some, 1)


def test_extra_flows_are_tested_on_and_do_not_count() -> None:
    first, *others = CORPUS.organisations
    extra = tuple(small_flows.flow(1000 + i) for i in range(9))
    task, plain = small_task(replace(CORPUS, organisations=(replace(first, extra=extra), *others))), small_task()
    more = sum(len(flow.nodes) - 1 for flow in extra)
    assert task.federation.test.sizes.tolist()[0] == plain.federation.test.sizes.tolist()[0] + more
    assert torch.equal(task.federation.train.sizes, plain.federation.train.sizes)
    assert torch.equal(task.federation.points, plain.federation.points)
    assert torch.equal(task.federation.points, plain.federation.train.sizes + plain.federation.valid.sizes + plain.federation.test.sizes)  # fmt: skip # noqa: E501
    assert len(task.federation.global_test) == len(plain.federation.global_test)


def test_sizes_that_count_move_with_the_data_when_they_drift() -> None:
    first, *others = CORPUS.organisations
    held = replace(CORPUS, organisations=(replace(first, flows=first.flows[:3]), *others))
    task = small_task(held, drift={"rounds": [2]})
    before, after = task.federation, task.federation.at(2)
    assert sorted(before.points.tolist()) == sorted(after.points.tolist())
    assert before.points.tolist() != after.points.tolist()
    assert torch.equal(after.points, after.train.sizes + after.valid.sizes + after.test.sizes)


def test_the_same_seed_makes_the_same_task_and_another_another() -> None:
    a, b, c = small_task(seed=1), small_task(seed=1), small_task(seed=2)
    assert parts(a) == parts(b) != parts(c)
    assert torch.equal(a.federation.columns["x"], b.federation.columns["x"])
    assert torch.equal(a.initial_row(), b.initial_row())
    assert not torch.equal(a.initial_row(), c.initial_row())


def test_a_class_is_withheld_by_its_number_which_its_name_finds() -> None:
    label = list(small_task().federation.class_names).index("If")
    task = small_task(withhold={"label": label, "clients": [1]})
    y = task.federation.columns["y"]
    assert not (y[task.federation.train[1]] == label).any()
    assert (y[task.federation.test[1]] == label).any()
    assert (y[task.federation.train[0]] == label).any()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"test_share": 1.0}, "test_share=1.0: it must be at least 0 and less than 1"),
        ({"test_share": 0.6, "valid_share": 0.4}, "leave nothing for training"),
        ({"model": "lenet"}, "model 'lenet' cannot be used for flows: use fullgn"),
        ({"model_options": {"depth": 3}}, "depth"),
    ],
)
def test_what_makes_no_task_is_refused(settings: Mapping[str, Any], said: str) -> None:
    with pytest.raises(FedloomError, match=said):
        small_task(**settings)


def test_an_organisation_with_nothing_to_predict_is_refused() -> None:
    lone = Flow((Node("s", "Start"),), ())
    with pytest.raises(FedloomError, match="organisation 'empty' has no action to predict"):
        small_task(replace(CORPUS, organisations=(*CORPUS.organisations, Organisation("empty", (lone,)))))


def test_a_model_of_ones_own_takes_packed_flows() -> None:
    class Bias(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(1, 27)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(x[:, 2:3].float())

    task = small_task(model=Bias(), model_options=None)
    assert task.made_from == {}
    assert fl.run(task, "fedavg", rounds=1).last("client_model/own_test/accuracy/mean") is not None


# -- named tasks


def test_a_folder_per_organisation_is_a_task_that_can_be_made_again(tmp_path: Path) -> None:
    small_flows.write_folder(tmp_path / "own")
    task = named_task("own-flows", path=str(tmp_path / "own"), options={"least_count": 2})
    assert list(task.federation.names) == ["east", "north", "south"]
    again = fl.task(**{k: v for k, v in task.made_from.items() if k != "name"}, name="own-flows")
    assert torch.equal(again.initial_row(), task.initial_row())
    assert parts(again) == parts(task)
    assert again.made_from == task.made_from


def test_a_packed_file_is_the_same_task_as_the_folder(tmp_path: Path) -> None:
    small_flows.write_folder(tmp_path / "own")
    write_packed(read_folder(tmp_path / "own"), tmp_path / "own.npz")
    folder, packed = (named_task("own-flows", path=str(tmp_path / name)) for name in ("own", "own.npz"))
    assert parts(folder) == parts(packed)
    assert torch.equal(folder.federation.columns["x"], packed.federation.columns["x"])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: named_task("own-flows"), "needs a path: a folder of flows"),
        (lambda home: named_task("n8n", path=str(home)), "takes no path: use own-flows"),
        (lambda home: named_task("own-flows", path=str(home / "nowhere")), "does not exist: name a folder"),
        (lambda home: named_task("own-flows", path=str(home)), "no sub-folder with .json, .bpmn, .xml files"),
        (lambda _: named_task("flow", clients=2), "Did you mean 'flows'"),
        (lambda _: named_task("flows-subkind", options={"label": "kind"}), "it predicts subkinds; use the task flows"),
        (lambda _: named_task("flows", options={"lable": "kind"}), "lable"),
        (lambda _: named_task("flows", options={"label": "name"}), "label='name'"),
        (
            lambda _: named_task("n8n", options={"least_flows": 0}),
            "least_flows=0 .*: it must be at least 1",
        ),
    ],
)
def test_wrong_requests_are_answered_in_one_sentence(make: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(FedloomError, match=said):
        make(tmp_path)


def test_a_broken_flow_in_a_folder_is_named(tmp_path: Path) -> None:
    small_flows.write_folder(tmp_path / "own")
    file = tmp_path / "own" / "north" / "0.json"
    file.write_text(file.read_text().replace('"kind": "Start"', '"kind": "Assign"'))
    with pytest.raises(FedloomError, match=r"north/0\.json: "):
        named_task("own-flows", path=str(tmp_path / "own"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "classes"), [("flows", 27), ("flows-subkind", 196)])
def test_the_synthetic_tasks_have_the_documents_shapes(name: str, classes: int) -> None:
    task = fl.task(name, clients=3, options={"largest": 700}, test_share=0.15, valid_share=0.15)
    assert task.federation.classes == classes
    assert task.federation.points.tolist()[0] == 80
    assert task.federation.points.tolist()[-1] == 700
    assert task.federation.test.sizes[0] >= 300
    assert fl.task(**task.made_from).made_from == task.made_from


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), [("n8n", N8N_FILE), ("bpmn", BPMN_FILE)])
def test_real_flows_make_tasks(name: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (DATA_FOLDER / file).is_file():
        pytest.skip(f"{file} is not in {DATA_FOLDER}")
    monkeypatch.setenv("FEDLOOM_DATA", str(DATA_FOLDER))
    task = fl.task(name, test_share=0.15, valid_share=0.15)
    held = task.federation
    assert "unknown" not in held.names
    assert held.clients == {"n8n": 159, "bpmn": 8}[name]
    assert {"End", "other"} <= set(held.class_names)
    assert "Start" not in held.class_names
    assert task.model(task.inputs(held.test[0][:50])).shape == (50, held.classes)
    assert int(held.columns["x"][:, 2].max()) <= 60


# -- FullGN through everything else


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "fedrep", "fedhybridavglgdual", "fedavg+fedpredict", "moon"])
def test_fullgn_trains_with_any_method_and_with_two_workers_to_the_same_bytes(method: str) -> None:
    first, *others = small_flows.corpus(3, 10).organisations
    task = small_task(Corpus((replace(first, flows=first.flows[:5]), *others), PLATFORM))
    settings = {"rounds": 3, "local": {"lr": 0.05, "batch_size": 16, "epochs": 2}, "seed": 4}
    chosen: Any = method
    if method == "fedhybridavglgdual":
        chosen = fl.FedHybridAvgLGDual(threshold=int(task.federation.points[0]))
    one, two = (fl.run(task, chosen, workers=workers, **settings) for workers in (1, 2))
    losses = one.series("client_model/own_test/loss/mean")[1]
    assert one.records == two.records
    assert losses[-1] < losses[0]


def test_a_cohort_of_flows_trains_client_by_client() -> None:
    assert decide(small_task(), "vectorised", LocalWork(batch_size=4)).name == "loop"
