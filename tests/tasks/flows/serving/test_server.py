"""The server behind ``fedloom flows serve``: the model's own answers, and a sentence for every wrong request."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.formats.flow_json import to_json
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel
from fedloom.tasks.flows.rules import PLATFORM
from fedloom.tasks.flows.serving.server import LARGEST, MOST_NODES, FlowServer
from fedloom.web.access import Access
from support import small_flows
from support.paths import FLOW_EXAMPLES
from support.waiting import LIMIT

JSON = {"Content-Type": "application/json"}
FLOW = json.loads(to_json(small_flows.flow(1), PLATFORM))


@pytest.fixture(scope="module")
def recommender() -> Recommender:
    task = small_flows.task()
    return Recommender(SavedFlowModel.of_task(task, task.initial_row(), "north", "fedavg"))


@pytest.fixture(scope="module")
def server(recommender: Recommender) -> Iterator[FlowServer]:
    with FlowServer(recommender) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def ask(
    server: FlowServer, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The code and the answer to a request; every answer has the headers that keep a browser in."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=LIMIT)
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, sent, JSON if headers is None else headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "connect-src 'self'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text


def test_the_answer_is_the_models_own(server: FlowServer, recommender: Recommender) -> None:
    code, found = ask(server, "POST", "/recommend", {"flow": FLOW, "after": "if", "label": "True", "top": 4})
    assert code == 200
    expected = recommender.recommend(small_flows.flow(1), 4, "if", "True")
    assert [(one["kind"], one["probability"]) for one in found["suggestions"]] == [tuple(one) for one in expected]
    assert found["milliseconds"] > 0
    code, found = ask(server, "POST", "/recommend", {"flow": FLOW, "after": "if", "label": "Maybe"})
    assert {"element": "edge", "attribute": "label", "word": "Maybe"} in found["unknown"]


def test_a_file_is_read_as_a_draft(server: FlowServer) -> None:
    text = (FLOW_EXAMPLES / "order_approval.json").read_text()
    code, found = ask(server, "POST", "/read", {"name": "order.json", "text": text})
    assert (code, found["format"]) == (200, "fedloom-flow")
    assert len(found["nodes"]) == len(json.loads(text)["nodes"])


def test_the_page_has_one_script_and_nothing_from_elsewhere(server: FlowServer) -> None:
    code, page = ask(server, "GET", "/")
    assert code == 200
    assert page.count("<script>") == 1
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "north" in page


LONG = {"flow": {**FLOW, "nodes": [{"id": str(i), "kind": "Assign"} for i in range(MOST_NODES + 1)], "edges": []}}


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "said"),
    [
        ("GET", "/secret", None, 404, "there is only /, /read, /recommend here"),
        ("GET", "/recommend", None, 405, "does not take GET"),
        ("POST", "/", {}, 405, "does not take POST"),
        ("DELETE", "/", None, 405, "does not take DELETE"),
        ("POST", "/recommend", b"{", 400, "the question, line 1"),
        ("POST", "/recommend", b"\xff\xfe", 400, "the question"),
        ("POST", "/recommend", [1], 400, "expected an object"),
        ("POST", "/recommend", {}, 400, "flow"),
        ("POST", "/recommend", {"flow": {"nodes": []}}, 400, "flow"),
        ("POST", "/recommend", {"flow": FLOW, "after": "nobody"}, 400, "no node 'nobody'"),
        ("POST", "/recommend", {"flow": FLOW, "after": 3}, 400, "after"),
        ("POST", "/recommend", {"flow": FLOW, "after": "True end"}, 400, "is an end of this flow"),
        ("POST", "/recommend", {"flow": FLOW, "after": "if", "top": 0}, 400, "top is a whole number"),
        ("POST", "/recommend", {"flow": FLOW, "after": "if", "top": True}, 400, "top is a whole number"),
        ("POST", "/recommend", {"flow": FLOW, "more": 1}, 400, "a question has flow, after, label and top"),
        ("POST", "/recommend", {"flow": {**FLOW, "dialect": "ours"}}, 400, "ours"),
        ("POST", "/recommend", LONG, 400, "at most 2,000 nodes"),
        ("POST", "/recommend", b"[" * 100_000, 400, "the question"),
        ("POST", "/read", {"name": "x", "text": "{"}, 400, "x, line 1"),
        ("POST", "/read", {"name": "x", "text": '<!DOCTYPE a [<!ENTITY b "c">]><a/>'}, 400, "document type or entity"),
        ("POST", "/read", {"name": "x", "text": '{"nodes": [], "connections": {}}'}, 400, "dialect 'n8n'"),
        ("POST", "/read", {"text": "{}"}, 400, "name"),
    ],
)
def test_a_wrong_request_is_a_sentence(
    server: FlowServer, method: str, path: str, body: Any, code: int, said: str
) -> None:
    found, answer = ask(server, method, path, body)
    assert found == code
    assert list(answer) == ["error"]
    assert said in answer["error"]
    assert "\n" not in answer["error"]
    assert answer["error"].endswith((".", "?"))


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({**JSON, "Host": "evil.example"}, 421),
        ({**JSON, "Host": "localhost.evil.example"}, 421),
        ({**JSON, "Origin": "https://evil.example"}, 403),
        ({**JSON, "Origin": "http://127.0.0.1:1"}, 403),
        ({**JSON, "Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({**JSON, "Content-Length": str(LARGEST + 1)}, 413),
        ({**JSON, "Content-Length": "x"}, 411),
        ({**JSON, "Content-Length": "-1"}, 411),
    ],
)
def test_other_sites_pages_and_names_are_refused(server: FlowServer, headers: dict[str, str], code: int) -> None:
    found, answer = ask(server, "POST", "/recommend", {"flow": FLOW}, headers)
    assert found == code
    assert answer["error"]


def test_its_own_page_may_ask_under_both_names(server: FlowServer) -> None:
    port = server.server_address[1]
    for name in ("localhost", "127.0.0.1"):
        headers = {**JSON, "Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"}
        assert ask(server, "POST", "/recommend", {"flow": FLOW, "after": "if"}, headers)[0] == 200


def test_a_connection_of_another_user_is_refused(recommender: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedloom.web.connection_owner.user_of_connection", lambda *_: 65534)
    with FlowServer(recommender, access=Access()) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        found, answer = ask(one, "GET", "/")
        one.shutdown()
        thread.join()
    assert found == 403
    assert "another user" in answer["error"]


def test_a_port_that_is_taken_is_a_sentence(recommender: Recommender) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(FedloomError, match="is in use: end the program that uses it"):
            FlowServer(recommender, taken.getsockname()[1])
    with pytest.raises(FedloomError, match="ports are 0 to 65535"):
        FlowServer(recommender, 70_000)


def test_only_loopback_is_listened_on(server: FlowServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
