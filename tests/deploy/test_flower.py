"""The contract with Flower 1.41: what ``deploy/flower.py`` relies on. Its next release breaks these tests first."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.core.errors import FedloomError
from fedloom.deploy import flower
from fedloom.deploy.provision.certificates import make_node_key

SOURCE = Path(flower.__file__).resolve().parents[1]


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_this_is_the_release_that_was_tried() -> None:
    flower.check_flower()


def test_another_release_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flower, "VERSION", "9.9")
    with pytest.raises(FedloomError, match=r"needs Flower 9\.9, but 1\.41\.0 is installed"):
        flower.check_flower()


def test_one_file_of_ours_touches_flower() -> None:
    pattern = re.compile(r"^\s*(?:from|import) flwr", re.MULTILINE)
    assert [path.name for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())] == ["flower.py"]


def test_no_path_that_reads_what_came_from_elsewhere_knows_pickle() -> None:
    """Only Ray, between its own workers, and the notes that say so."""
    pattern = re.compile(r"^\s*(?:from|import) (?:c?pickle|cloudpickle|dill|joblib|shelve|marshal)|torch\.load\(", re.M)
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if pattern.search(path.read_text())}
    assert found <= {"engine/ray.py", "engine/cluster.py"}
    allowed = re.compile(r"allow_pickle=True")
    assert not [path for path in SOURCE.rglob("*.py") if allowed.search(path.read_text())]


def test_a_supernode_sleeps_where_we_think_it_does_and_asks_for_what_we_give() -> None:
    from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, pull_objects
    from flwr.supernode import fleet_http_connection, start_client_internal

    source = inspect.getsource(start_client_internal)
    assert f"time.sleep({flower.IDLE})" in source
    assert set(re.findall(r"\btime\.(\w+)", source)) == {"sleep"}  # nothing else of the module is used
    assert "pull_objects(" in source
    assert "FleetHttpClient.from_server_address(" in inspect.getsource(fleet_http_connection)
    for pull in (pull_objects, pull_and_inflate_object_from_tree):
        assert {"max_time", *flower.BACKOFF} <= parameters(pull)


def test_flowers_clients_take_what_we_give_them() -> None:
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supernode.fleet_http_client import FleetHttpClient

    for client in (ControlHttpClient, RuntimeHttpClient, FleetHttpClient):
        assert parameters(client.from_server_address) >= {
            "server_address", "insecure", "root_certificates", "interceptors"
        }  # fmt: skip
    assert {"base_url", "verify"} <= parameters(FleetHttpClient.__init__)
    assert all(hasattr(ControlHttpClient, name) for name in ("RegisterNode", "ListNodes", "StopRun"))
    assert hasattr(RuntimeHttpClient, "AcquireTask")


def test_a_message_is_taken_from_a_supernode_and_answered_with_these_functions() -> None:
    from flwr.supernode.runtime import run_clientapp

    assert parameters(run_clientapp.pull_task_input) == {"client"}
    assert parameters(run_clientapp.push_message) == {"client", "message", "context"}
    assert parameters(run_clientapp.push_task_output) == {"client", "context", "sub_status", "details"}


@pytest.fixture
def at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made inside a run."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.usefixtures("at_work")
def test_flower_passes_our_bytes_on_as_they_are() -> None:
    from flwr.app import Message

    data = bytes(range(256)) * 3
    message = Message(flower._record(data), 7, "train", ttl=60.0, group_id="1")
    assert flower._data(message) == data
    answer = Message(flower._record(b"answer"), reply_to=message)
    assert flower._received_message("name", answer) == flower.ReceivedMessage(
        "name", answer.metadata.src_node_id, b"answer"
    )


class Grid:
    """Flower's grid, as far as we use it: every message is what ``pulled`` gives, or raises."""

    def __init__(self, **pulled: object) -> None:
        self.pulled = pulled

    def pull_messages(self, names: list[str]) -> list[object]:
        found = self.pulled[names[0]]
        if isinstance(found, Exception):
            raise found
        return [found]


