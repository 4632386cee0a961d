"""Flow tasks at the organisations: sites read their own folders, compute what the simulator does, and tell nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch

import fedloom as fl
from fedloom.cli.flows.app import flows as flows_command
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy.participant_folder import SITE_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision.folders import init
from fedloom.deploy.settings import SiteData, SiteSettings, to_toml
from fedloom.tasks.flows.formats.flow_json import write_flow
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.rules import PLATFORM
from support import small_flows
from support.command_line import json_output
from support.flow_sites import FlowSites, flow_run, write_owners
from support.local_transport import NAMES, quick, simulate
from support.n8n_exports import bytes_of, made_workflows, private_words, texts_with, write_exports

pytestmark = pytest.mark.usefixtures(quick.__name__)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sites' folders of flows, and the operator's sample."""
    folder = tmp_path_factory.mktemp("flows")
    write_owners(folder / "flows")
    for name in ("x", "y", "z"):
        write_exports(folder / "sample" / name, made_workflows("sample", 10, ord(name)))
    return folder


@pytest.fixture(scope="module")
def blueprint(home: Path) -> Blueprint:
    return Blueprint.of(resolve(flow_run(home / "sample")), NAMES)


def settings(path: Path, client: int = 0) -> SiteSettings:
    return SiteSettings(name=[*NAMES, "judge"][client], client=client, data=SiteData(path=str(path)))


@pytest.mark.slow
def test_a_deployed_run_is_the_simulators_and_no_private_word_leaves_a_site(home: Path, tmp_path: Path) -> None:
    """Three owners, FedHybridAvgLGDual and FedPredict; the operator has never seen a word of their flows."""
    sites = FlowSites(flow_run(home / "flows"), home / "sample", home / "flows", tmp_path)
    there, here = simulate(sites.plan), sites.play_to_the_end()
    for mine, theirs in zip(here.records, there.records, strict=True):
        assert mine["bytes_up"] == theirs["bytes_up"]
        of_clients = {name: value for name, value in theirs["metrics"].items() if "global_test" not in name}
        assert mine["metrics"] == of_clients
    assert here.row is not None
    assert there.row is not None
    assert here.row.numpy().tobytes() == there.row.numpy().tobytes()

    words = private_words([home / "flows" / name for name in NAMES])
    assert len(words) > 20
    assert texts_with(words, bytes_of([home / "flows"])) == words
    assert not texts_with(words, sites.wire)
    for name in NAMES:  # what each got from the operator, and what the others have
        kept = [file.read_bytes() for file in (tmp_path / name).iterdir() if file.is_file()]
        assert len(kept) >= 3
        assert not texts_with(words, kept)
    assert not texts_with(words, bytes_of([sites.run]))


@pytest.mark.slow
def test_the_model_that_a_site_saved_recommends_and_knows_its_own_actions(home: Path, tmp_path: Path) -> None:
    sites = FlowSites(flow_run(home / "flows"), home / "sample", home / "flows", tmp_path)
    sites.play_to_the_end()
    flow = next((home / "flows" / "north").iterdir())
    for client, name in enumerate(NAMES):
        recommender = Recommender.load(tmp_path / name / "model" / "model.safetensors")
        assert recommender.saved.client == name
        assert recommender.saved.method == "fedhybridavglgdual+fedpredict"
        own = f"@{name}/n8n-nodes-{name}.{name}Ledger"
        assert own in " ".join(recommender.saved.classes)
        others = [other for other in NAMES if other != name]
        assert not any(f"{other}Ledger" in one for one in recommender.saved.classes for other in others)
        task = sites.sites[client].runtime.scoring.task
        assert recommender.saved.classes == tuple(task.federation.class_names)
        (tmp_path / name / SITE_FILE).write_bytes(to_toml(sites.sites[client].settings))
        for model in (tmp_path / name, tmp_path / name / "model"):
            answer = json_output(flows_command, "recommend", model, flow, "--after", "Wake north up", "--top", 3)
            assert answer["model"]["client"] == name
            draft = recommender.read(flow)
            expected = recommender.recommend(draft, 3, "Wake north up")
            assert [(s["kind"], s["probability"]) for s in answer["suggestions"]] == [tuple(s) for s in expected]
            assert answer["unknown"] == []
            assert answer["milliseconds"] > 0


