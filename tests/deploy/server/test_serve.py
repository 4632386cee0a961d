"""The server's half of a run: too few sites, sites that join late, what it leaves in its folder, and how it ends."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.data.tables.schema import ClientSizes
from fedloom.deploy import saved_model as saved
from fedloom.deploy.audit_log import AUDIT, read_audit
from fedloom.deploy.flower.control import public_key
from fedloom.deploy.operate.commands import _go_back, _put_aside
from fedloom.deploy.protocol.wire import SiteAnswer, unpack
from fedloom.deploy.server.deployed_engine import DeployedEngine
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.server.serve import prepare_deployed_run, serve
from fedloom.deploy.server.tickets import Tickets
from fedloom.deploy.settings import PolicySettings, ServerSettings, SiteData, SiteSettings, load_server, to_toml
from fedloom.deploy.site import request_count
from fedloom.deploy.site.process import SiteProcess
from fedloom.deploy.site.state import SiteState
from fedloom.privacy.client_ledger import LocalLedger
from fedloom.reports.left_out_sites import left_out_table
from fedloom.runs.folder.checkpoint import load_checkpoint
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute
from support.local_transport import (
    NAMES,
    TINY,
    Local,
    LocalTransport,
    Plan,
    Sent,
    change_answer,
    node_keys,
    quick,
    simulate,
    tamper_with,
)

pytest.importorskip("cryptography", reason="cryptography is not installed: no folders are made")
from fedloom.deploy.provision import folders, membership, run_approval

pytestmark = pytest.mark.usefixtures(quick.__name__)
ALL, BUT_SOUTH, SOUTH = [0, 1, 2], [0, 2], 1


@cache
def plan(spec: str = "fedavg", **changes: Any) -> Plan:
    return Plan.of(spec, **changes)


def same(one: History, other: History) -> bool:
    assert one.row is not None
    assert other.row is not None
    return one.row.numpy().tobytes() == other.row.numpy().tobytes()


# -- the run over sites


def test_a_deployed_run_is_the_simulated_one_over_sites(tmp_path):
    local = Local(plan(), tmp_path, min_clients=2, retries=5)
    prepared, _ = local.server()
    run = prepared.composition
    assert (run.quorum, run.retries, run.execution.cohort, run.scored_together) == (2, 5, 1, 1)
    assert prepared.config.checkpoint_every == 1
    assert prepared.plain["made_by"]["task"] == plan().blueprint.digest
    held, real = run.task.federation, plan().runtime.training.task.federation
    for part in ("train", "valid", "test"):
        assert torch.equal(getattr(held, part).sizes, getattr(real, part).sizes)
    assert torch.equal(run.task.initial_row(), plan().runtime.training.task.initial_row())


def test_the_server_holds_no_sample_of_a_client(tmp_path):
    run = Local(plan(), tmp_path).server()[0].composition
    held = run.task.federation
    for client in ALL:
        assert not held.columns["x"][held.train[client]].any()
        assert not held.columns["x"][held.test[client]].any()


def test_sizes_that_come_later_change_the_run(tmp_path):
    local = Local(plan(), tmp_path)
    local.transport.away.add(SOUTH)
    prepared, _ = local.server()
    sizes = prepared.composition.task.federation.train.sizes
    assert sizes[SOUTH] == 1  # nothing is known of it
    local.transport.away.clear()
    assert local.roster is not None
    local.roster.present()
    real = plan().runtime.training.task.federation
    assert torch.equal(prepared.composition.task.federation.train.sizes, real.train.sizes)
    assert torch.equal(prepared.composition.context(1).samples, real.train.sizes)
    assert torch.equal(prepared.composition.task.federation.points, real.points)


def test_a_client_that_joins_at_round_three_takes_part_from_then_on_with_its_own_weight(tmp_path):
    local = Local(plan(), tmp_path)
    local.transport.away.add(SOUTH)
    history = local.play(after={2: local.transport.away.clear})
    assert [record["selected"] for record in history.records] == [BUT_SOUTH, BUT_SOUTH, ALL]
    assert same(history, simulate(plan(), {1: BUT_SOUTH, 2: BUT_SOUTH}))  # a weight of 414, not of 1
    exclusions = [
        (record["round"], one["name"], one["reason"])
        for record in history.records
        for one in record.get("excluded", ())
    ]
    assert exclusions == [(1, "south", "not connected"), (2, "south", "not connected")]


# -- too few sites (fault 5)


def test_with_too_few_answers_the_run_stops_with_the_reason_and_goes_on_later(tmp_path, caplog):
    local = Local(plan("scaffold"), tmp_path, min_clients=3, retries=2, join_timeout=0.03)
    with pytest.raises(FedloomError) as end:
        local.play(after={1: lambda: local.transport.away.add(SOUTH)})
    text = "round 2 was abandoned, the model is unchanged: 2 of 3 clients answered, but 3 are needed"
    assert str(end.value) == f"{text}; resume the run when more clients are connected."
    assert caplog.text.count(f"{text}; trying it again") == 2
    state, before = load_checkpoint(local.run, 3), simulate(plan("scaffold", rounds=1))
    assert state is not None
    assert state.round == 1
    assert before.row is not None
    assert torch.equal(state.server["row"], before.row)
    local.transport.away.clear()
    history = local.play()
    assert same(history, simulate(plan("scaffold")))
    assert [record["selected"] for record in history.records] == [ALL] * 3


def test_a_round_that_is_tried_again_waits_for_sites_to_come_back(tmp_path):
    """A cut that is shorter than the time to join costs no try."""
    local = Local(plan(), tmp_path, min_clients=3, retries=0, join_timeout=5.0)
    looks: list[int] = []
    nodes = local.transport.nodes

    def bring_back() -> Any:
        if local.transport.away:
            looks.append(1)
        if len(looks) > 4:
            local.transport.away.clear()
        return nodes()

    local.transport.nodes = bring_back  # type: ignore[method-assign]
    history = local.play(after={1: lambda: local.transport.away.update(ALL)})
    assert same(history, simulate(plan()))
    assert len(looks) == 5


def test_abandoned_tries_are_in_the_record_of_the_round_that_counts(tmp_path):
    local = Local(plan(), tmp_path, min_clients=3, retries=2)
    tries: list[Sent] = []

    def twice(sent: Sent) -> bytes:
        tries.append(sent)
        return sent.answer if len(tries) > 2 else b""

    local.transport.meddle = tamper_with(SOUTH, 2, twice)
    history = local.play()
    assert same(history, simulate(plan()))
    assert [(one["name"], one["reason"]) for one in history.records[1]["excluded"]] == [
        ("south", "the message has only 0 bytes and no header")
    ] * 2
    assert len({sent.request.ticket for sent in tries}) == 3  # an answer to an earlier try would not pass


# -- selection and scores while sites are away


@pytest.mark.parametrize(
    "selection",
    [
        {"number": 2},
        {"name": "power_of_choice", "number": 1},
        {"name": "power_of_choice", "number": 1, "candidates": 3, "estimate": "last"},
        {"name": "oort", "number": 1},
    ],
    ids=["random", "power of choice", "power of choice, last", "oort"],
)
def test_a_selection_goes_on_while_sites_come_and_go(tmp_path, selection):
    """Whoever is there stands in for who was chosen and is away; what a selector remembers stays with its client."""
    local = Local(Plan.of(selection=selection, rounds=4), tmp_path, retries=0)
    away = local.transport.away
    history = local.play(after={1: lambda: away.add(2), 2: lambda: away.add(0), 3: away.clear})
    number = selection["number"]
    numbers = [len(record["selected"]) for record in history.records]
    assert numbers == [number, number, 1, number]
    assert history.records[2]["selected"] == [SOUTH]
    assert 2 not in history.records[1]["selected"]
    reasons = {one["reason"] for record in history.records for one in record.get("excluded", ())}
    assert reasons <= {"not connected"}
    if number == 2:
        assert [one["what"] for one in history.records[2]["excluded"]] == ["update"]  # nobody stood in


def test_only_clients_who_are_there_are_scored(tmp_path):
    local = Local(plan(eval_every=1, eval_clients=1, rounds=1), tmp_path)
    local.transport.away.add(0)
    history = local.play()
    assert history.clients[0]["name"] in ("south", "west")
    assert [sent.node for sent in local.transport.sent if sent.request.kind == "score"] == [
        history.clients[0]["client"]
    ] * 2


def test_a_score_that_does_not_fit_is_dropped_and_said(tmp_path):
    local = Local(plan(eval_every=1, rounds=1), tmp_path)
    local.transport.meddle = tamper_with(SOUTH, 1, lambda _: b"", kind="score")
    history = local.play()
    assert [row["name"] for row in history.clients] == ["north", "west"]
    assert history.records[-1]["excluded"] == [
        {"client": 1, "name": "south", "what": "score", "reason": "the message has only 0 bytes and no header"}
    ]


# -- the whole thing, from its folders


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(
        'rounds = 2\nseed = 5\nexecution = "loop"\n'
        '[task]\nname = "digits"\nclients = 3\nseed = 1\nmodel = "mlp"\nmodel_options = {hidden = 8}\n'
        '[local]\nepochs = 1\nbatch_size = 256\nlr = 0.1\n[method]\nname = "fedrep"\n'
    )
    folders.init(root / "run.toml", root / "deploy", NAMES, evaluator="judge", rehearsal=True)
    return root / "deploy"


@pytest.fixture(scope="module")
def open_sites(deploy_folder) -> dict[int, SiteProcess]:
    return {client: SiteProcess.open(deploy_folder / name) for client, name in enumerate([*NAMES, "judge"])}


def begin_anew(site: SiteProcess, server: dict[str, Any]) -> SiteProcess:
    """The site as it was when it was opened; its policy allows what the server's settings ask for."""
    site.states.discard_all_but()
    (site.folder / request_count.FILE).unlink(missing_ok=True)
    policy = PolicySettings(model=server.get("cross_site", False))
    return replace(site, settings=site.settings.model_copy(update={"policy": policy}))


