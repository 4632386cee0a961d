"""The proxy: a real nginx lets sites do their work, and nobody else anything."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.members import Revocation, save_revocations, site_serial
from fedloom.deploy.operate import handshake_watch
from fedloom.deploy.operate.programs import is_listening
from fedloom.deploy.provision.address_limit import load_stream
from fedloom.deploy.provision.proxy import (
    ACCESS_LOG,
    BURST,
    CONNECTIONS,
    ERROR_LOG,
    HANDSHAKE,
    PARTS,
    SECRET_HEADER,
    listen_on,
    nginx_config,
    write_proxy_config,
)
from fedloom.deploy.settings import ServerSettings, load_server

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from fedloom.deploy.provision.authority import Authority
from support.deployment import has_ipv6
from support.waiting import LIMIT, wait_until

WORK, PART = "/v1/fleet/pull-messages", "/v1/fleet/push-object"
needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: the proxy is not tried")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int, process: subprocess.Popen, host: str) -> None:
    """Wait until a program that was started takes connections."""
    wait_until(lambda: process.poll() is not None or is_listening(port, host))
    assert process.poll() is None, f"nothing listens on port {port} (the program ended with {process.poll()})"


@contextlib.contextmanager
def start_program(words: list[str], port: int, log: Path, host: str = "127.0.0.1", **how):
    """A program and all that it starts, ended at the end whatever happens."""
    with open(log, "ab") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True, **how)
    try:
        answers(port, process, host)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def nginx(folder: Path, port: int, **how):
    return start_program(
        ["nginx", "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off;"],
        port,
        folder / "out.log",
        cwd=folder,
        **how,
    )


class Echo(BaseHTTPRequestHandler):
    """Stands for the SuperLink, and remembers what it was asked."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, int]]

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size + 2)[:-2]
            self.rfile.readline()
        self.asked.append((self.path, len(body)))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.do_POST()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def echo(folder: Path, port: int):
    asked: list[tuple[str, int]] = []
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Asked", (Echo,), {"asked": asked}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a caller who hangs up half-way is no fault of the test's
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def fill(out: Path, authority: Authority, settings: ServerSettings, stream: str | None = None) -> Path:
    """The parts of the folders that the proxy needs."""
    for name in ("server", "server/proxy", "a"):
        (out / name).mkdir(parents=True)
    authority.publish(out / "server")
    authority.certify_server(out / "server", settings.host)
    authority.publish(out / "a")
    authority.certify_site(out / "a", "a")
    (out / "server/nginx.conf").write_text(nginx_config(settings, stream=stream))
    return out


class Door:
    """A running proxy, what lies behind it, and a way to knock."""

    def __init__(self, out: Path, port: int, asked: list[tuple[str, int]]) -> None:
        self.out, self.port, self.asked = out, port, asked

    def context(self, who: str | None = "a", out: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.out / "server/ca.crt"))
        if who is not None:
            pair = ("server.pem", "server.key") if who == "server" else ("client.pem", "client.key")
            context.load_cert_chain(*((out or self.out) / who / name for name in pair))
        return context

    def ask(self, path: str = WORK, context: ssl.SSLContext | None = None, method: str = "POST", body: bytes = b"hi"):
        """The status and the text of an answer; the path is sent as it is."""
        call = http.client.HTTPSConnection("127.0.0.1", self.port, context=context or self.context(), timeout=LIMIT)
        try:
            call.putrequest(method, path, skip_accept_encoding=True)
            call.putheader("Content-Type", "application/protobuf")
            call.putheader("Content-Length", str(len(body)))
            call.endheaders(body)
            answer = call.getresponse()
            return answer.status, answer.read()
        finally:
            call.close()

    def log_line(self, path: str) -> str:
        """The log's line about a path; nginx writes it when the answer is out."""
        log = self.out / "server" / ACCESS_LOG
        wait_until(lambda: path in log.read_text(), f"no line about {path}")
        return [line for line in log.read_text().splitlines() if path in line][-1]