def test_a_sites_parts_are_those_of_the_simulator(home: Path, blueprint: Blueprint) -> None:
    simulated = fl.task("own-flows", **{k: v for k, v in flow_run(home / "flows")["task"].items() if k != "name"})
    for client in range(3):
        site = blueprint.site_task(settings(home / "flows" / NAMES[client], client), home)
        assert ClientSizes.of(site.federation, client) == ClientSizes.of(simulated.federation, client)
        for part in ("train", "valid", "test"):
            mine, theirs = (getattr(task.federation, part)[client] for task in (site, simulated))
            assert torch.equal(site.prepare(site.federation.columns["x"][mine]),
                               simulated.prepare(simulated.federation.columns["x"][theirs]))  # fmt: skip
            assert torch.equal(site.targets(mine), simulated.targets(theirs))


def test_copies_of_a_flow_are_in_one_part_at_a_site(blueprint: Blueprint, tmp_path: Path) -> None:
    """The same workflow under other names: a copy of a trained flow would test nothing."""
    workflows = made_workflows("acme", 5)
    copies = [{**json.loads(json.dumps(one)), "name": f"copy {i}"} for i in range(4) for one in workflows]
    site = blueprint.site_task(settings(write_exports(tmp_path / "flows", copies)), tmp_path)
    x = site.federation.columns["x"]
    flows = {part: set(x[getattr(site.federation, part)[0], 0].tolist()) for part in ("train", "valid", "test")}
    kinds = {part: {number % 5 for number in some} for part, some in flows.items()}
    assert kinds["train"] | kinds["valid"] | kinds["test"] == set(range(5))
    assert not kinds["train"] & kinds["test"]
    assert not kinds["valid"] & (kinds["train"] | kinds["test"])


def test_an_evaluator_tests_on_all_of_its_flows(home: Path, blueprint: Blueprint) -> None:
    site = blueprint.site_task(settings(home / "flows" / "west", client=3), home)
    federation = site.federation
    assert federation.names == (*NAMES, "judge")
    assert len(federation.test[3]) == len(federation.global_test) == len(federation.columns["y"])


def test_bpmn_and_platform_flows_are_deployed_too(tmp_path: Path) -> None:
    """A site's task reads our JSON and BPMN, named .bpmn or .xml, also in sub-folders."""
    model = (Path(__file__).parents[4] / "examples" / "flows" / "invoice.bpmn").read_text()
    for owner in NAMES:
        for i, place in enumerate(("a.bpmn", "deep/b.xml", "c.bpmn")):
            file = tmp_path / "bpmn" / owner / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(model.replace('name="', f'name="{owner} {i} ', 3))
    small_flows.write_folder(tmp_path / "platform")
    for folder, sites in (("bpmn", NAMES), ("platform", ["east", "north", "south"])):
        run = flow_run(tmp_path / folder, least_flows=1, least_count=1)
        made = Blueprint.of(resolve(run), sites)
        where = tmp_path / folder / sites[1]
        task = made.site_task(SiteSettings(name=sites[1], client=1, data=SiteData(path=str(where))), tmp_path)
        assert len(task.federation.train[1])
        assert made.server_task({}).layout.width == task.layout.width


def _rename(folder: Path) -> None:
    text = (folder / "001.json").read_text()
    (folder / "001.json").write_text(text.replace('"node": "Secret', '"node": "Gone', 1))


def _entity(folder: Path) -> None:
    (folder / "001.json").unlink()
    bomb = '<!DOCTYPE d [<!ENTITY a "ha">]><d>&a;</d>'
    (folder / "001.xml").write_text(bomb)


