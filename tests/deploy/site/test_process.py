"""A site answers every message, whatever it is, says in words what went wrong, and keeps its data to itself."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Reply
from fedloom.deploy import saved_model as saved
from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.settings import PolicySettings, SiteData, SiteSettings, to_toml
from fedloom.deploy.site.process import SiteProcess, main
from fedloom.deploy.site.state import SiteState
from fedloom.methods.fedavg import FedAvg
from support.local_transport import Local, Plan, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
SOUTH = 1


@cache
def plan(spec: str = "fedavg") -> Plan:
    return Plan.of(spec, eval_every=1, selection={"name": "powerofchoice"})  # so that it may score and ask


def open_site(folder: Path, spec: str = "fedavg") -> SiteProcess:
    return Local(plan(spec), folder).sites[SOUTH]


def allowing(site: SiteProcess, **policy: Any) -> SiteProcess:
    """The site with another policy."""
    return replace(site, settings=site.settings.model_copy(update={"policy": PolicySettings(**policy)}))


def ask(
    site: SiteProcess, kind: str, tensors: dict[str, torch.Tensor] | None = None, **header: Any
) -> tuple[SiteAnswer, Any]:
    """A site's answer to a request."""
    about = {"run": site.blueprint.plan_digest, "ticket": "t", "kind": kind, "round": 1}
    request = SiteRequest.model_validate(about | header)
    return unpack(site.answer(pack(request, tensors or {})), SiteAnswer, 1 << 40)


def shared_tensors(spec: str = "fedavg") -> dict[str, torch.Tensor]:
    state = plan(spec).runtime.algorithm.start(plan(spec).runtime.training.task)
    return {f"shared/{name}": t for name, t in plan(spec).runtime.algorithm.broadcast(state, [SOUTH]).shared.items()}


def test_a_site_greets_with_versions_sizes_and_nothing_else(tmp_path):
    answer, tensors = ask(open_site(tmp_path), "hello")
    held = plan().runtime.training.task.federation
    assert answer.about == {
        "name": "south",
        "fedloom": fedloom.__version__,
        "protocol": PROTOCOL,
        "torch": str(torch.__version__),
        "digest": plan().blueprint.digest,
        **{part: len(getattr(held, part)[SOUTH]) for part in ("train", "valid", "test")},
        "points": int(held.points[SOUTH]),
    }
    assert tensors == {}
    assert (answer.client, answer.error, answer.ticket) == (SOUTH, "", "t")


def test_what_it_trains_is_what_the_simulator_trains(tmp_path):
    _, tensors = ask(open_site(tmp_path), "update", shared_tensors(), round=2)
    runtime = plan().runtime
    setting = RunSetting(runtime.setting.work, runtime.setting.seed, runtime.setting.rounds)
    one = Cohort([SOUTH], runtime.training, setting, 2)
    rows = one.train(one.spread(runtime.training.task.initial_row()))
    assert torch.equal(tensors["reply/row"], rows)
    assert tensors["samples"].tolist() == [len(runtime.training.task.federation.train[SOUTH])]
    assert tensors.keys() == {"reply/row", "samples", "steps", "bytes"}


def test_an_answer_above_the_servers_limit_is_not_sent_and_said(tmp_path, caplog):
    site, sent = open_site(tmp_path), shared_tensors()
    size = sum(t.nbytes for t in ask(site, "update", sent)[1].values())
    answer, tensors = ask(site, "update", sent, ticket="u", limit=size - 1)
    assert answer.error == (
        f"its answer has {size:,} bytes and is not sent, since the server accepts {size - 1:,} (max_megabytes in "
        "deploy.toml)"
    )
    assert tensors == {}
    assert f"round 1: {answer.error}" in caplog.text
    answer, tensors = ask(site, "update", sent, ticket="v", limit=size)
    assert (answer.error, sum(t.nbytes for t in tensors.values())) == ("", size)


def test_what_is_kept_stays_at_the_site(tmp_path):
    site = open_site(tmp_path, "scaffold")
    answer, tensors = ask(site, "update", shared_tensors("scaffold"), ticket="first")
    assert answer.keeps
    assert not [name for name in tensors if name.startswith("kept/")]
    assert site.states.read("first")["c"].rows.any()