@pytest.fixture(scope="module", params=["limited by address", "nginx without its stream module"])
def door(request, tmp_path_factory):
    port, behind, stream = free_port(), free_port(), None
    if request.param == "limited by address" and (stream := load_stream()) is None:
        pytest.skip("nginx has no stream module: the limit per address is not tried")
    settings = ServerSettings(sites=["a"], port=port, control_port=behind, max_megabytes=0.5)
    out = fill(tmp_path_factory.mktemp("door") / "D", Authority.new(2), settings, stream)
    with echo(out / "server", behind) as asked, nginx(out / "server", port):
        yield Door(out, port, asked)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """The folders of another deployment, with an authority of the same name."""
    return fill(tmp_path_factory.mktemp("strangers") / "S", Authority.new(2), ServerSettings(sites=["a"]))


def refusal_status(door: Door, *args, **how) -> int:
    """The status with which something is refused; nothing of it came through."""
    before = len(door.asked)
    status, _ = door.ask(*args, **how)
    assert len(door.asked) == before
    return status


@needs_nginx
def test_a_site_does_its_work_and_the_log_names_it(door):
    sent = os.urandom(300_000)
    assert door.ask("/v1/fleet/push-object", body=sent) == (200, sent)
    assert door.asked[-1] == ("/v1/fleet/push-object", len(sent))
    line = door.log_line("/v1/fleet/push-object")
    assert 'site=a certificate="SUCCESS" from=127.0.0.1 "POST /v1/fleet/push-object HTTP/1.1" 200 in=300' in line


@needs_nginx
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6: the proxy is not tried over it")
def test_a_site_reaches_a_server_by_its_ipv6_address(tmp_path):
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        port = probe.getsockname()[1]
    behind = free_port()
    settings = ServerSettings(sites=["a"], host="::1", port=port, control_port=behind)
    out = fill(tmp_path / "D", Authority.new(2), settings)
    with echo(out / "server", behind) as asked, nginx(out / "server", port, host="::1"):
        context = Door(out, port, asked).context()
        call = http.client.HTTPSConnection("::1", port, context=context, timeout=LIMIT)
        call.request("POST", WORK, body=b"hi")
        assert call.getresponse().read() == b"hi"
        call.close()
        assert not is_listening(port)  # IPv4
        assert is_listening(port, settings.loopback)


@needs_nginx
def test_a_site_that_floods_is_refused_and_named_and_disturbs_no_other(tmp_path):
    port, behind = free_port(), free_port()
    settings = ServerSettings(sites=["a", "b"], port=port, control_port=behind, max_calls=1)
    out = fill(tmp_path / "D", authority := Authority.new(2), settings)
    (out / "b").mkdir()
    authority.certify_site(out / "b", "b")
    with echo(out / "server", behind) as asked, nginx(out / "server", port):
        door = Door(out, port, asked)
        call = http.client.HTTPSConnection("127.0.0.1", port, context=door.context("a"), timeout=LIMIT)
        found = []
        while 429 not in found:  # at one call per second it takes about BURST of them
            call.request("POST", WORK, body=b"hi")
            answer = call.getresponse()
            answer.read()
            found.append(answer.status)
            assert len(found) < 1000
        call.close()
        assert found[:BURST] == [200] * BURST
        assert door.ask("/v1/fleet/from-b", door.context("b")) == (200, b"hi")
        assert len(asked) == len(found)  # what was refused did not come through
        line = door.log_line('" 429 ')
        assert "site=a " in line
        assert 'site=b certificate="SUCCESS"' in door.log_line("/v1/fleet/from-b")


HALF_OPEN = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"
"""The beginning of a TLS handshake, and not its end."""


def is_open(connection: socket.socket) -> bool:
    """Whether the other side still waits for more."""
    try:
        return bool(connection.recv(1, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


STRANGER = "127.0.0.2"


def begin_handshakes(stack: contextlib.ExitStack, port: int, number: int) -> list[socket.socket]:
    """Handshakes of a stranger's address that do not end; each in its own time, as nginx may refuse it."""
    found = []
    for _ in range(number):
        one = stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=(STRANGER, 0)))
        with contextlib.suppress(OSError):
            one.sendall(HALF_OPEN)
        found.append(one)
    return found