def _large(folder: Path) -> None:
    with (folder / "001.json").open("wb") as file:
        file.truncate((16 << 20) + 1)


def _other_dialect(folder: Path) -> None:
    write_flow(folder / "flow.json", small_flows.flow(1), PLATFORM)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "001.json").write_text('{"nodes": ['), "001.json, line 1, column"),
        (lambda folder: (folder / "001.json").write_text("[1, 2]"), "001.json is JSON, but not a flow"),
        (lambda folder: (folder / "001.json").write_text('{"format": "zap"}'), "knows no flow format 'zap'"),
        (_rename, "this connection names the node 'Gone"),
        (_entity, "001.xml, line 1: a document type or entity is declared here"),
        (_large, "001.json has more than 16 MB"),
        (_other_dialect, "flow.json has the dialect 'platform'"),
        (lambda folder: [file.unlink() for file in folder.iterdir()], "has no flow files (.json, .bpmn, .xml)"),
        (lambda folder: [file.unlink() for file in sorted(folder.iterdir())[1:]], "has 1 flows of at most 200 nodes"),
    ],
)
def test_what_is_wrong_with_a_sites_flows_is_said_in_one_sentence(
    change: Callable[[Path], Any], said: str, blueprint: Blueprint, tmp_path: Path
) -> None:
    folder = write_exports(tmp_path / "flows", made_workflows("acme", 4))
    change(folder)
    with pytest.raises(FedloomError) as refusal:
        blueprint.site_task(settings(folder), tmp_path)
    sentence = str(refusal.value)
    assert sentence.startswith("site north: ")
    assert said in sentence
    assert "\n" not in sentence


def test_a_cycle_where_none_is_allowed_names_file_and_nodes(tmp_path: Path) -> None:
    small_flows.write_folder(tmp_path / "own")
    made = Blueprint.of(resolve(flow_run(tmp_path / "own")), ["east", "north", "south"])
    file = tmp_path / "own" / "north" / "0.json"
    plain = json.loads(file.read_text())
    plain["edges"].append({"source": "True 0", "target": "if"})
    file.write_text(json.dumps(plain))
    site = SiteSettings(name="north", client=1, data=SiteData(path=str(file.parent)))
    with pytest.raises(FedloomError, match=r"site north: .*0\.json: the rule 'cycles' is broken.*'if' → 'True 0'"):
        made.site_task(site, tmp_path)


def test_a_file_in_the_place_of_a_folder_is_refused(blueprint: Blueprint, tmp_path: Path) -> None:
    (tmp_path / "flow.json").write_text("{}")
    with pytest.raises(FedloomError, match=r"site north: .*flow\.json is not a folder"):
        blueprint.site_task(settings(tmp_path / "flow.json"), tmp_path)


def test_pooled_words_are_refused_at_init_unless_it_is_a_rehearsal(home: Path, tmp_path: Path) -> None:
    run = flow_run(home / "sample", vocabulary="pooled")
    (tmp_path / "run.toml").write_bytes(tomli_w.dumps(run).encode())
    with pytest.raises(FedloomError, match=r"task own-flows takes its words from .*: set vocabulary = .*--rehearsal"):
        init(tmp_path / "run.toml", tmp_path / "deploy", NAMES)
    assert not (tmp_path / "deploy").exists()
    init(tmp_path / "run.toml", tmp_path / "deploy", NAMES, rehearsal=True)
    (tmp_path / "run.toml").write_bytes(tomli_w.dumps(flow_run(home / "sample")).encode())
    folders = init(tmp_path / "run.toml", tmp_path / "own", NAMES)
    assert Blueprint.load(folders[1]).digest == Blueprint.load(folders[0]).digest
    sample = private_words((home / "sample").iterdir())
    assert sample
    assert not texts_with(sample, bytes_of(folders))
