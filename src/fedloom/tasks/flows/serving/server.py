"""What ``fedloom flows serve`` serves: a page to build a flow on, and the model's answers.

It listens on loopback, and knows the model and nothing else: no file is read or written for a request. A request that
is wrong is answered with a sentence as JSON (``{"error": ...}``) and a 4xx code.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import brief
from fedloom.tasks.flows.formats.flow_json import from_json, to_json
from fedloom.tasks.flows.formats.json_values import JsonValue, parse_json
from fedloom.tasks.flows.formats.read_flow import from_bytes
from fedloom.tasks.flows.learning.recommender import Recommender
from fedloom.tasks.flows.rules import DIALECTS, validate_draft
from fedloom.tasks.flows.serving.page import builder_page, security_policy
from fedloom.web.access import Access
from fedloom.web.page_server import HTML, JSON, PageRequest, PageServer, RequestError

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
        access: Who of this machine may ask; everybody by default.
    """

    def __init__(self, recommender: Recommender, port: int = 0, access: Access | None = None) -> None:
        self.recommender, self.lock = recommender, threading.Lock()
        self.page = builder_page(recommender)
        super().__init__(ADDRESS, port, _Handler, access or Access(everybody=True))
        self.url = f"http://{ADDRESS}:{self.server_address[1]}/"


class _Handler(PageRequest):
    server: FlowServer
    routes: ClassVar = {
        ("GET", "/"): "send_page",
        ("POST", "/recommend"): "send_suggestions",
        ("POST", "/read"): "send_flow",
    }
    private: ClassVar = "this model belongs to another user of this machine."

    def send_page(self) -> None:
        self.send_text(HTTPStatus.OK, self.server.page, HTML)

    def send_suggestions(self) -> None:
        self._send_answer(self._suggestions)

    def send_flow(self) -> None:
        self._send_answer(self._flow)

    def refuse(self, code: HTTPStatus, sentence: str) -> None:
        self.send_text(code, json.dumps({"error": sentence}), JSON)

    def _send_answer(self, answer: Callable[[JsonValue], str]) -> None:
        if self.headers.get_content_type() != JSON:
            raise RequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question is application/json.")
        try:
            self.send_text(HTTPStatus.OK, answer(parse_json(self.read_body(LARGEST), "the question")), JSON)
        except FedloomError as wrong:
            raise RequestError(HTTPStatus.BAD_REQUEST, str(wrong)) from None

    def _suggestions(self, question: JsonValue) -> str:
        """The ranked next actions of a flow under construction."""
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
        return json.dumps(answer)

    def _flow(self, question: JsonValue) -> str:
        """A flow file of any format as Fedloom's JSON."""
        name, text = question.field("name").text(), question.field("text").text()
        reading = from_bytes(text.encode(), brief(name), self._dialects, draft=True)
        wanted = self.server.recommender.dialect
        if reading.dialect.name != wanted.name:
            raise FedloomError(
                f"{brief(name)} is a flow of the dialect '{reading.dialect.name}', but this model was trained on flows "
                f"of '{wanted.name}'."
            )
        validate_draft(reading.flow, wanted)
        return to_json(reading.flow, wanted)

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
