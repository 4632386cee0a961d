"""Real Flower on loopback, TLS and authenticated nodes: the simulator's numbers, and sites that misbehave."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: no real deployment is tried")

from fedloom.config.method_spec import with_method
from fedloom.config.resolve import resolve, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.deploy.flower.control import SuperLinkControl, write_app
from fedloom.deploy.operate import commands, play_run
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.saved_model import model_at
from fedloom.deploy.settings import load_site
from fedloom.tasks.flows.formats.real_corpora import N8N_FILE, read_n8n
from fedloom.tasks.flows.learning.recommender import Recommender
from support.deployment import (
    SITES,
    AnswerFunction,
    Deployment,
    Only,
    exclusions,
    final_row,
    has_ipv6,
    records,
    simulate,
    start_deployment,
    values,
    without,
)
from support.flow_sites import flow_run
from support.n8n_exports import bytes_of, export, is_simple, private_words, texts_with, write_exports
from support.paths import DATA_FOLDER
from support.waiting import LIMIT, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("deployment")]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with start_deployment(tmp_path_factory.mktemp("deployment")) as one:
        yield one


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6: the deployment is over IPv4")
def test_this_deployment_is_over_ipv6(deployment: Deployment) -> None:
    """So are all runs of this file; those of test_machines.py are over IPv4, through nginx."""
    assert {load_site(deployment.folders[name]).server for name in SITES} == {f"[::1]:{deployment.usual.port}"}
    nodes = SuperLinkControl(deployment.server).nodes()
    assert [node.online for node in nodes] == [True] * len(SITES)


SUMS = ("securesum", "ckks")
SEAMS: dict[str, Any] = {
    "aggregation": {"name": "trimmedmean", "share": 0.34},
    "channel": [{"name": "topk", "fraction": 0.2}],
    "adversary": {"name": "signflipping", "clients": [1]},
}
UNEQUAL: dict[str, Any] = {
    "task": {"name": "digits", "seed": 1, "partition": {"name": "quantities", "sizes": [1120, 292, 104]}},
}
"""Sizes as those of three organisations that have 1,493, 390 and 139 samples."""
THREE_MODELS: dict[str, Any] = {
    "task": {
        **{"name": "digits", "clients": 3, "seed": 1, "communal": 0.2},
        "models": {"mlp:hidden=[16]": [0], "mlp:hidden=[32,16]": [1], "cnn-small": [2]},
    },
    "channel": [{"name": "qsgd", "bits": 8}],
}
SUMMED_OUTPUTS: dict[str, Any] = {**THREE_MODELS, "channel": [{"name": "securesum", "limit": 64.0}]}


@pytest.mark.parametrize(
    ("method", "more"),
    [
        pytest.param("fedrep", {}, marks=pytest.mark.exhaustive),
        ("fedseq", {}),
        pytest.param("fedseq:chains=[[2,0,1]],encrypt=true", {}, id="fedseq-encrypted-chain"),
        ("fedavg+fedpredict", {}),
        pytest.param("fedavg", UNEQUAL, id="fedavg-one-has-three-quarters"),
        pytest.param("scaffold", UNEQUAL, id="scaffold-one-has-three-quarters"),
        pytest.param("scaffold", SEAMS, id="scaffold-channel-aggregator-adversary"),
        pytest.param("scaffold", {"channel": [{"name": "securesum"}]}, id="scaffold-secure-sums"),
        pytest.param("fedavg", {"channel": [{"name": "ckks"}]}, id="fedavg-homomorphic-sums"),
        pytest.param("fld", SUMMED_OUTPUTS, id="fld-three-architectures-secure-sums"),
        pytest.param("fld", THREE_MODELS, id="fld-three-architectures-quantised-outputs"),
    ],
)
def test_a_deployed_run_gives_the_simulators_numbers(deployment: Deployment, method: str, more: dict[str, Any]) -> None:
    given, sums = values(method, 3, **more), any(step["name"] in SUMS for step in more.get("channel", []))
    deployment.set_up(given)
    for name in SITES:
        shutil.rmtree(deployment.folders[name] / "model", ignore_errors=True)  # of the run before
    folder = deployment.run()
    there = simulate(given)
    assert not exclusions(folder)
    found = records(folder)
    assert [record["round"] for record in found] == [0, 1, 2, 3]
    for mine, theirs in zip(found, there.records, strict=True):
        assert (mine["selected"], mine["steps"]) == (theirs["selected"], theirs["steps"])
        assert "remarks" not in mine
        certificates = {"rel": 0.05, "abs": 4000} if sums else {"rel": 0}  # those of three sites, in both waves
        assert mine["bytes_up"] == pytest.approx(theirs["bytes_up"], **certificates)
        assert mine["metrics"] == pytest.approx(theirs["metrics"], rel=1e-5)
    for mine, theirs in zip(json.loads((folder / "clients.json").read_text()), there.clients, strict=True):
        assert mine | {"name": ""} == pytest.approx(theirs | {"name": ""}, rel=1e-5)
    if there.row is not None:
        torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)
    task = task_from_config(resolve(given))
    for number, name in enumerate(SITES):
        saved, simulated = model_at(deployment.folders[name]), there.model(task, client=number)
        assert saved.about.round == 3
        for mine, theirs in zip(saved.model.parameters(), simulated.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def cpu_seconds(work: Callable[[], object]) -> float:
    """What some work costs, whatever else the machine does."""
    began = time.process_time()
    work()
    return time.process_time() - began


OWNERS = {"north": "owner 36", "south": "owner 22", "west": "owner 55"}
SAMPLE = {"a": "owner 38", "b": "owner 46", "c": "owner 60"}
"""Owners of real n8n workflows, of similar size: the sites', and those of the operator's sample."""


@pytest.mark.skipif(not (DATA_FOLDER / N8N_FILE).is_file(), reason="the n8n corpus is not in the data folder")
def test_owners_of_n8n_workflows_train_together_and_no_private_word_crosses_the_wire(
    deployment: Deployment, tmp_path: Path
) -> None:
    """Folders of exports, FedHybridAvgLGDual and FedPredict: the simulator's numbers, and models that recommend."""
    flows = {
        owner.name: [flow for flow in owner.flows if is_simple(flow)] for owner in read_n8n(DATA_FOLDER).organisations
    }
    for folder, owners in (("flows", OWNERS), ("sample", SAMPLE)):
        for name, owner in owners.items():
            workflows = [export(flow, f"{owner} workflow {i}: {flow.name}") for i, flow in enumerate(flows[owner])]
            write_exports(tmp_path / folder / name, workflows)
    data = {name: tmp_path / "flows" / name for name in SITES}
    words = private_words(data.values())
    run = flow_run(tmp_path / "flows", rounds=2, buckets=64, least_count=100)
    run |= with_method(run, "fedhybridavglgdual:threshold=300+fedpredict")
    run["task"]["model_options"] = {"width": 48, "blocks": 4}
    run["local"]["batch_size"] = 64
    deployment.set_up({**run, "task": {**run["task"], "path": str(tmp_path / "sample")}}, data)
    given_out = bytes_of(deployment.folders.values())
    words -= texts_with(words, given_out)  # a word like 'length' is in a key of ours; made before a site was read
    assert len(words) > 1_000
    wire: list[bytes] = []

    def record(honest: AnswerFunction) -> AnswerFunction:
        def answer(question: bytes) -> bytes:
            reply = honest(question)
            wire.extend((question, reply))
            return reply

        return answer

    deployment.answers = {name: record(answer) for name, answer in deployment.answers.items()}
    folder = deployment.run()
    assert not exclusions(folder)
    there = simulate(run)
    for mine, theirs in zip(records(folder), there.records, strict=True):
        of_clients = {name: value for name, value in theirs["metrics"].items() if "global_test" not in name}
        assert mine["metrics"] == pytest.approx(of_clients, rel=1e-5)
        assert mine["bytes_up"] == theirs["bytes_up"]
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)

    assert sum(map(len, wire)) > 1 << 20
    assert texts_with(words, bytes_of(data.values())) == words
    assert not texts_with(words, wire)
    assert not texts_with(words, bytes_of([deployment.server]))
    for name in SITES:
        recommender = Recommender.load(deployment.folders[name] / "model" / "model.safetensors")
        assert recommender.saved.client == name
        draft = recommender.read(next(iter(sorted(data[name].glob("*.json")))))
        after = draft.nodes[1].id
        assert min(cpu_seconds(lambda: recommender.recommend(draft, after=after)) for _ in range(9)) < 0.05  # noqa: B023
        own = {kind for kind in recommender.saved.classes if "klicktipp" in kind or "browserAct" in kind}
        assert bool(own) == (name != "west")


