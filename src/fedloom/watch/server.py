"""What ``fedloom watch`` serves: the page, its events, ``/health`` and ``/metrics``.

It answers GET and HEAD, reads the folder and changes nothing. Each open page is a thread that looks at the folder twice
a second; it ends when its browser goes away. All of them share one reading.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

from fedloom.core.errors import FedloomError
from fedloom.deploy.settings import load_server
from fedloom.watch.live_events import LiveEvents, to_json
from fedloom.watch.page import live_page, security_policy
from fedloom.watch.plan_page import PlanEvents, plan_page, plan_security_policy
from fedloom.watch.plan_reader import PlanReader, plan_file
from fedloom.watch.plan_status import PlanStatus
from fedloom.watch.prometheus import CONTENT_TYPE, plan_text, prometheus_text
from fedloom.watch.status import Status
from fedloom.watch.status_reader import INTERVAL, StatusReader
from fedloom.watch.token_file import make_token, read_token
from fedloom.web.access import Access
from fedloom.web.connection_owner import is_readable_by_all, refuse_unknown_visitors
from fedloom.web.page_server import HTML, JSON, PageRequest, PageServer


class WatchServer(PageServer):
    """Serves the page of one folder until it is shut down.

    Args:
        folder: The folder of a run, of a plan (such as a comparison), or of a participant of a deployment.
        address: The address to listen on; other machines reach a server's folder only, over TLS and with its token.
        port: The port; 0 chooses a free one.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1", port: int = 0) -> None:
        self.reader = StatusReader(folder) if plan_file(folder) is None else PlanReader(folder)
        access, context = _access(folder, self.reader.kind, _parse(address))
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.reader.read()  # an error in the folder is raised before the port is open
        super().__init__(address, port, WatchRequest, access)
        if context is not None:  # the handshake is made by the request's own thread
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        host = self.access.name or address
        self.url = f"http{'s' if context else ''}://{f'[{host}]' if ':' in host else host}:{self.server_address[1]}/"


class WatchRequest(PageRequest):
    """Answers one request to a page."""

    server: WatchServer

    routes: ClassVar = {
        ("GET", "/"): "send_page",
        ("GET", "/events"): "send_news",
        ("GET", "/health"): "send_health",
        ("GET", "/metrics"): "send_metrics",
    }
    private: ClassVar = "this folder is private: it is its owner's; others need the token in watch.token."

    def send_page(self) -> None:
        """Send the page itself."""
        reader = self.server.reader
        page = plan_page(reader.read()) if isinstance(reader, PlanReader) else live_page(reader.read())
        self.send_text(HTTPStatus.OK, page, HTML)

    def send_news(self) -> None:
        """Send what is new in the folder, as long as the page is open."""
        reader = self.server.reader
        events = PlanEvents(reader) if isinstance(reader, PlanReader) else LiveEvents(reader)
        self.send_events(events.new, INTERVAL)

    def send_metrics(self) -> None:
        """Send the numbers for Prometheus."""
        reader, now = self.server.reader, time.time()
        text = plan_text(reader.read(), now) if isinstance(reader, PlanReader) else prometheus_text(reader.read(), now)
        self.send_text(HTTPStatus.OK, text, CONTENT_TYPE)

    def send_health(self) -> None:
        """Send whether the run advances; a supervisor reads the code."""
        reader, now = self.server.reader, time.time()
        found = _plan_health(reader.read(), now) if isinstance(reader, PlanReader) else _run_health(reader.read(), now)
        code = HTTPStatus.OK if found["healthy"] else HTTPStatus.SERVICE_UNAVAILABLE
        self.send_text(code, to_json(found) + "\n", JSON)

    def security_policy(self) -> str:
        """The content security policy of the live page."""
        return plan_security_policy() if isinstance(self.server.reader, PlanReader) else security_policy()


def _run_health(status: Status, now: float) -> dict[str, Any]:
    trouble = status.trouble(now)
    return {
        "healthy": not trouble,
        "phase": status.phase,
        "reason": trouble or status.reason,
        "round": status.round,
        "rounds": status.rounds,
        "seconds_since_last_record": None if status.last_record is None else round(now - status.last_record, 1),
    }


def _plan_health(status: PlanStatus, now: float) -> dict[str, Any]:
    trouble = status.trouble(now)
    return {
        "healthy": not trouble,
        "phase": status.phase(now),
        "reason": trouble or status.reason(now),
        "runs": len(status.members),
        "runs_by_phase": dict(sorted(status.counts.items())),
        "seconds_left": status.seconds_left(now),
    }


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
        return Access("", token, everybody=is_readable_by_all(folder)), None
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
    return Access(load_server(folder).host, make_token(folder), loopback=False), context