def fresh(
    deploy_folder: Path, open_sites: dict[int, SiteProcess], tmp_path: Path, **settings: Any
) -> tuple[LocalTransport, Path]:
    """A server's folder of its own, and a transport to sites that know nothing yet."""
    folder = tmp_path / "server"
    folder.mkdir()
    for path in (deploy_folder / "server").iterdir():
        if path.name != AUDIT:
            (folder / path.name).symlink_to(path)
    (folder / "deploy.toml").unlink()
    chosen = load_server(deploy_folder / "server").model_copy(update={"join_timeout": 0.1, "deadline": 2.0, **settings})
    (folder / "deploy.toml").write_bytes(to_toml(chosen))
    transport = LocalTransport({client: begin_anew(site, settings).answer for client, site in open_sites.items()})
    names = enumerate([*NAMES, "judge"])
    transport.keys = {client: public_key(folder / "keys" / f"{name}.pub") for client, name in names}
    return transport, folder


def test_a_revoked_site_is_left_out_with_that_reason_and_certificates_are_noted_for_the_report(
    deploy_folder, open_sites, tmp_path, monkeypatch
):
    monkeypatch.setattr("fedloom.deploy.provision.certificates.WARNING_DAYS", 400)
    transport, folder = fresh(deploy_folder, open_sites, tmp_path)
    membership.revoke(NAMES[0], folder)
    serve(transport, folder)
    run = folder / "run"
    assert json.loads((run / "outcome.json").read_text())["stopped"] is None
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    left_out = [one for record in records for one in record.get("excluded", ())]
    assert {one["name"] for one in left_out} == {NAMES[0]}
    assert all(one["reason"].startswith("revoked by the operator at 20") for one in left_out)
    notices = json.loads((run / "notices.json").read_text())
    assert notices[0].startswith("The certificate of server expires on 20")