def test_what_one_site_sends_wrongly_is_dropped_with_a_reason_and_the_others_go_on(deployment: Deployment) -> None:
    given = values("fedavg", 6)
    deployment.set_up(given, max_megabytes=1.0)
    honest, sent = deployment.sites["west"].answer, dict[int, bytes]()

    def hostile(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        if request.kind != "update":
            return honest(data)
        answer, tensors = unpack(honest(data), SiteAnswer, 1 << 30)
        sent[request.round] = pack(answer, tensors)
        match request.round:
            case 1:
                tensors["reply/row"][0, 3] = torch.nan
            case 2:
                tensors["reply/row"] = tensors["reply/row"][:, :-1]
            case 3:
                answer = answer.model_copy(update={"round": 2})
            case 4:
                tensors["more"] = torch.zeros(1 << 19)
            case 5:
                return sent[4]  # a replay of what it would have sent a round ago
        return pack(answer, tensors)

    deployment.answers["west"] = hostile
    folder = deployment.run()
    reasons = {
        number: reason for number, site, what, reason in exclusions(folder) if (site, what) == ("west", "update")
    }
    assert list(reasons) == [1, 2, 3, 4, 5]
    for number, words in enumerate(["not finite", "shape", "another round", "bytes", "replay"], start=1):
        assert words in reasons[number]
    there = simulate(given, selection=Only({number: [0, 1] for number in range(1, 6)}))
    assert records(folder)[-1]["round"] == 6
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_a_site_that_sleeps_past_the_deadline_is_left_out_and_its_late_answer_dropped(deployment: Deployment) -> None:
    given = values("fedavg", 3, eval_every=0)
    deployment.set_up(given, deadline=6.0)
    honest, over = deployment.sites["south"].answer, threading.Event()

    def sleepy(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        if (request.kind, request.round) == ("update", 1):
            assert over.wait(LIMIT)
        return honest(data)

    deployment.answers["south"] = sleepy
    folder = deployment.run(lambda record: over.set() if record["round"] == 1 else None)
    left = exclusions(folder)
    assert (1, "south", "update", "no answer within 6 s") in left
    assert any("too late" in reason or "no answer" in reason for number, _, _, reason in left if number > 1)
    there = simulate(given, selection=without(left))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_a_site_whose_node_is_killed_mid_round_and_comes_back_keeps_its_state(deployment: Deployment) -> None:
    """The message that died with the node is sent again, and builds on the same control variate."""
    given = values("scaffold", 3, eval_every=0)
    deployment.set_up(given, deadline=LIMIT, reconnect_timeout=LIMIT)
    honest, killed = deployment.sites["north"].answer, list[int]()

    def unlucky(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        answer = honest(data)
        if (request.kind, request.round) == ("update", 2) and not killed:
            killed.append(2)
            deployment.disconnect("north")  # the work is done and kept, and the answer is lost
            deployment.connect("north")
        return answer

    deployment.answers["north"] = unlucky
    folder = deployment.run()
    assert killed
    there = simulate(given, selection=without(exclusions(folder)))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_a_site_that_was_refused_and_joins_at_round_3_takes_part_from_then_on(deployment: Deployment) -> None:
    """The others' answers wait for it, so it comes in time on a busy machine, too."""
    given = values("fedavg", 6, eval_every=0)
    deployment.set_up(given, min_clients=2, deadline=LIMIT)
    honest = dict(deployment.answers)
    joined = threading.Event()

    def patient(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        if (request.kind, request.round) == ("update", 3):
            assert joined.wait(LIMIT)
        elif (request.kind, request.round) == ("update", 4):  # as this round began, it was greeted
            wait_until(lambda: "Sent successfully" in deployment.nodes["west"].output())
        return honest["north"](data)

    deployment.answers |= {"west": lambda _: b"no answer to a greeting", "north": patient}

    def watch(record: dict[str, object]) -> None:
        if record["round"] == 2:
            deployment.disconnect("west")
            deployment.answers["west"] = honest["west"]
            deployment.connect("west")
            joined.set()

    folder = deployment.run(watch)
    took = {record["round"]: record["selected"] for record in records(folder) if record["round"]}
    assert took[1] == took[2] == [0, 1]
    assert took[5] == took[6] == [0, 1, 2]
    there = simulate(given, selection=Only(took))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk: a full disk is not tried for real")
def test_a_full_disk_at_a_site_costs_its_updates_and_nobody_elses(deployment: Deployment) -> None:
    given = values("scaffold", 2, eval_every=0)
    deployment.set_up(given)
    disk = deployment.folders["south"] / "kept"
    if os.system(f"mount -t tmpfs -o size=16k tmpfs {disk}") != 0:  # noqa: S605
        pytest.skip("this machine mounts nothing: a full disk is not tried for real")
    try:
        folder = deployment.run()
    finally:
        os.system(f"umount {disk}")  # noqa: S605
    left = exclusions(folder)
    assert [(number, site) for number, site, _, _ in left] == [(1, "south"), (2, "south")]
    assert all("No space left" in reason for *_, reason in left)
    there = simulate(given, selection=Only({1: [0, 2], 2: [0, 2]}))
    torch.testing.assert_close(final_row(folder), there.row, rtol=1e-5, atol=1e-7)


def test_after_one_answer_at_twice_the_deadline_a_sites_next_answers_count(deployment: Deployment) -> None:
    """The SuperLink has forgotten the request by then; 10 MB are still on their way from the site to its SuperNode."""
    task = {"name": "digits", "clients": 3, "seed": 1, "model": "mlp:hidden=[1500,1500]"}
    given = values("fedavg", 6, eval_every=0, task=task, local={"steps": 1})
    deployment.set_up(given, deadline=15.0)  # long enough for what is not slow, also on a busy machine
    honest, expired = deployment.sites["south"].answer, threading.Event()

    def slow(data: bytes) -> bytes:
        request, _ = unpack(data, SiteRequest, 1 << 30)
        if (request.kind, request.round) == ("update", 1):
            assert expired.wait(LIMIT)
        return honest(data)

    deployment.answers["south"] = slow
    folder = deployment.run(lambda record: expired.set() if record["round"] == 2 else None)
    late = {number for number, site, what, _ in exclusions(folder) if (site, what) == ("south", "update")}
    assert {1, 2} <= late
    assert not late & {5, 6}


def test_a_server_half_that_dies_at_its_start_is_said_with_its_reason(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it: whoever watches would otherwise wait minutes, five times."""
    deployment.set_up(values("fedavg", 1))
    monkeypatch.setattr(play_run, "START_TIMEOUT", 10 * LIMIT)

    def write_broken_app(home: Path, folder: Path) -> Path:
        app = write_app(home, folder)
        (app / "fedloom_app" / "server.py").write_text("raise RuntimeError('nothing works')\n")
        return app

    monkeypatch.setattr(play_run, "write_app", write_broken_app)
    said: list[str] = []
    why = r"the server half of the run died at its start \(.*nothing works.*\): see .*superlink\.log"
    with pytest.raises(FedloomError, match=why):
        commands.run(deployment.server, said.append, lambda _: None)
    assert [line.endswith("It is tried once more.") for line in said] == [True]
    monkeypatch.undo()
    assert records(deployment.run())[-1]["round"] == 1
