"""The small web server behind ``fedloom flows serve``: a page to build a flow on, and the model's answers.

It listens on loopback, and knows the model and nothing else: no file is read or written for a request. A request that
is wrong is answered with a sentence as JSON (``{"error": ...}``) and a 4xx code. Requests under another host's name and
of other sites' pages are refused, so that no page elsewhere can ask through somebody's browser.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import brief
from fedloom.tasks.flows.formats.flow_json import from_json, to_json
from fedloom.tasks.flows.formats.json_values import JsonValue, parse_json
from fedloom.tasks.flows.formats.read_flow import from_bytes
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.rules import DIALECTS, validate_draft
from fedloom.tasks.flows.serving.page import builder_page, security_policy
from fedloom.web.page_server import PageRequest, PageServer

ADDRESS = "127.0.0.1"
LARGEST = 4 << 20
"""The most bytes of a request; a flow of a thousand nodes has a hundredth of it."""
MOST_NODES = 2_000
"""The most nodes of a flow that is asked about."""
MOST_SUGGESTIONS = 100


class FlowServer(PageServer):
    """Serves a model until it is shut down.

    Args:
        recommender: The model.
        port: The port on loopback; 0 chooses a free one.
        admits: Whether a connection may ask, by the addresses of its two ends.
    """

    def __init__(
        self, recommender: Recommender, port: int = 0, admits: Callable[[Any, Any], bool] = lambda *_: True
    ) -> None:
        self.recommender, self.admits, self.lock = recommender, admits, threading.Lock()
        self.page = builder_page(recommender)
        super().__init__(ADDRESS, port, _Handler)
        self.url = f"http://{ADDRESS}:{self.server_address[1]}/"


class RequestError(Exception):
    """A request that is refused: an HTTP code and a sentence."""

    def __init__(self, code: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class _Handler(PageRequest):
    server: FlowServer

    def do_GET(self) -> None:  # noqa: N802
        self._answer_request({"/": lambda: ("text/html; charset=utf-8", self.server.page)})

    def do_POST(self) -> None:  # noqa: N802
        self._answer_request({"/recommend": self._recommend, "/read": self._read})

    def do_OTHER(self) -> None:  # noqa: N802
        self._answer_request({})

    do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_OTHER  # noqa: N815

    def _answer_request(self, routes: dict[str, Callable[[], tuple[str, str]]]) -> None:
        try:
            self._check_sender()
            path = self.path.partition("?")[0]
            if path not in ("/", "/recommend", "/read"):
                raise RequestError(HTTPStatus.NOT_FOUND, "there is only the page / and its two questions.")
            if path not in routes:
                raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not take {brief(self.command)}.")
            kind, text = routes[path]()
            self.send_text(HTTPStatus.OK, text, kind)
        except RequestError as wrong:
            self.close_connection = True
            self.send_text(wrong.code, json.dumps({"error": str(wrong)}), "application/json")
        except FedloomError as wrong:
            self.send_text(HTTPStatus.BAD_REQUEST, json.dumps({"error": str(wrong)}), "application/json")

    def _check_sender(self) -> None:
        port = self.server.server_address[1]
        hosts = {f"{name}:{port}" for name in (ADDRESS, "localhost")}
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in hosts:
            raise RequestError(HTTPStatus.MISDIRECTED_REQUEST, "this page is not served under that name.")
        if origin is not None and origin not in {f"http://{name}" for name in hosts}:
            raise RequestError(HTTPStatus.FORBIDDEN, "another site's page may not ask here.")
        if not self.server.admits(self.client_address, self.request.getsockname()):
            raise RequestError(HTTPStatus.FORBIDDEN, "this model belongs to another user of this machine.")

    def _body(self) -> bytes:
        if self.headers.get_content_type() != "application/json":
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question is application/json.")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "a question says its length (Content-Length).")
        if int(length) > LARGEST:
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has at most {LARGEST >> 20} MB.")
        return self.rfile.read(int(length))

    def _recommend(self) -> tuple[str, str]:
        """The ranked next actions of a flow under construction."""
        question = parse_json(self._body(), "the question")
        fields = question.fields()
        for name in fields.keys() - {"flow", "after", "label", "top"}:
            raise fields[name].error("a question has flow, after, label and top")
        flow = from_json(question.field("flow"), self._dialects).flow
        if len(flow.nodes) > MOST_NODES:
            raise FedloomError(f"a flow that is asked about has at most {MOST_NODES:,} nodes.")
        after, label = (_optional_text(fields.get(name)) for name in ("after", "label"))
        top = _count(fields.get("top"))
        began = time.perf_counter()
        with self.server.lock:  # one answer after the other: each takes milliseconds on one thread
            recommender = self.server.recommender
            suggestions = recommender.recommend(flow, top, after, label)
            unknown = recommender.unknown_words(recommender.question(flow, after, label))
        answer = {
            "suggestions": [suggestion._asdict() for suggestion in suggestions],
            "unknown": [word._asdict() for word in unknown],
            "milliseconds": round(1000 * (time.perf_counter() - began), 2),
        }
        return "application/json", json.dumps(answer)

    def _read(self) -> tuple[str, str]:
        """A flow file of any format as Fedloom's JSON."""
        question = parse_json(self._body(), "the question")
        name, text = question.field("name").text(), question.field("text").text()
        reading = from_bytes(text.encode(), brief(name), self._dialects, draft=True)
        wanted = self.server.recommender.dialect
        if reading.dialect.name != wanted.name:
            raise FedloomError(
                f"{brief(name)} is a flow of the dialect '{reading.dialect.name}', but this model was trained on flows "
                f"of '{wanted.name}'."
            )
        validate_draft(reading.flow, wanted)
        return "application/json", to_json(reading.flow, wanted)

    @property
    def _dialects(self) -> dict[str, Any]:
        own = self.server.recommender.dialect
        return {**DIALECTS, own.name: own}

    def security_policy(self) -> str:
        return security_policy()


def _optional_text(value: JsonValue | None) -> str | None:
    return None if value is None or value.value is None else value.text()


def _count(value: JsonValue | None) -> int:
    if value is None:
        return 8
    if type(value.value) is not int or not 1 <= value.value <= MOST_SUGGESTIONS:
        raise value.error(f"top is a whole number from 1 to {MOST_SUGGESTIONS}")
    return value.value