@needs_nginx
def test_a_site_is_served_beside_1500_handshakes_that_never_end(door):
    """Whoever reaches the port can begin one, without a certificate; there were 1,024 connections for everybody."""
    with contextlib.ExitStack() as stack:
        strangers = begin_handshakes(stack, door.port, 1500)
        assert door.ask() == (200, b"hi")
        if "stream {" in (door.out / "server/nginx.conf").read_text():
            wait_until(lambda: sum(is_open(one) for one in strangers) == CONNECTIONS, "the limit of one site")
        else:
            assert all(is_open(one) for one in strangers)  # it did not wait until the others were given up


@needs_nginx
def test_connections_beyond_the_limit_of_an_address_are_refused_at_once_and_counted(tmp_path, monkeypatch):
    """No handshake is waited for, and those that were accepted may go on."""
    if (stream := load_stream()) is None:
        pytest.skip("nginx has no stream module: the limit per address is not tried")
    monkeypatch.setattr(handshake_watch, "EVERY", 0.0)
    port, behind, said = free_port(), free_port(), []
    settings = ServerSettings(sites=["a", "b"], port=port, control_port=behind)
    out = fill(tmp_path / "D", Authority.new(2), settings, stream)
    with echo(out / "server", behind) as asked, nginx(out / "server", port), contextlib.ExitStack() as stack:
        door, watch = Door(out, port, asked), handshake_watch.HandshakeWatch(out / "server", said.append)
        strangers = begin_handshakes(stack, port, 2 * CONNECTIONS + 150)
        wait_until(lambda: watch.check() or watch.refused[STRANGER] == 150)
        assert [is_open(one) for one in strangers] == 2 * CONNECTIONS * [True] + 150 * [False]
        assert door.ask() == (200, b"hi")
        assert "from=127.0.0.1 " in door.log_line(WORK)
    assert said[0].endswith(f"connections from {STRANGER} were refused, since it has too many at once: block that "
                            "address in the firewall if it is not a site's.")  # fmt: skip


@needs_nginx
def test_handshakes_that_do_not_end_are_given_up_and_counted_by_address(tmp_path, monkeypatch):
    monkeypatch.setattr(handshake_watch, "MANY", 20)
    monkeypatch.setattr(handshake_watch, "EVERY", 0.0)
    port, behind, said = free_port(), free_port(), []
    settings = ServerSettings(sites=["a"], port=port, control_port=behind)
    out = fill(tmp_path / "D", Authority.new(2), settings)
    config = out / "server/nginx.conf"
    assert f"client_header_timeout {HANDSHAKE}s;" in config.read_text()
    config.write_text(config.read_text().replace(f"client_header_timeout {HANDSHAKE}s;", "client_header_timeout 1s;"))
    with echo(out / "server", behind) as asked, nginx(out / "server", port), contextlib.ExitStack() as stack:
        watch = handshake_watch.HandshakeWatch(out / "server", said.append)
        strangers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(25)]
        for one in strangers[::2]:
            one.sendall(HALF_OPEN)  # the others send nothing at all
        wait_until(lambda: watch.check() or watch.given_up["127.0.0.1"] >= 25)
        assert not any(is_open(one) for one in strangers)
        assert Door(out, port, asked).ask() == (200, b"hi")
    assert len(said) == 1
    assert said[0].endswith("connections from 127.0.0.1 began a TLS handshake and did not end it: block that address "
                            "in the firewall if it is not a site's.")  # fmt: skip
    entries = [entry for entry in read_audit(out / "server").entries if entry["what"] == "handshakes given up"]
    assert [entry["address"] for entry in entries] == ["127.0.0.1"]


@needs_nginx
def test_one_connection_serves_many_calls(door):
    call = http.client.HTTPSConnection("127.0.0.1", door.port, context=door.context(), timeout=LIMIT)
    call.connect()
    connection = call.sock
    for number in range(3):
        call.request("POST", WORK, body=bytes([number]))
        assert call.getresponse().read() == bytes([number])
        assert call.sock is connection
    call.close()


@needs_nginx
def test_who_shows_no_certificate_is_refused(door):
    assert refusal_status(door, "/v1/fleet/nobody", context=door.context(None)) == 400
    assert 'site=- certificate="NONE"' in door.log_line("/v1/fleet/nobody")