def test_what_a_site_refuses_is_in_the_audit_logs_of_site_and_server(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, cross_site=True)
    site = begin_anew(open_sites[0], {})  # its policy does not let its model leave
    (site.folder / AUDIT).unlink(missing_ok=True)
    transport.sites[0] = site.answer
    serve(transport, folder)
    serve(transport, folder)
    for place, facts in ((folder, {"site": NAMES[0]}), (site.folder, {})):
        trail = read_audit(place)
        found = [entry for entry in trail.entries if entry["what"] == "request refused"]
        assert found, place
        assert all(entry["request"] == "model" and "model" in entry["reason"] for entry in found)
        assert all(entry.get(name) == value for entry in found for name, value in facts.items())
        assert trail.problem == ""
    assert len(found) == 1  # the site was asked twice, for one reason


def test_a_new_run_has_the_sites_of_now_and_those_of_before_take_part(tmp_path):
    """A site that was there before knows nothing of the one that was added, and the new run is not the one it ended."""
    text = 'rounds = 2\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[local]\nepochs = 1\n'
    (tmp_path / "run.toml").write_text(text)
    server, *sites = folders.init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], rehearsal=True)
    values = load_server(server).model_copy(update={"join_timeout": 0.1, "deadline": 5.0})
    (server / "deploy.toml").write_bytes(to_toml(values))

    def play() -> dict[int, set[int]]:
        transport = LocalTransport({client: SiteProcess.open(site).answer for client, site in enumerate(sites)})
        transport.keys = {n: public_key(server / "keys" / f"{site.name}.pub") for n, site in enumerate(sites)}
        serve(transport, server)
        assert json.loads((server / "run/outcome.json").read_text()) == {"stopped": None}
        records = [json.loads(line) for line in (server / "run/metrics.jsonl").read_text().splitlines()]
        assert not [one for record in records for one in record.get("excluded", ())]
        return {record["round"]: set(record["selected"]) for record in records if record["round"]}

    assert play() == {1: {0, 1}, 2: {0, 1}}
    assert play() == {1: {0, 1}, 2: {0, 1}}  # it has ended, and nobody is asked again
    sites.append(membership.add("east", server, rehearsal=True))
    _put_aside(server / "run")
    assert play() == {1: {0, 1, 2}, 2: {0, 1, 2}}
    asked = json.loads((sites[0] / "asked.json").read_text())
    assert (len(asked["past"]), asked["kinds"]["update"]["rounds"]) == (1, 2)


