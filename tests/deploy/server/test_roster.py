"""Who is let in: a site is known by its key, tells its sizes once each time it connects, and is refused in words."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
import torch

import fedloom
from fedloom.deploy.flower.server_transport import NodeInfo, ReceivedMessage
from fedloom.deploy.protocol.blueprint import ClientSizes
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.server.roster import Roster
from fedloom.deploy.settings import ServerSettings
from support.local_transport import NAMES, LocalTransport, Sent, node_keys, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
VERSIONS = {"fedloom": fedloom.__version__, "protocol": PROTOCOL, "torch": str(torch.__version__)}
ABOUT = {**VERSIONS, "digest": "d1", "train": 10, "valid": 0, "test": 5, "points": 15}


@cache
def honest(client: int):
    def answer(data: bytes) -> bytes:
        request = unpack(data, SiteRequest, 1 << 20)[0]
        about = {**ABOUT, "train": 10 + client}
        header = SiteAnswer(run=request.run, ticket=request.ticket, client=client, round=0, about=about)
        return pack(header, {})

    return answer


def roster(**settings: Any) -> tuple[LocalTransport, Roster]:
    transport = LocalTransport({client: honest(client) for client in range(3)})
    chosen = ServerSettings(sites=NAMES, **{"join_timeout": 0.1, **settings})
    return transport, Roster(transport, chosen, node_keys(3), "run", "d1")


def answer_with(client: int, /, **changes: Any):
    """Meddling that changes what one site says of itself; a key with the value None is left out."""

    def meddle(sent: Sent) -> bytes:
        if sent.node != client:
            return sent.answer
        answer = unpack(sent.answer, SiteAnswer, 1 << 20)[0]
        header = {name: changes[name] for name in changes if name in SiteAnswer.model_fields}
        about = {**answer.about, **{name: changes[name] for name in changes if name not in header}}
        about = {name: value for name, value in about.items() if value is not None}
        return pack(answer.model_copy(update={"about": about, **header}), {})

    return meddle


def test_all_who_are_there_are_greeted_and_their_sizes_noted():
    _, everyone = roster()
    messages: list[str] = []
    everyone.wait_for_all(messages.append)
    assert everyone.sizes == {client: ClientSizes(10 + client, 0, 5, 15) for client in range(3)}
    assert messages == ["3 of 3 sites are connected"]
    assert everyone.present() == [0, 1, 2]


def test_a_site_is_greeted_once_until_it_connects_anew():
    transport, everyone = roster()
    for _ in range(3):
        everyone.present()
    assert len(transport.sent) == 3
    transport.since[1] = 2.0
    everyone.present()
    assert [sent.node for sent in transport.sent] == [0, 1, 2, 1]


def test_whoever_is_missing_is_waited_for_and_then_named(caplog):
    transport, everyone = roster(join_timeout=0.05)
    transport.away.add(1)
    messages: list[str] = []
    everyone.wait_for_all(messages.append)
    assert messages == ["2 of 3 sites are connected"]
    assert "south: never connected" in caplog.text
    assert everyone.present() == [0, 2]
    transport.away.clear()
    assert everyone.present() == [0, 1, 2]  # welcome later
    transport.away.add(0)
    assert everyone.present() == [1, 2]


def test_a_node_with_an_unknown_key_is_nobody():
    transport, everyone = roster()
    transport.keys[1] = b"stranger"
    everyone.wait_for_all(lambda _: None)
    assert everyone.present() == [0, 2]
    assert [sent.node for sent in transport.sent] == [0, 2]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            {"fedloom": "0.0.1", "protocol": PROTOCOL + 1},
            rf"it runs fedloom 0.0.1 .protocol {PROTOCOL + 1}., but the server runs {fedloom.__version__} .protocol "
            rf"{PROTOCOL}.: pip install 'fedloom.deploy.=={fedloom.__version__}' there, or upgrade the server",
        ),
        (
            {"fedloom": None, "protocol": None},
            rf"it runs fedloom None .no protocol with a number., but the server runs {fedloom.__version__}",
        ),
        ({"protocol": "1"}, "it runs fedloom .* .no protocol with a number."),
        ({"torch": "2.0.1"}, r"it has torch 2.0.1, but the server has .*: pip install torch==[0-9.]+ there"),
        ({"digest": "d2"}, "its folder was made for another run: give it the one of this deployment"),
        ({"train": 0}, "it has no training sample"),
        (
            {"train": 10**15},
            "it announces 1000000000000000 train samples; 0 to 1,000,000,000 are allowed .max_samples.",
        ),
        ({"train": None}, "it announces None train samples"),
        ({"test": "many"}, "it announces many test samples"),
        ({"test": "\x1b[2J\n" + "many" * 40}, r"it announces  .2J (many)+man\.\.\. test samples"),
        ({"client": 0}, "its answer does not belong to its greeting"),
        ({"ticket": "old"}, "its answer does not belong to its greeting"),
        ({"run": "other"}, "its answer does not belong to its greeting"),
        ({"error": "data.csv has no column age"}, "data.csv has no column age"),
    ],
)
def test_what_a_site_says_of_itself_is_checked(said, reason, caplog):
    transport, everyone = roster()
    transport.meddle = answer_with(1, **said)
    everyone.wait_for_all(lambda _: None)
    assert everyone.sizes.keys() == {0, 2}
    assert everyone.present() == [0, 2]
    assert re.search(f"south may not take part: {reason}", caplog.text)


@pytest.mark.parametrize("said", [-1, 1.5, True])
def test_a_count_is_a_whole_number(said):
    """Not what ``pack`` would write: the bytes of somebody who writes their own."""
    transport, everyone = roster()

    def meddle(sent: Sent) -> bytes:
        if sent.node != 1:
            return sent.answer
        header = json.loads(unpack(sent.answer, SiteAnswer, 1 << 20)[0].model_dump_json())
        header["about"]["train"] = said
        text = json.dumps(header).encode()
        return len(text).to_bytes(4, "little") + text + pack(SiteAnswer(run="", ticket="", client=0, round=0), {})[-10:]

    transport.meddle = meddle
    everyone.wait_for_all(lambda _: None)
    assert everyone.present() == [0, 2]
    assert "header is invalid" in everyone.refused[1]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: b"garbage", "the header claims"),
        (lambda sent: sent.answer + bytes(1 << 20), "1,048,576 are allowed"),
        (lambda sent: ReceivedMessage(sent.name, 0, unreadable="it cannot be read"), "cannot be read"),
        (lambda sent: ReceivedMessage(sent.name, 0, sent.answer), "its answer does not belong to its greeting"),
    ],
    ids=["garbage", "huge", "unreadable", "from another node"],
)
def test_whatever_answers_a_greeting_the_server_goes_on(answer, reason):
    transport, everyone = roster()
    transport.meddle = lambda sent: answer(sent) if sent.node == 1 else sent.answer
    everyone.wait_for_all(lambda _: None)
    assert everyone.present() == [0, 2]
    assert re.search(reason, everyone.refused[1])


def test_a_site_that_was_busy_until_its_greeting_lapsed_is_greeted_again():
    transport, everyone = roster()
    transport.meddle = lambda sent: (
        ReceivedMessage(sent.name, sent.node, error="lapsed") if sent.node == 1 else sent.answer
    )
    everyone.greet()
    assert everyone.present() == [0, 2]
    assert not everyone.refused
    transport.meddle = lambda sent: sent.answer
    everyone.greet()
    assert everyone.present() == [0, 1, 2]


def test_a_refused_site_may_come_back_mended():
    transport, everyone = roster()
    transport.meddle = answer_with(1, digest="d2")
    everyone.wait_for_all(lambda _: None)
    transport.meddle = lambda sent: sent.answer
    assert everyone.present() == [0, 2]
    transport.since[1] = 2.0
    assert everyone.present() == [0, 1, 2]
    assert everyone.refused == {}


def test_a_site_that_comes_back_broken_is_no_longer_there():
    transport, everyone = roster()
    everyone.wait_for_all(lambda _: None)
    transport.meddle, transport.since[1] = answer_with(1, digest="d2"), 2.0
    assert everyone.present() == [0, 2]


def test_the_run_is_told_of_sizes_that_are_new():
    transport, everyone = roster()
    calls: list[dict[int, ClientSizes]] = []
    everyone.on_join = lambda: calls.append(dict(everyone.sizes))
    everyone.wait_for_all(lambda _: None)
    assert len(calls) == 3
    transport.since[1] = 2.0
    everyone.present()
    assert len(calls) == 3  # the same as before
    transport.meddle, transport.since[1] = answer_with(1, train=99), 3.0
    everyone.present()
    assert len(calls) == 4
    assert calls[-1][1].train == 99


def test_an_evaluator_is_no_training_site():
    transport = LocalTransport({client: honest(client) for client in range(4)})
    settings = ServerSettings(sites=NAMES, evaluator="judge", join_timeout=0.1)
    everyone = Roster(transport, settings, node_keys(4), "run", "d1")
    assert everyone.evaluator is None
    everyone.wait_for_all(lambda _: None)
    assert everyone.evaluator == 3
    assert everyone.present() == [0, 1, 2]


def test_sites_are_waited_for_until_there_are_enough():
    transport, everyone = roster(join_timeout=5.0)
    transport.away = {0, 1}
    looks: list[int] = []
    nodes = transport.nodes

    def nodes_one_by_one() -> list[NodeInfo]:
        looks.append(len(transport.away))
        if len(looks) == 3:
            transport.away.clear()
        return nodes()

    transport.nodes = nodes_one_by_one  # type: ignore[method-assign]
    everyone.wait_for(2)
    assert everyone.present() == [0, 1, 2]
    assert len(looks) >= 3


def test_waiting_ends_with_the_time_to_join():
    transport, everyone = roster(join_timeout=0.05)
    transport.away = {0, 1}
    everyone.wait_for(2)
    assert everyone.present() == [2]


def test_who_connects_and_who_is_refused_is_recorded():
    transport, everyone = roster()
    transport.meddle = answer_with(1, protocol=PROTOCOL + 1)
    recorded: list[tuple[Any, ...]] = []
    everyone.audit = lambda what, **facts: recorded.append((what, facts["site"], facts.get("train"), *facts))
    everyone.greet()
    assert sorted(recorded)[:2] == [
        ("site connected", NAMES[0], 10, "site", "version", "train", "valid", "test", "points"),
        ("site connected", NAMES[2], 12, "site", "version", "train", "valid", "test", "points"),
    ]
    assert sorted(recorded)[2:] == [("site refused", NAMES[1], None, "site", "reason")]


def test_a_site_of_another_version_that_speaks_the_same_protocol_takes_part_and_that_is_said_once(caplog):
    transport, everyone = roster()
    recorded: list[dict[str, Any]] = []
    everyone.audit = lambda what, **facts: recorded.append({"what": what, **facts})
    transport.meddle = answer_with(1, fedloom="9.8.7", torch=VERSIONS["torch"].partition("+")[0] + "+other")
    for moment in (1.0, 2.0, 3.0):  # it connects again and again
        transport.since[1] = moment
        assert everyone.present() == [0, 1, 2]
    said = (
        f"runs fedloom 9.8.7, and the server {fedloom.__version__} (both speak protocol {PROTOCOL}); torch "
        f"{VERSIONS['torch'].partition('+')[0]}+other, and the server {VERSIONS['torch']} (the same release)"
    )
    assert caplog.text.count(f"{NAMES[1]} {said}") == 1
    south = [one for one in recorded if one["what"] == "site connected" and one["site"] == NAMES[1]]
    assert [(one["version"], one["differs"]) for one in south] == [("9.8.7", said)] * 3
    assert not [one for one in recorded if one["site"] != NAMES[1] and "differs" in one]
    transport.meddle, transport.since[1] = answer_with(1, fedloom="9.9.0"), 4.0
    everyone.present()
    assert caplog.text.count(f"{NAMES[1]} runs fedloom 9.9.0") == 1  # another version is another difference


def test_sizes_that_change_are_said():
    transport, everyone = roster()
    everyone.present()
    assert everyone.take_remarks() == []
    transport.meddle, transport.since[1] = answer_with(1, train=20), 2.0
    everyone.present()
    said = "announces 20 training, 0 validation and 5 test samples instead of 11 training, 0 validation and 5"
    assert everyone.take_remarks() == [(1, f"{said} test samples")]
    assert everyone.take_remarks() == []


@pytest.mark.parametrize(
    ("claim", "counts", "why"),
    [
        (1000, 22, r"\(max_share = 0.5\)"),
        (
            10**9,
            11,
            r"\(the median of the others, since more than 1,000 times that is implausible; if it is true, state",
        ),
    ],
)
def test_a_huge_claim_is_cut_and_said_once(claim, counts, why):
    transport, everyone = roster(max_share=0.5)
    transport.meddle = answer_with(1, train=claim)
    everyone.wait_for_all(lambda _: None)
    assert everyone.sizes[1].train == claim
    assert {client: limit.most for client, limit in everyone.limits.items()} == {1: counts}
    ((client, text),) = everyone.take_remarks()
    assert client == 1
    assert re.match(f"announces {claim:,} training samples; {counts} of them count {why}", text)
    assert everyone.take_remarks() == []


def test_a_size_that_the_operator_states_is_believed_up_to_there():
    transport, everyone = roster(sizes={"south": 10**6})
    transport.meddle = answer_with(1, train=10**6)
    everyone.wait_for_all(lambda _: None)
    assert everyone.limits == {}
    transport.meddle, transport.since[1] = answer_with(1, train=10**9), 2.0
    everyone.present()
    assert everyone.limits[1].most == 10**6
    assert "(the size that deploy.toml states under [sizes])" in everyone.take_remarks()[-1][1]


def test_a_size_of_a_site_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="sizes names nowhere, which is not a training site"):
        roster(sizes={"nowhere": 5})