@needs_nginx
def test_a_certificate_of_another_authority_is_refused_and_the_log_says_why(door, strangers):
    assert refusal_status(door, "/v1/fleet/stranger", context=door.context("a", strangers)) == 400
    assert 'site=- certificate="FAILED:' in door.log_line("/v1/fleet/stranger")


@needs_nginx
def test_the_servers_own_certificate_opens_nothing(door):
    assert refusal_status(door, context=door.context("server")) == 400


@needs_nginx
def test_plain_text_is_refused(door):
    before = len(door.asked)
    call = http.client.HTTPConnection("127.0.0.1", door.port, timeout=LIMIT)
    call.request("POST", WORK, body=b"hi")
    answer = call.getresponse()
    assert answer.status == 400
    assert b"plain HTTP request was sent to HTTPS port" in answer.read()
    call.close()
    assert len(door.asked) == before


@needs_nginx
def test_a_site_knows_that_it_speaks_to_its_own_server(door, strangers):
    context = ssl.create_default_context(cafile=str(strangers / "a/ca.crt"))
    with pytest.raises(ssl.SSLCertVerificationError):
        door.ask(context=context)


@needs_nginx
@pytest.mark.parametrize("path", ["/v1/fleet/register-node", "/v1/fleet/unregister-node"])
def test_a_site_cannot_say_who_belongs_to_the_fleet(door, path):
    assert refusal_status(door, path) == 403


@needs_nginx
@pytest.mark.parametrize(
    "path",
    [
        "/v1/sites", "/v1/site/",
        "/", "/health", "/docs", "/openapi.json", "/v1/fleet", "/v1/fleet/", "/v1/fleets/x", "/V1/FLEET/x",
        "/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/pull-messages", "/v1/runtime/create-task",
    ],
)  # fmt: skip
def test_nothing_but_the_fleet_is_there(door, path):
    assert refusal_status(door, path) == 404


@needs_nginx
@pytest.mark.parametrize(
    "path",
    [
        "/v1/fleet/../control/start-run",
        "/v1/fleet/..%2fcontrol/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/%2E%2E%2Fcontrol%2Fstart-run",
        "/v1/fleet/..;/control/start-run",
        "/v1/fleet/..\\control\\start-run",
        "/v1/fleet/x/../../control/start-run",
        "/v1/control/../fleet/x",
        "/v1/control/start-run/../../fleet/x",
        "/v1/./fleet/x",
        "//v1/fleet/x",
        "/v1//fleet/x",
        "/v1/fleet//x",
        "/v1/fleet//register-node",
        "/v1/fleet/./register-node",
        "/v1/fleet/x/../register-node",
        "/v1/fleet/register-node/",
        "/v1/fleet/register-node/.",
        "/v1/fleet/register-node?x=1",
        "/v1/fleet/register-node%00",
        "/v1/fleet/register-node%20",
        "/v1/fleet/register-node%3F",
        "/v1/fleet/register-node;x",
        "/v1/fleet/%72egister-node",
        "/v1/fleet/Register-Node",
        "/../v1/fleet/x",
        "v1/fleet/x",
        "*",
        "https://127.0.0.1/v1/control/start-run",
        "https://127.0.0.1/v1/fleet/../control/start-run",
        "https://127.0.0.1/v1/fleet/register-node",
    ],
)
def test_no_way_of_writing_a_path_leads_elsewhere(door, path):
    assert refusal_status(door, path) in (400, 403, 404)


@needs_nginx
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"])
@pytest.mark.parametrize("path", [WORK, PART])
def test_flower_only_posts(door, method, path):
    assert refusal_status(door, path, method=method) in (400, 403, 405)


@needs_nginx
@pytest.mark.parametrize(("path", "size"), [(PART, 3 << 20), (WORK, (1 << 20) + 1)])
def test_a_message_that_is_too_large_is_refused_before_it_is_read(door, path, size):
    """A part of an answer may have the size of a message; other calls are small."""
    before = len(door.asked)
    call = http.client.HTTPSConnection("127.0.0.1", door.port, context=door.context(), timeout=LIMIT)
    call.putrequest("POST", path)
    call.putheader("Content-Length", str(size))
    call.endheaders()  # and not one byte of it
    assert call.getresponse().status == 413
    call.close()
    assert len(door.asked) == before


