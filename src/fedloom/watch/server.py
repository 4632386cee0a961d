"""The small web server behind ``fedloom watch``: the page, its events, ``/health`` and ``/metrics``.

It answers GET and HEAD, reads the folder and changes nothing. Each open page is a thread that looks at the folder twice
a second; it ends when its browser goes away. All of them share one reading.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from http import HTTPStatus
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.settings import load_server
from fedloom.watch.access import Access, make_token, read_token
from fedloom.watch.live_events import LiveEvents, to_json
from fedloom.watch.page import live_page, security_policy
from fedloom.watch.prometheus import CONTENT_TYPE, prometheus_text
from fedloom.watch.status_reader import INTERVAL, StatusReader
from fedloom.web.page_server import PageRequest, PageServer, is_readable_by_all, refuse_unknown_visitors

MOST_PAGES = 32
"""Pages that can be open at once."""
HEARTBEAT = 5.0
"""Seconds after which a page without news gets an empty line, so that one that went away is noticed."""


class WatchServer(PageServer):
    """Serves the page of one folder until it is shut down.

    Args:
        folder: The folder of a run, or of a participant of a deployment.
        address: The address to listen on; other machines reach a server's folder only, over TLS and with its token.
        port: The port; 0 chooses a free one.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1", port: int = 0) -> None:
        self.reader = StatusReader(folder)
        self.access, context = _access(folder, self.reader.kind, _parse(address))
        self.ending, self.pages = threading.Event(), threading.BoundedSemaphore(MOST_PAGES)
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.reader.read()  # what is wrong with the folder is said before the server is there
        super().__init__(address, port, WatchRequest)
        if context is not None:  # the handshake is made by the request's own thread
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        host = self.access.name or address
        self.url = f"http{'s' if context else ''}://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/"

    def end(self) -> None:
        """Close the port and let every page's thread end."""
        self.ending.set()
        self.server_close()


class WatchRequest(PageRequest):
    """Answers one request to a page."""

    server: WatchServer

    def do_GET(self) -> None:  # noqa: N802
        """Answer a request for the page, its events, the health or the numbers."""
        path = self.path.partition("?")[0]
        own, peer = self.request.getsockname(), self.client_address
        if not self.server.access.is_host(self.headers.get("Host", "")):
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "This page is not served under that name.\n")
        elif not self.server.access.admits(self.headers.get("Authorization", ""), peer[:2], own[:2]):
            self._answer(HTTPStatus.UNAUTHORIZED, "This folder is private: its owner's, or the token in watch.token.\n")
        elif path == "/":
            self._answer(HTTPStatus.OK, live_page(self.server.reader.read()), "text/html; charset=utf-8")
        elif path == "/events":
            self._send_events()
        elif path == "/health":
            self._send_health()
        elif path == "/metrics":
            self._answer(HTTPStatus.OK, prometheus_text(self.server.reader.read(), time.time()), CONTENT_TYPE)
        else:
            self._answer(HTTPStatus.NOT_FOUND, "There are /, /health and /metrics.\n")

    do_HEAD = do_GET  # noqa: N815

    def _send_health(self) -> None:
        status, now = self.server.reader.read(), time.time()
        trouble = status.trouble(now)
        found = {
            "healthy": not trouble, "phase": status.phase, "reason": trouble or status.reason, "round": status.round,
            "rounds": status.rounds,
            "seconds_since_last_record": None if status.last_record is None else round(now - status.last_record, 1),
        }  # fmt: skip
        code = HTTPStatus.SERVICE_UNAVAILABLE if trouble else HTTPStatus.OK
        self._answer(code, to_json(found) + "\n", "application/json")

    def _send_events(self) -> None:
        if not self.server.pages.acquire(blocking=False):
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_PAGES} pages are open already.\n")
            return
        try:
            self.send_head(HTTPStatus.OK, "text/event-stream")
            if self.command == "HEAD":
                return
            events, last = LiveEvents(self.server.reader), time.monotonic()
            while not self.server.ending.is_set():
                for name, data in events.new():
                    self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
                    last = time.monotonic()
                if time.monotonic() - last > HEARTBEAT:
                    self.wfile.write(b": still here\n\n")
                    last = time.monotonic()
                self.server.ending.wait(INTERVAL)
        except OSError:  # the browser went away
            self.close_connection = True
        finally:
            self.server.pages.release()

    def _answer(self, code: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        asks = code == HTTPStatus.UNAUTHORIZED and self.server.access.token
        realm = 'Basic realm="fedloom watch: the password is the token", charset="UTF-8"'
        self.send_text(code, text, kind, [("WWW-Authenticate", realm)] if asks else [])

    def security_policy(self) -> str:
        """The content security policy of the live page."""
        return security_policy()


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        raise FedloomError(
            f"bind={address!r} is not an address: give 127.0.0.1, ::1, or one of this machine."
        ) from None


def _access(
    folder: Path, kind: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> tuple[Access, ssl.SSLContext | None]:
    """Who may see the page, and how it is encrypted; loopback needs no encryption."""
    if address.is_loopback:
        token = read_token(folder) if kind == "server" else ""
        if not token:
            refuse_unknown_visitors(folder)
        return Access("", token, is_readable_by_all(folder), True), None
    if kind != "server":
        raise FedloomError(
            f"bind={address}: only a deployment's server has a certificate for other machines; leave --bind out, and "
            "use ssh -L to see this page from elsewhere."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
    except (OSError, ssl.SSLError) as error:
        raise FedloomError(f"{folder / 'server.pem'} cannot be used for TLS ({error}): restore the folder.") from None
    return Access(load_server(folder).host, make_token(folder), False, False), context