def test_sites_are_upgraded_one_at_a_time_during_a_run_and_the_result_is_the_simulators(
    deploy_folder, open_sites, tmp_path
):
    """South comes back from its upgrade in the second round."""
    transport, folder = fresh(deploy_folder, open_sites, tmp_path)

    def upgrade(sent: Sent) -> bytes:
        if sent.request.kind == "score" and sent.request.round == 1:
            transport.since[SOUTH] = 2.0  # it was away for a moment between two rounds
        if sent.request.kind != "hello" or sent.node != SOUTH or transport.since[SOUTH] == 1.0:
            return sent.answer
        answer, _ = unpack(sent.answer, SiteAnswer, 1 << 40)
        return change_answer(sent, about=answer.about | {"fedloom": "9.8.7"})

    transport.meddle = upgrade
    serve(transport, folder)
    run = folder / "run"
    assert json.loads((run / "outcome.json").read_text()) == {"stopped": None}
    simulate(Plan.of("fedrep", rounds=2, eval_every=1), folder=tmp_path / "simulated")
    assert (run / "metrics.jsonl").read_text() == (tmp_path / "simulated" / "metrics.jsonl").read_text()
    entries = read_audit(folder).entries
    south = [one for one in entries if one.get("site") == "south" and one["what"] == "site connected"]
    assert [one["version"] for one in south] == [fedloom.__version__, "9.8.7"]
    assert "differs" not in south[0]
    assert south[1]["differs"].startswith("runs fedloom 9.8.7, and the server ")


def test_an_operator_who_changes_the_server_begins_no_run_that_the_approver_has_not_signed(tmp_path, monkeypatch):
    text = 'rounds = 2\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[local]\nepochs = 1\n'
    (tmp_path / "run.toml").write_text(text)
    made = folders.init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], rehearsal=True, approver=True)
    server, sites, approver = made[0], made[1:3], made[3]
    values = load_server(server).model_copy(update={"join_timeout": 0.1, "deadline": 5.0, "retries": 0})
    (server / "deploy.toml").write_bytes(to_toml(values))
    processes = [SiteProcess.open(site) for site in sites]
    transport = LocalTransport({client: site.answer for client, site in enumerate(processes)})
    transport.keys = {n: public_key(server / "keys" / f"{site.name}.pub") for n, site in enumerate(sites)}

    def play() -> dict[str, Any]:
        serve(transport, server)
        return dict(json.loads((server / "run/outcome.json").read_text()))

    with monkeypatch.context() as changed:  # the server's program asks nobody
        changed.setattr("fedloom.deploy.server.serve.approved_number", lambda _: "")
        assert "0 of 2 clients answered" in play()["error"]
    needed = "a new run of this deployment needs its approver, and the server has sent no approval of it"
    refused = [entry for entry in read_audit(server).entries if entry["what"] == "request refused"]
    assert {(entry["site"], entry["reason"]) for entry in refused} == {("north", needed), ("south", needed)}
    assert all(needed in (site / "policy.jsonl").read_text() for site in sites)

    _put_aside(server / "run")
    with pytest.raises(FedloomError, match="needs the approver"):
        run_approval.approved_number(server)
    approval = run_approval.approve(server / run_approval.REQUEST, approver)
    transport.meddle = tamper_with(SOUTH, 2, lambda _: None)
    values = values.model_copy(update={"min_clients": 2, "deadline": 0.2})
    (server / "deploy.toml").write_bytes(to_toml(values))
    assert "deploy.toml has changed since" in play()["error"]
    approval.unlink()
    with pytest.raises(FedloomError, match="needs the approver"):
        run_approval.approved_number(server)
    run_approval.approve(server / run_approval.REQUEST, approver)
    assert "1 of 2 clients answered" in play()["error"]
    approval.unlink()
    transport.meddle = lambda sent: sent.answer
    assert play() == {"stopped": None}  # continued, without the approval in the server's folder
    assert [sum(entry["what"] == "run approved" for entry in read_audit(site).entries) for site in sites] == [1, 1]