def test_the_same_request_again_gives_the_same_bytes(tmp_path):
    site = open_site(tmp_path, "scaffold")
    first = ask(site, "update", shared_tensors("scaffold"), ticket="a")
    for _ in range(2):
        header, tensors = ask(site, "update", shared_tensors("scaffold"), ticket="b", state="a", base="a", round=2)
        kept = site.states.read("b")["c"].rows
        again, same = ask(site, "update", shared_tensors("scaffold"), ticket="b", state="a", base="a", round=2)
        assert again == header
        assert all(torch.equal(tensors[name], same[name]) for name in tensors)
        assert torch.equal(site.states.read("b")["c"].rows, kept)
    assert not torch.equal(first[1]["reply/change"], tensors["reply/change"])


def test_states_that_no_longer_count_are_thrown_away(tmp_path):
    site = open_site(tmp_path, "scaffold")
    for ticket, state, base in (("a", "", ""), ("b", "a", "a"), ("c", "b", "a"), ("d", "b", "b")):
        ask(site, "update", shared_tensors("scaffold"), ticket=ticket, state=state, base=base)
        assert {t for t in "abcd" if site.states.has(t)} == {t for t in (ticket, state, base) if t}


def test_scoring_and_asking_change_no_state(tmp_path):
    site = allowing(open_site(tmp_path, "scaffold"), model=True)
    ask(site, "update", shared_tensors("scaffold"), ticket="a")
    before = {path.name: path.read_bytes() for path in site.states.folder.iterdir()}
    site.count.finished = 1
    for kind in ("score", "ask", "model"):
        answer, tensors = ask(site, kind, shared_tensors("scaffold"), ticket="x", state="a", base="a")
        assert (answer.error, answer.keeps) == ("", False)
        assert tensors
    assert {path.name: path.read_bytes() for path in site.states.folder.iterdir()} == before


@pytest.mark.parametrize("kind", ["update", "score", "ask", "model", "finish"])
def test_a_lost_state_is_said_and_nothing_is_sent(tmp_path, kind):
    site = allowing(open_site(tmp_path, "scaffold"), model=True)
    if kind == "model":
        ask(site, "finish", shared_tensors("scaffold"))
    answer, tensors = ask(site, kind, shared_tensors("scaffold"), state="gone")
    assert answer.lost
    assert answer.error == "the client state of this site is lost: it starts again without one"
    assert tensors == {}


def test_the_final_model_is_saved_at_the_site_and_does_not_leave_it(tmp_path):
    site = allowing(open_site(tmp_path, "fedrep"), model=True)
    site.folder.mkdir(exist_ok=True)
    ask(site, "update", shared_tensors("fedrep"), ticket="a")
    answer, tensors = ask(site, "finish", shared_tensors("fedrep"), state="a", base="a", round=3)
    assert (answer.error, tensors) == ("", {})
    model = saved.load_model(site.folder / "model")
    assert (model.about.client, model.about.method, model.about.round) == ("south", "fedrep", 3)
    row = ask(site, "model", shared_tensors("fedrep"), state="a", base="a", round=3)[1]["row"]
    layout = plan("fedrep").runtime.training.task.layout
    assert torch.equal(layout.row(model.model), row)
    head = layout.take(row[None], "head")
    assert not torch.equal(head, layout.take(plan("fedrep").blueprint.initial[None], "head"))  # its own


def test_what_a_method_adds_to_the_model_is_left_out_of_the_saved_model(tmp_path):
    spec = "moon:projection=6"
    site = open_site(tmp_path, spec)
    site.folder.mkdir(exist_ok=True)
    ask(site, "finish", shared_tensors(spec), round=3)
    own, initial = saved.load_model(site.folder / "model").model, plan(spec).blueprint.initial
    assert len(shared_tensors(spec)["shared/row"]) > len(initial)
    assert torch.equal(torch.cat([one.flatten() for one in own.parameters()]), initial)