@needs_nginx
def test_a_message_that_does_not_say_how_large_it_is_is_measured(door):
    def send(megabytes: int) -> int | None:
        call = http.client.HTTPSConnection("127.0.0.1", door.port, context=door.context(), timeout=LIMIT)
        try:
            call.request("POST", PART, body=(bytes(1 << 18) for _ in range(4 * megabytes)), encode_chunked=True)
            return call.getresponse().status
        except OSError:  # hung up on while it was still sending
            return None
        finally:
            call.close()

    assert send(1) == 200
    before = len(door.asked)
    assert send(8) in (413, None)
    assert len(door.asked) == before


@needs_nginx
def test_a_message_of_the_largest_size_that_is_allowed_passes(door):
    assert door.ask(PART, body=bytes(500_000))[0] == 200


@needs_nginx
def test_a_site_sends_few_parts_at_once_and_goes_on_with_everything_else(door):
    """Each is in the SuperLink's memory before it is whole, so their number bounds what a site can fill."""

    def connection() -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", door.port, context=door.context(), timeout=LIMIT)

    open_calls, last = [connection() for _ in range(PARTS)], connection()
    for call in open_calls:
        call.putrequest("POST", PART)
        call.putheader("Content-Length", "1000")
        call.endheaders(bytes(10))  # and not the rest
    statuses = set()
    while 429 not in statuses:  # until nginx has seen all of them
        statuses.add(door.ask(PART)[0])
    assert door.ask() == (200, b"hi")
    for call in open_calls:
        call.send(bytes(990))
        assert call.getresponse().status == 200
        call.close()
    last.request("POST", PART, body=b"hi")
    assert last.getresponse().read() == b"hi"
    last.close()


@needs_nginx
def test_messages_do_not_lie_on_the_servers_disk(door):
    door.ask(PART, body=bytes(1 << 20))
    proxy = door.out / "server/proxy"
    files = {path.relative_to(door.out / "server").as_posix() for path in proxy.rglob("*") if path.is_file()}
    assert files == {ACCESS_LOG, ERROR_LOG, "proxy/nginx.pid"}


@needs_nginx
def test_a_revoked_certificate_is_refused_with_the_reason_on_open_connections_too(tmp_path):
    """Its connection that is kept alive ends, and a new certificate of the same site passes."""
    port, behind = free_port(), free_port()
    settings = ServerSettings(sites=["a"], port=port, control_port=behind)
    authority = Authority.new(2)
    out = fill(tmp_path / "D", authority, settings)
    server = out / "server"
    (server / "keys").mkdir()
    shutil.copyfile(out / "a/client.pem", server / "keys/a.pem")
    (out / "new/a").mkdir(parents=True)
    authority.certify_site(out / "new/a", "a")
    with echo(server, behind) as asked, nginx(server, port) as proxy:
        door = Door(out, port, asked)
        call = http.client.HTTPSConnection("127.0.0.1", port, context=door.context(), timeout=LIMIT)
        call.request("POST", WORK, body=b"before")
        assert call.getresponse().read() == b"before"
        save_revocations(server, [Revocation("a", site_serial(server, "a"), "now")])
        write_proxy_config(server, settings)
        proxy.send_signal(signal.SIGHUP)

        def has_ended() -> bool:
            try:
                call.request("POST", WORK, body=b"after")
                return call.getresponse().read() != b"after"
            except OSError:
                return True

        wait_until(has_ended, "the worker that had the connection goes on")
        before = len(asked)
        assert door.ask() == (410, b"fedloom: revoked\n")
        assert door.ask(context=door.context("a", out / "new")) == (200, b"hi")
        assert len(asked) == before + 1
        call.close()


@needs_nginx
def test_who_is_refused_hears_why(door, strangers):
    assert door.ask(context=door.context(None)) == (400, b"fedloom: NONE\n")
    status, said = door.ask(context=door.context("a", strangers))
    assert (status, said[:16]) == (400, b"fedloom: FAILED:")


@needs_nginx
def test_a_superlink_with_a_certificate_of_another_authority_is_not_believed(tmp_path, strangers):
    port, behind = free_port(), free_port()
    settings = ServerSettings(sites=["a"], port=port, control_port=behind)
    out = fill(tmp_path / "D", Authority.new(2), settings)
    with echo(strangers / "server", behind) as asked, nginx(out / "server", port):
        assert Door(out, port, asked).ask()[0] == 502
        assert asked == []