@pytest.mark.usefixtures("at_work")
def test_a_message_that_flower_cannot_read_spoils_no_other() -> None:
    from flwr.app import Message
    from google.protobuf.message import DecodeError

    good = Message(flower._record(b"good"), 7, "train")
    replies = flower.ServerTransport(Grid(bad=DecodeError("garbage"), good=good)).fetch(["bad", "good"], 1.0)
    assert [(reply.reply_to, reply.data, reply.unreadable) for reply in replies] == [
        ("bad", b"", "the message cannot be read"),
        ("good", b"good", ""),
    ]


def test_a_message_of_too_many_pieces_or_bytes_is_not_fetched_to_its_end() -> None:
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
    from flwr.superlink.grid import http_grid

    transport = flower.ServerTransport(Grid())
    transport.limit = 10
    transport.fetch([], 1.0)
    asked: list[str] = []

    def piece(name: str) -> bytes:
        asked.append(name)
        return b"1234"

    with pytest.raises(ObjectPullError, match="9 parts, and at most 8 are allowed"):
        http_grid.pull_objects(object_ids=[str(number) for number in range(flower.PIECES + 1)], pull_object_fn=piece)
    assert not asked
    assert "pull_objects(\n                        object_ids=[" in inspect.getsource(
        http_grid
    )  # it is called by these names
    assert "pull_object_fn=" in inspect.getsource(http_grid)
    with pytest.raises(ObjectPullError, match="more than 10 bytes"):
        http_grid.pull_objects(["a", "b", "c"], piece)
    assert http_grid.pull_objects(["a", "b"], piece) == {"a": b"1234", "b": b"1234"}


@pytest.mark.usefixtures("at_work")
def test_a_message_without_our_bytes_is_empty() -> None:
    from flwr.app import ConfigRecord, Message, RecordDict

    for content in (RecordDict(), RecordDict({flower._RECORD: ConfigRecord({flower._RECORD: "x"})})):
        assert flower._data(Message(content, 7, "train")) == b""


def test_a_nodes_key_is_written_as_the_superlink_writes_it(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    make_node_key(tmp_path / "node.key", tmp_path / "node.pub")
    key = load_ssh_private_key((tmp_path / "node.key").read_bytes(), None)
    assert flower.public_key(tmp_path / "node.pub") == public_key_to_bytes(key.public_key())  # type: ignore[arg-type]


def test_the_programs_know_the_options_we_start_them_with(tmp_path: Path) -> None:
    link = import_module("flwr.superlink.cli.flower_superlink")._parse_args_run_superlink()
    parsed = link.parse_args(flower.superlink_command(tmp_path, 1)[1:])
    assert (parsed.host, parsed.port, parsed.enable_supernode_auth) == ("127.0.0.1", 1, True)
    node = import_module("flwr.supernode.cli.flower_supernode")._parse_args_run_supernode()
    parsed = node.parse_args(flower.supernode_command(tmp_path, "host:1", 2)[5:])
    assert (parsed.isolation, parsed.superlink, parsed.port, parsed.host) == ("process", "host:1", 2, "127.0.0.1")


def test_the_app_is_one_that_flower_takes(tmp_path: Path) -> None:
    from flwr.common.config import get_project_config

    app = flower.write_app(tmp_path / "home", tmp_path)
    parts = get_project_config(app)["tool"]["flwr"]["app"]
    assert parts["config"]["folder"] == str(tmp_path.resolve())
    assert parts["components"] == {"serverapp": "fedloom_app.server:app", "clientapp": "fedloom_app.client:app"}


def test_the_number_of_a_submitted_run_is_found_in_what_flower_says() -> None:
    assert flower.run_id("Using SuperLink: link\nSuccessfully started run 5762673691233938032\n") == (
        "5762673691233938032"
    )
    assert flower.run_id("Error: no") is None


def test_waits_grow_while_nothing_happens_and_begin_anew() -> None:
    slept: list[float] = []
    patience = flower.PollDelay(0.01)
    patience_sleep, flower.time.sleep = flower.time.sleep, slept.append  # type: ignore[assignment]
    try:
        for _ in range(200):
            patience.sleep()
        patience.reset()
        patience.sleep()
    finally:
        flower.time.sleep = patience_sleep
    assert slept[:200] == sorted(slept[:200])
    assert slept[199] == flower.SLOWEST
    assert slept[200] == slept[0] == 0.01


def test_what_flower_no_longer_has_is_said() -> None:
    with pytest.raises(FedloomError, match="has no nothing"):
        flower._replace(flower, "nothing", None)