def test_models_are_judged_on_the_sites_own_test_part(tmp_path):
    initial = plan().blueprint.initial
    site = allowing(open_site(tmp_path), model=True)
    ask(site, "finish", shared_tensors())
    _, scores = ask(site, "judge", {"rows": torch.stack([initial, initial * 2, initial])})
    alone = ask(open_site(tmp_path), "score", shared_tensors())[1]
    assert scores["score"].shape == (3,)
    assert scores["score"][0] == scores["score"][2] == pytest.approx(float(alone["score"] / alone["counts"]))


# -- what goes wrong


def test_an_error_in_the_methods_code_is_said_without_its_text(tmp_path, caplog):
    class Broken(FedAvg):
        def client_update(self, cohort: Cohort, message: Message) -> Reply:
            raise ZeroDivisionError("patient 4711")

    site = open_site(tmp_path)
    site = replace(site, runtime=replace(site.runtime, algorithm=Broken()))
    answer, tensors = ask(site, "update", shared_tensors())
    assert answer.error == "ZeroDivisionError in the client's code (see the site's log)"
    assert tensors == {}
    assert "patient 4711" in caplog.text  # in the site's own log


def test_a_full_disk_is_said(tmp_path):
    class Full(SiteState):
        def write(self, ticket: str, state: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    site = open_site(tmp_path, "scaffold")
    site = replace(site, states=Full(site.states.folder))
    answer, tensors = ask(site, "update", shared_tensors("scaffold"))
    assert (answer.error, answer.keeps, tensors) == ("disk error at the site: No space left on device", False, {})


def test_a_message_without_its_tensors_is_an_error_and_no_end(tmp_path):
    site = open_site(tmp_path)
    for kind in ("update", "score", "judge", "global", "model"):
        answer, tensors = ask(site, kind)
        assert answer.error, kind
        assert tensors == {}
    assert ask(site, "hello")[0].error == ""


@given(data=st.binary(max_size=300))
def test_any_bytes_get_an_answer(tmp_path_factory, data):
    site = open_site(tmp_path_factory.getbasetemp())
    answer, tensors = unpack(site.answer(data), SiteAnswer, 1 << 40)
    assert answer.error.startswith("message refused: ")
    assert tensors == {}


def test_long_errors_are_cut(tmp_path):
    class Chatty(FedAvg):
        def client_update(self, cohort: Cohort, message: Message) -> Reply:
            raise FedloomError("x" * 5000)

    site = open_site(tmp_path)
    site = replace(site, runtime=replace(site.runtime, algorithm=Chatty()))
    assert len(ask(site, "update", shared_tensors())[0].error) == 2000


# -- opening a folder


def folder_of(tmp_path: Path, **changes: Any) -> Path:
    plan().blueprint.save(tmp_path, server=False)
    settings = SiteSettings(name="south", client=SOUTH, data=SiteData(rehearsal=True), **changes)
    (tmp_path / "site.toml").write_bytes(to_toml(settings))
    return tmp_path


def test_a_site_is_opened_from_its_folder(tmp_path):
    site = SiteProcess.open(folder_of(tmp_path))
    assert site.about() == open_site(tmp_path / "other").about()
    assert (tmp_path / "kept").is_dir()


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda folder: (folder / "site.toml").unlink(), "is not a site's folder: it has no site.toml"),
        (lambda folder: (folder / "initial.safetensors").unlink(), "has no initial.safetensors"),
        (lambda folder: (folder / "site.toml").write_text("name = "), "is not valid TOML"),
    ],
    ids=["no settings", "no model", "broken settings"],
)
def test_a_folder_that_is_not_whole_ends_with_one_sentence(tmp_path, capsys, break_it, says):
    break_it(folder_of(tmp_path))
    with pytest.raises(SystemExit) as end:
        main(tmp_path)
    assert end.value.code == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]
    assert len(lines) == 1
    assert re.search(says, lines[0])


def test_a_server_cannot_fill_the_audit_log_with_rounds_that_are_refused(tmp_path):
    site = open_site(tmp_path)
    for number in range(900, 920):
        answer, _ = ask(site, "update", shared_tensors(), round=number)
        assert "beyond" in answer.error
    found = [entry for entry in read_audit(site.folder).entries if entry["what"] == "request refused"]
    assert len(found) == 1
    assert len((site.folder / "policy.jsonl").read_text().splitlines()) == 20
