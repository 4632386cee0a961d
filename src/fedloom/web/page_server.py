"""The one small web server of Fedloom: who is answered, by which function, and with which headers.

``fedloom watch``, ``fedloom flows serve`` and the reception of a deployment's server are routes on it. It is the
standard library's: a base install needs no other, and its import takes 31 ms, where starlette with uvicorn (which come
with Flower) takes 93 ms and still leaves everything below to be written.
"""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from fedloom.core.errors import FedloomError
from fedloom.web.access import Access

SLOWEST = 30.0
"""Seconds that a browser may take to send a request, or to take what it is sent."""
MOST_STREAMS = 32
"""Pages with a stream of events that can be open at once: each is a thread."""
HEARTBEAT = 5.0
"""Seconds after which a page without news gets an empty line, so that one that went away is noticed."""
TEXT, JSON, HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"


class RequestError(Exception):
    """A request that is refused: an HTTP code and a sentence."""

    def __init__(self, code: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class PageServer(ThreadingHTTPServer):
    """Listens on a port; what is wrong with the port is one sentence.

    Args:
        address: The address to listen on.
        port: The port; 0 chooses a free one.
        request: Answers a request.
        access: Who is answered.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str, port: int, request: type[PageRequest], access: Access) -> None:
        self.access = access
        self.ending, self.streams = threading.Event(), threading.BoundedSemaphore(MOST_STREAMS)
        try:
            super().__init__((address, port), request)
        except (OSError, OverflowError) as error:
            raise FedloomError(_port_sentence(address, port, error)) from None

    def end(self) -> None:
        """Close the port and let every page's thread end."""
        self.ending.set()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away; everything else is ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class PageRequest(BaseHTTPRequestHandler):
    """Answers one request, with headers that keep other pages from the answer. A subclass has routes."""

    timeout = SLOWEST
    server_version, sys_version = "fedloom", ""
    server: PageServer
    routes: ClassVar[Mapping[tuple[str, str], str]] = {}
    """The name of the method that answers, by HTTP method and path; HEAD is answered as GET is."""
    private: ClassVar[str] = "this page is private."
    """The sentence for somebody who may not see the page."""

    def answer(self) -> None:
        """Answer the request by its route, or refuse it in a sentence."""
        path, method = self.path.partition("?")[0], "GET" if self.command == "HEAD" else self.command
        try:
            self.check_sender()
            paths = {one for _, one in self.routes}
            if path not in paths:
                raise RequestError(HTTPStatus.NOT_FOUND, f"there is only {', '.join(sorted(paths))} here.")
            if (method, path) not in self.routes:
                raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not take {self.command[:10]}.")
            getattr(self, self.routes[method, path])()
        except RequestError as wrong:
            self.close_connection = True
            self.refuse(wrong.code, str(wrong))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer  # noqa: N815

    def check_sender(self) -> None:
        """Refuse a request under another host's name, of another site's page, or of somebody without access."""
        access, host = self.server.access, self.headers.get("Host", "")
        if not access.is_host(host):
            raise RequestError(HTTPStatus.MISDIRECTED_REQUEST, "this page is not served under that name.")
        # A script of another site can send a request from somebody's browser, but cannot hide where it comes from.
        if self.headers.get("Origin", f"//{host}").partition("//")[2] != host:
            raise RequestError(HTTPStatus.FORBIDDEN, "another site's page may not ask here.")
        ends = self.client_address[:2], self.request.getsockname()[:2]
        if not access.admits(self.headers.get("Authorization", ""), *ends):
            raise RequestError(HTTPStatus.UNAUTHORIZED if access.token else HTTPStatus.FORBIDDEN, self.private)

    def refuse(self, code: HTTPStatus, sentence: str) -> None:
        """Send the sentence with which a request is refused."""
        self.send_text(code, sentence + "\n")

    def security_policy(self) -> str:
        """The content security policy of the answer."""
        return "default-src 'none'"

    def read_body(self, largest: int) -> bytes:
        """The body of the request; one of more than ``largest`` bytes is refused."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal() and len(length) < 20):
            raise RequestError(HTTPStatus.LENGTH_REQUIRED, "a question says its length (Content-Length).")
        if int(length) > largest:
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has at most {largest:,} bytes.")
        return self.rfile.read(int(length))

    def send_text(self, code: HTTPStatus, text: str, kind: str = TEXT) -> None:
        """Send an answer.

        Args:
            text: Its content.
            kind: The type of the content.
        """
        content = text.encode("utf-8", "replace")
        self.send_head(code, kind, [("Content-Length", str(len(content)))])
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_events(self, new: Callable[[], Iterable[tuple[str, str]]], interval: float) -> None:
        """Send events until the browser goes away or the server ends.

        Args:
            new: The events since the last call, each with its name.
            interval: Seconds between two calls.
        """
        if not self.server.streams.acquire(blocking=False):
            raise RequestError(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_STREAMS} pages are open already.")
        try:
            self.send_head(HTTPStatus.OK, "text/event-stream")
            last = time.monotonic()
            while self.command != "HEAD" and not self.server.ending.is_set():
                for name, data in new():
                    self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
                    last = time.monotonic()
                if time.monotonic() - last > HEARTBEAT:
                    self.wfile.write(b": still here\n\n")
                    last = time.monotonic()
                self.server.ending.wait(interval)
        except OSError:  # the browser went away
            self.close_connection = True
        finally:
            self.server.streams.release()

    def send_head(self, code: HTTPStatus, kind: str, more: Iterable[tuple[str, str]] = ()) -> None:
        """Send the headers of an answer."""
        self.send_response(code)
        if code == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="fedloom: the password is the token", charset="UTF-8"')
        for name, value in (
            ("Content-Type", kind),
            *more,
            ("Content-Security-Policy", self.security_policy()),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


def _port_sentence(address: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use: end the program that uses it, or choose another with --port (0 finds a free one)."
        )
    reason = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
    return f"port {port} of {address} cannot be used ({reason}): choose another with --port."