@needs_nginx
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a program as somebody else")
def test_the_proxy_needs_no_root():
    port, behind = free_port(), free_port()
    settings = ServerSettings(sites=["a"], port=port, control_port=behind)
    with tempfile.TemporaryDirectory() as above:  # others cannot enter pytest's folders
        out = fill(Path(above) / "D", Authority.new(2), settings, load_stream())
        for path in [out.parent, out, *out.rglob("*")]:
            shutil.chown(path, "nobody")
        with echo(out / "server", behind) as asked, nginx(out / "server", port, user="nobody", extra_groups=[]):
            assert Door(out, port, asked).ask() == (200, b"hi")


@pytest.mark.parametrize(
    ("host", "where"),
    [
        ("127.0.0.1", "127.0.0.1:8443"),
        ("localhost", "127.0.0.1:8443"),
        ("::1", "[::1]:8443"),
        ("10.1.2.3", "8443"),
        ("2001:db8::7", "[::]:8443"),
        ("hub.example.org", "8443"),
    ],
)
def test_a_server_for_this_machine_alone_listens_on_loopback_alone(host, where):
    assert listen_on(host, 8443) == where


def test_every_blank_of_the_proxys_settings_is_filled():
    text = nginx_config(ServerSettings(sites=["a"], port=1234, control_port=5678, max_megabytes=100), "known")
    assert not re.search("@[A-Z_]+@", text)
    assert "listen 127.0.0.1:1234 ssl;" in text
    assert "stream {" not in text
    assert "server 127.0.0.1:5678;" in text
    assert "client_max_body_size 106m;" in text
    assert f'proxy_set_header {SECRET_HEADER} "known";' in text


@needs_nginx
@pytest.mark.slow
@pytest.mark.xdist_group("deployment")
def test_an_outsider_with_the_authoritys_certificate_can_neither_join_nor_submit_a_run(tmp_path):
    """Against a real SuperLink, behind the proxy of real folders; the operator, over its socket, can."""
    pytest.importorskip("flwr", reason="flwr is not installed: no SuperLink is started")
    from fedloom.deploy.flower.control import SuperLinkControl, public_key
    from fedloom.deploy.flower.release import environment
    from fedloom.deploy.flower.superlink import superlink_command
    from fedloom.deploy.provision import folders
    from fedloom.deploy.provision.private_keys import make_node_key

    (tmp_path / "run.toml").write_text('[task]\nname = "digits"\nclients = 1\nmodel = "logistic"\n')
    port, behind = free_port(), free_port()
    out = tmp_path / "deploy"
    folders.init(tmp_path / "run.toml", out, ["a"], port=port, control_port=behind)
    server = out / "server"
    make_node_key(tmp_path / "own.key", tmp_path / "own.pub")
    write_proxy_config(server, load_server(server))
    link = start_program(superlink_command(server), behind, tmp_path / "link.log", env=environment(server / "flower"))
    with link, nginx(server, port):
        operator = SuperLinkControl(server)
        operator.register(public_key(server / "keys" / "a.pub"))
        outside, behind_it = Door(out, port, []), Door(out, behind, [])
        calls = ("/v1/control/register-node", "/v1/control/start-run", "/v1/runtime/acquire-task")
        for path in (*calls, "/v1/fleet/register-node"):
            assert outside.ask(path, outside.context(None))[0] == 400  # who shows no certificate
            assert outside.ask(path)[0] in (403, 404)  # a site
            assert behind_it.ask(path, outside.context(None))[0] == 403  # a user of the server's machine
        assert outside.ask("/v1/fleet/activate-node", body=b"")[0] == 401  # a site reaches it, and must sign
        assert behind_it.ask("/v1/fleet/activate-node", body=b"")[0] == 403  # not past the proxy
        assert [node.key for node in operator.nodes()] == [public_key(server / "keys" / "a.pub")]
    log = (tmp_path / "link.log").read_text()
    assert log.count("ControlServicer.RegisterNode]") == 1
    assert "ControlServicer.StartRun" not in log
    assert (server / "nginx.conf").stat().st_mode & 0o077 == 0