def test_a_run_goes_on_from_an_earlier_round_to_the_same_bytes(tmp_path):
    """Also one that ended early: before, nothing could be done with it."""
    text = 'rounds = 4\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[local]\nepochs = 1\n'
    (tmp_path / "run.toml").write_text(text)
    server, *sites = folders.init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], rehearsal=True)
    values = load_server(server).model_copy(update={"join_timeout": 0.1, "deadline": 5.0, "retries": 0})
    (server / "deploy.toml").write_bytes(to_toml(values))
    transport = LocalTransport({client: SiteProcess.open(site).answer for client, site in enumerate(sites)})
    transport.keys = {n: public_key(server / "keys" / f"{site.name}.pub") for n, site in enumerate(sites)}
    transport.meddle = lambda sent: None if sent.request.round == 4 else sent.answer  # nobody answers in the last round
    values = values.model_copy(update={"deadline": 0.2})
    (server / "deploy.toml").write_bytes(to_toml(values))
    serve(transport, server)
    assert "error" in json.loads((server / "run/outcome.json").read_text())
    lines = (server / "run/metrics.jsonl").read_bytes().splitlines()
    assert json.loads(lines[-1])["round"] == 3
    with pytest.raises(FedloomError, match="has no checkpoint of round 9: continue from one of the rounds 1, 2, 3"):
        _go_back(server, 9)
    _go_back(server, 1)
    assert len((server / "run/metrics.jsonl").read_bytes().splitlines()) == 2
    assert read_audit(server).entries[-1]["what"] == "run set back"
    transport.meddle = lambda sent: sent.answer
    serve(transport, server)
    assert json.loads((server / "run/outcome.json").read_text()) == {"stopped": None}
    assert (server / "run/metrics.jsonl").read_bytes().splitlines()[:4] == lines
    with pytest.raises(FedloomError, match=r"has played all of its 4 rounds, .* begin a new one"):
        _go_back(server, 2)


def test_a_run_is_served_to_its_end_and_leaves_the_simulators_folder(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, cross_site=True)
    serve(transport, folder)
    run = folder / "run"
    assert json.loads((run / "outcome.json").read_text()) == {"stopped": None}
    simulate(Plan.of("fedrep", rounds=2, eval_every=1), folder=tmp_path / "simulated")
    ours, theirs = (
        [json.loads(line) for line in (where / "metrics.jsonl").read_text().splitlines()]
        for where in (run, tmp_path / "simulated")
    )
    assert ours == theirs
    states = [load_checkpoint(where, 3) for where in (run, tmp_path / "simulated")]
    assert states[0] is not None
    assert states[1] is not None
    assert states[0].server.keys() == states[1].server.keys()
    assert all(torch.equal(states[0].server[name], states[1].server[name]) for name in states[0].server)
    assert json.loads((run / "clients.json").read_text()) == json.loads(
        (tmp_path / "simulated/clients.json").read_text()
    )
    for name in ("config.toml", "partition.json", "timings.jsonl", "wire.json", "tickets.json"):
        assert (run / name).is_file(), name
    assert History.load(run).records == ours
    trail = read_audit(folder)
    connected = 4 * ["site connected"]
    assert [entry["what"] for entry in trail.entries] == ["run started", *connected, "run finished"]
    assert trail.problem == ""


def test_at_the_end_every_site_has_its_own_model_and_models_are_scored_everywhere(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, cross_site=True)
    serve(transport, folder)
    found = json.loads((folder / "run" / "cross_site.json").read_text())
    assert found["models"] == found["sites"] == NAMES
    assert found["what"] == "accuracy of the model of each site (row) on the test part of each site (column)"
    rows = json.loads((folder / "run" / "clients.json").read_text())
    for client, name in enumerate(NAMES):
        assert found["scores"][client][client] == pytest.approx(rows[client]["accuracy"])  # on its own data
        model = saved.load_model(deploy_folder / name / "model")
        assert (model.about.client, model.about.round) == (name, 2)
    heads = [saved.load_model(deploy_folder / name / "model").model.state_dict() for name in NAMES]
    assert any(not torch.equal(heads[0][key], heads[1][key]) for key in heads[0])
    assert not (deploy_folder / "judge" / "model").exists()
    finishing = [sent.node for sent in transport.sent if sent.request.kind in ("update", "finish", "model", "judge")]
    assert 3 not in finishing  # the evaluator never trains, and its weights never count


def test_models_stay_where_they_are_unless_they_are_asked_for(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path)
    serve(transport, folder)
    assert not (folder / "run" / "cross_site.json").exists()
    assert {sent.request.kind for sent in transport.sent} == {"hello", "update", "score", "finish"}


def test_a_site_that_is_gone_at_the_end_does_not_hold_the_others_up(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, cross_site=True)

    def leave(sent: Sent) -> bytes:
        if sent.request.kind == "finish":
            transport.away.add(SOUTH)
        return sent.answer

    transport.meddle = leave
    serve(transport, folder)
    outcome = json.loads((folder / "run" / "outcome.json").read_text())
    assert outcome["stopped"] is None
    assert [(one["name"], one["what"], one["reason"]) for one in outcome["excluded"]] == [
        ("south", "model", "not connected")
    ]
    found = json.loads((folder / "run" / "cross_site.json").read_text())
    assert found["models"] == found["sites"] == ["north", "west"]
    assert len(found["scores"]) == len(found["scores"][0]) == 2


def test_with_too_few_sites_the_reason_is_left_and_the_run_can_begin_later(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, min_clients=2, join_timeout=0.05)
    transport.away |= {0, 1}
    serve(transport, folder)
    run = folder / "run"
    error = json.loads((run / "outcome.json").read_text())["error"]
    assert "only 1 of 3 sites connected within 0.05 s, and min_clients = 2" in error  # the evaluator does not count
    assert "missing: north (never connected), south (never connected); start them" in error
    assert not (run / "config.toml").exists()
    transport.away.clear()
    serve(transport, folder)
    assert json.loads((run / "outcome.json").read_text()) == {"stopped": None}
    assert [record["round"] for record in History.load(run).records] == [0, 1, 2]
    stops = [entry for entry in read_audit(folder).entries if entry["what"] == "run stopped"]
    assert [error.startswith(entry["reason"][:100]) for entry in stops] == [True]


def test_a_run_that_stopped_for_want_of_answers_says_so_and_is_served_on(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, min_clients=3, retries=1, join_timeout=0.05)
    transport.meddle = lambda sent: (
        b"" if (sent.node, sent.request.kind, sent.request.round) == (1, "update", 2) else sent.answer
    )
    serve(transport, folder)
    error = json.loads((folder / "run" / "outcome.json").read_text())["error"]
    assert error.startswith("round 2 was abandoned, the model is unchanged: 2 of 3 clients answered, but 3 are needed")
    transport.meddle = lambda sent: sent.answer
    serve(transport, folder)
    assert json.loads((folder / "run" / "outcome.json").read_text()) == {"stopped": None}
    simulate(Plan.of("fedrep", rounds=2, eval_every=1), folder=tmp_path / "simulated")
    metrics = [(where / "metrics.jsonl").read_text().splitlines() for where in (folder / "run", tmp_path / "simulated")]
    assert metrics[0] == metrics[1]


def test_a_finished_run_is_not_played_again(deploy_folder, open_sites, tmp_path):
    transport, folder = fresh(deploy_folder, open_sites, tmp_path)
    serve(transport, folder)
    before, count = (folder / "run" / "metrics.jsonl").read_bytes(), len(transport.sent)
    serve(transport, folder)
    assert (folder / "run" / "metrics.jsonl").read_bytes() == before
    assert "update" not in {sent.request.kind for sent in transport.sent[count:]}


def test_no_log_line_has_a_key_or_a_ticket(deploy_folder, open_sites, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    transport, folder = fresh(deploy_folder, open_sites, tmp_path, cross_site=True)
    transport.meddle = tamper_with(SOUTH, 1, lambda _: b"x")
    serve(transport, folder)
    text = caplog.text + "".join(
        path.read_text() for path in (folder / "run").glob("*.json*") if path.stem != "tickets"
    )
    text += (folder / AUDIT).read_text()
    assert "south is left out" in text
    assert not [sent for sent in transport.sent if sent.request.ticket in text]
    secrets = [*deploy_folder.rglob("*.key"), *deploy_folder.rglob("*.pub"), *deploy_folder.rglob("*.pem")]
    assert len(secrets) > 10
    for path in secrets:
        longest = max(path.read_text().split(), key=len)
        assert longest[:40] not in text


def test_the_evaluators_scores_are_the_runs_global_scores(tmp_path):
    """FedAvg's shared model on the evaluator's own data, which here are the simulator's global test set."""
    shared = plan(rounds=1, eval_every=1)
    local = Local(shared, tmp_path)
    settings = SiteSettings(name="judge", client=3, data=SiteData(rehearsal=True))
    task = shared.blueprint.site_task(settings, tmp_path)
    judge = SiteProcess(
        tmp_path, settings, shared.blueprint, shared.blueprint.runtime(task), SiteState(tmp_path / "judge")
    )
    local.transport = LocalTransport({**local.transport.sites, 3: judge.answer})
    local.settings = ServerSettings(sites=NAMES, evaluator="judge", deadline=1.0, join_timeout=0.1)
    roster = Roster(
        local.transport, local.settings, node_keys(4), shared.blueprint.plan_digest, shared.blueprint.digest
    )
    roster.wait_for_all(lambda _: None)
    prepared = prepare_deployed_run(shared.blueprint, roster, local.settings)
    engine = DeployedEngine(
        local.transport, roster, Tickets(tmp_path / "t.json", None), local.settings, prepared.composition.runtime()
    )
    history = execute(
        prepared, None, [lambda record: local.transport.away.add(3) if record["round"] == 1 else None], engine
    )
    assert history.records == simulate(shared).records
    again = execute(prepared, None, (), engine)
    assert "global_model/global_test/accuracy" not in again.records[-1]["metrics"]  # the judge is away: nobody knows
    assert [one["name"] for one in again.records[-1]["excluded"]] == ["judge"]


def test_the_shared_model_is_scored_on_all_that_the_evaluator_has_however_much_the_server_has(tmp_path):
    shared = plan(rounds=1)
    local = Local(shared, tmp_path)
    local.settings = ServerSettings(sites=NAMES, evaluator="judge")
    roster = Roster(
        local.transport, local.settings, node_keys(4), shared.blueprint.plan_digest, shared.blueprint.digest
    )
    prepared = prepare_deployed_run(shared.blueprint, roster, local.settings)
    for samples in (7, 100_000):
        roster.sizes[len(NAMES)] = ClientSizes(1, 0, samples, samples)
        roster.on_join()
        assert len(prepared.composition.task.federation.global_test) == samples


# -- organisations of very different sizes (fault 69)

UNEQUAL = {
    "task": {
        **TINY["task"],
        "partition": {"name": "quantities", "sizes": [1120, 292, 104]},  # of digits 74 %, 19 % and 7 %
        "metrics": ["accuracy", "macro_f1"],
    },
    "eval_every": 1,
}
"""Three organisations, of which one has three quarters of the data."""


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedprox"])
def test_by_default_unequal_organisations_give_the_simulators_run_with_its_records(method, tmp_path):
    made = Plan.of(method, **UNEQUAL)
    local = Local(made, tmp_path)
    assert local.settings == ServerSettings(sites=list(local.names), deadline=0.25, join_timeout=0.1)
    history, expected = local.play(), simulate(made)
    assert history.records == expected.records  # no remark and no exclusion either
    assert history.clients == expected.clients
    assert torch.equal(history.row, expected.row)


@pytest.mark.parametrize(
    ("limit", "counted", "reason"),
    [({"max_share": 0.5}, None, "max_share = 0.5"), ({"sizes": {"north": 300}}, 300, r"states under [sizes]")],
)
def test_a_limit_cuts_a_weight_and_no_number_of_the_records(limit, counted, reason, tmp_path):
    made = Plan.of("fedavg", **UNEQUAL)
    history, free = Local(made, tmp_path, **limit).play(), simulate(made)
    sizes = made.runtime.training.task.federation.train.sizes.tolist()
    counted = counted or sum(sizes[1:])
    assert counted < sizes[0]
    assert not torch.equal(history.row, free.row)
    (remark,) = history.records[1]["remarks"]
    assert (remark["name"], remark["what"]) == ("north", "claim")
    assert f"announces {sizes[0]:,} training samples; {counted:,} of them count" in remark["reason"]
    assert reason in remark["reason"]
    assert [row["train"] for row in history.clients] == sizes
    assert [row.get("counted") for row in history.clients] == [counted, None, None]
    for mine, theirs in zip(history.records, free.records, strict=True):
        assert [mine[key] for key in ("selected", "steps", "bytes_up")] == [
            theirs[key] for key in ("selected", "steps", "bytes_up")
        ]
    # Before the first round all models are the same: so metrics are those of the simulation, weighted by true sizes.
    assert history.records[0]["metrics"] == free.records[0]["metrics"]
    assert f"{counted:,} of them count" in "".join(left_out_table({"fedavg": [history]}))


@pytest.mark.parametrize("weight_by", ["samples", "steps"])
def test_a_cut_weight_is_the_weight_of_a_site_of_that_size(weight_by, tmp_path):
    """By hand: the mean of the three models of one round, by as many samples as count."""
    made = Plan.of("fedavg", **UNEQUAL | {"rounds": 1, "weight_by": weight_by, "eval_every": 0})
    local = Local(made, tmp_path, max_share=0.5)
    history = local.play()
    sent = [s for s in local.transport.sent if s.request.kind == "update"]
    answers = [unpack(one.answer, SiteAnswer, 1 << 40)[1] for one in sent]
    samples, steps = ([int(answer[name]) for answer in answers] for name in ("samples", "steps"))
    most = samples[1] + samples[2]
    weights = {"samples": [most, *samples[1:]], "steps": [steps[0] * most // samples[0], *steps[1:]]}[weight_by]
    rows = torch.cat([answer["reply/row"] for answer in answers]).double()
    mean = torch.tensor(weights, dtype=torch.float64) @ rows / sum(weights)
    torch.testing.assert_close(history.row.double(), mean, rtol=1e-5, atol=1e-6)


# -- what a server's folder says when something is wrong (faults 64, 65)


def interrupted(tmp_path: Path) -> Local:
    """A deployment that stopped after its first round, and whose partition has a flipped byte."""
    local = Local(plan(), tmp_path, min_clients=3, retries=0, join_timeout=0.03)
    (tmp_path / "deploy.toml").touch()
    local.transport.meddle = tamper_with(0, 2, lambda _: b"")
    with pytest.raises(FedloomError, match="round 2 was abandoned"):
        local.play()
    local.transport.meddle = lambda sent: sent.answer
    path = local.run / "partition.json"
    content = bytearray(path.read_bytes())
    content[content.index(b"[[") + 2] ^= 1
    path.write_bytes(content)
    return local


def test_a_flipped_byte_of_a_deployed_runs_partition_is_said_with_the_right_command_and_mended(tmp_path, caplog):
    local = interrupted(tmp_path)
    with pytest.raises(FedloomError, match=rf"partition.json was changed .*: fedloom deploy run {tmp_path} writes it"):
        History.load(local.run)
    local.play()
    assert "partition.json is not what the run wrote: it is written again" in caplog.text
    assert same(History.load(local.run), simulate(plan()))


def test_a_flipped_byte_of_the_partition_is_said_although_it_cannot_be_written_again(tmp_path):
    local = interrupted(tmp_path)
    local.settings = local.settings.model_copy(update={"min_clients": 1})
    local.transport.away.add(SOUTH)  # nothing is known of its data now
    with pytest.raises(FedloomError, match=r"partition.json was changed .* clients have other data by now: restore it"):
        local.play()


def test_a_run_whose_budgets_are_spent_ends_like_any_other_and_sites_have_their_models(tmp_path):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    noise = 'name = "localnoise"\nnoise = 4.0\nclip = 0.5\n'
    epsilon = 1.0001 * LocalLedger(4.0, 1e-5).epsilon(1, 2)
    (tmp_path / "run.toml").write_text(
        'rounds = 3\neval_every = 0\nexecution = "loop"\n[task]\nname = "digits"\nclients = 3\nmodel = "mlp"\n'
        f'model_options = {{hidden = 8}}\n[method]\nname = "fedavg"\n[[channel]]\n{noise}epsilon = {epsilon!r}\n'
    )
    said: list[str] = []
    made = folders.init(tmp_path / "run.toml", tmp_path / "deploy", NAMES, rehearsal=True, say=said.append)
    assert "localnoise lasts for 2 of 3 rounds" in said[0]
    server = made[0]
    settings = load_server(server).model_copy(update={"join_timeout": 0.1, "deadline": 2.0, "retries": 0})
    (server / "deploy.toml").write_bytes(to_toml(settings))
    sites = [SiteProcess.open(folder) for folder in made[1:]]
    transport = LocalTransport({client: site.answer for client, site in enumerate(sites)})
    transport.keys = {client: public_key(server / "keys" / f"{name}.pub") for client, name in enumerate(NAMES)}
    serve(transport, server)
    outcome = json.loads((server / "run/outcome.json").read_text())
    assert outcome["stopped"].startswith(
        "the privacy budgets of 3 of 3 clients do not last for round 3: the model of round 2 is the last"
    )
    assert [saved.model_at(folder).about.round for folder in made[1:]] == [2, 2, 2]
    assert History.load(server / "run").stopped == outcome["stopped"]
