"""The web server of a page: what it answers, to whom, and that it leaves nothing behind."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from fedloom.core.errors import FedloomError
from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.watch import server as watch_server
from fedloom.watch import status_reader
from fedloom.watch.server import WatchServer
from fedloom.watch.token_file import TOKEN
from fedloom.web import page_server
from support.waiting import LIMIT, wait_until
from support.watched_runs import finish, play, serving, write_run, write_server


def connection(server: WatchServer) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=LIMIT)


def get(
    server: WatchServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, str, http.client.HTTPMessage]:
    line = connection(server)
    line.request(method, path, headers=headers)
    answer = line.getresponse()
    text = answer.read().decode()
    line.close()
    return answer.status, text, answer.headers


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "r", 3, of=9)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(status_reader, "INTERVAL", 0.0)
    monkeypatch.setattr(watch_server, "INTERVAL", 0.02)
    monkeypatch.setattr(page_server, "HEARTBEAT", 0.05)


# -- what it answers


def test_the_page_has_a_policy_that_allows_its_own_script_alone(run):
    with serving(run) as server:
        code, text, headers = get(server, "/")
    assert code == 200
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "script-src 'sha256-" in policy
    assert "unsafe-eval" not in policy
    assert "connect-src 'self'" in policy
    assert f'content="{policy.partition("; frame-ancestors")[0]}"' in text
    assert headers["Cache-Control"] == "no-store"


def test_names_cannot_break_out_of_the_page(run):
    evil = "</script><script>alert(1)</script>"
    (run / "config.toml").write_text(f'rounds = 3\n[task]\nname = "{evil}"\n[method]\nname = "fedavg"\n')
    with serving(run) as server:
        _, text, _ = get(server, "/")
    assert evil not in text
    assert text.count("<script") == 2


def test_health_is_200_while_it_advances_or_is_finished_and_503_with_the_reason_else(run):
    with serving(run) as server:
        code, text, headers = get(server, "/health")
        found = json.loads(text)
        assert (code, found["healthy"], found["phase"], found["round"]) == (503, False, "interrupted", 3)
        assert found["reason"].startswith("interrupted: no process runs it: fedloom resume ")
        assert headers["Content-Type"] == "application/json"
        with lock_folder(run):
            assert (get(server, "/health")[0], json.loads(get(server, "/health")[1])["phase"]) == (200, "running")
        play(run, range(4, 10))
        finish(run)
        code, text, _ = get(server, "/health")
        assert (code, json.loads(text)["phase"], json.loads(text)["rounds"]) == (200, "finished", 9)


def test_metrics_are_in_prometheus_text(run):
    with serving(run) as server:
        code, text, headers = get(server, "/metrics")
    assert (code, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "\nfedloom_round 3.0\n" in text


def test_head_has_no_body_and_other_paths_and_methods_are_refused(run):
    with serving(run) as server:
        assert get(server, "/", "HEAD")[:2] == (200, "")
        assert get(server, "/events", "HEAD")[:2] == (200, "")
        assert get(server, "/../config.toml")[0] == 404
        assert get(server, "/config.toml")[0] == 404
        assert get(server, "/", "POST")[0] == 405


def test_a_request_under_another_name_is_refused(run):
    with serving(run) as server:
        for path in ("/", "/events", "/health", "/metrics"):
            assert get(server, path, Host="evil.example")[0] == 421
        assert get(server, "/health", Host="localhost:1")[0] == 503  # the folder's state, not the name


# -- pages that stay open


def events(line: http.client.HTTPResponse, name: str) -> dict[str, Any]:
    """The next event of a name."""
    while True:
        head = line.readline().decode().strip()
        data = line.readline() if head == f"event: {name}" else b""
        if data:
            found: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
            return found


def open_page(server: WatchServer) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    line = connection(server)
    line.request("GET", "/events")
    return line, line.getresponse()


def test_two_pages_see_a_run_grow_and_leave_no_thread_when_they_go(run):
    before = threading.active_count()
    with serving(run) as server:
        pages = [open_page(server) for _ in range(2)]
        assert [events(page, "rounds")["round"] for _, page in pages] == [[0, 1, 2, 3]] * 2
        play(run, [4])
        assert [events(page, "rounds")["round"] for _, page in pages] == [[3, 4]] * 2
        assert threading.active_count() == before + 3
        pages[0][1].close()
        pages[0][0].close()
        wait_until(lambda: threading.active_count() == before + 2)
        play(run, [5])
        assert events(pages[1][1], "rounds")["round"] == [4, 5]
        for _ in range(20):  # pages that come and go
            line, page = open_page(server)
            page.readline()
            page.close()
            line.close()
        wait_until(lambda: threading.active_count() == before + 2)
        assert get(server, "/health")[0] == 503
    wait_until(lambda: threading.active_count() == before)


def test_too_many_pages_are_refused_and_room_is_made_again(run, monkeypatch):
    monkeypatch.setattr(page_server, "MOST_STREAMS", 1)
    with serving(run) as server:
        line, page = open_page(server)
        page.readline()
        assert get(server, "/events")[0] == 503
        page.close()
        line.close()
        wait_until(lambda: get(server, "/events", "HEAD")[0] == 200)


def test_a_page_sees_a_run_that_was_cut_back_and_went_on(run):
    with serving(run) as server:
        line, page = open_page(server)
        assert events(page, "rounds")["round"] == [0, 1, 2, 3]
        lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        (run / "metrics.jsonl").write_bytes(b"".join(lines[:2]))
        assert events(page, "rounds")["round"] == [0, 1]
        play(run, [2])
        found = events(page, "rounds")
        assert (found["first"], found["round"]) == (1, [1, 2])
        page.close()
        line.close()


# -- where it listens


def test_a_port_that_is_taken_is_one_sentence(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FedloomError, match=f"^port {port} is in use: .* or choose another with --port"):
            WatchServer(run, port=port)
    with pytest.raises(FedloomError, match="ports are 0 to 65535"):
        WatchServer(run, port=70_000)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7"])  # noqa: S104
def test_a_simulated_run_stays_on_loopback(run, address):
    with pytest.raises(FedloomError, match="only a deployment's server has a certificate for other machines"):
        WatchServer(run, address)


def test_an_address_that_is_none_is_refused(run):
    with pytest.raises(FedloomError, match="is not an address"):
        WatchServer(run, "example.org")


def test_ipv6_loopback_is_loopback(run):
    try:
        server = WatchServer(run, "::1")
    except FedloomError:
        pytest.skip("this machine has no ::1")
    assert server.url.startswith("http://[::1]:")
    server.end()


def test_other_machines_need_tls_and_the_token_of_the_server(tmp_path):
    pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
    from fedloom.deploy.provision.authority import Authority

    folder = write_server(tmp_path / "server", 2)
    with pytest.raises(FedloomError, match=r"server.pem cannot be used for TLS"):
        WatchServer(folder, "0.0.0.0")  # noqa: S104
    authority = Authority.new(2)
    authority.certify_server(folder, "127.0.0.1")
    authority.publish(folder)
    with serving(folder, address="0.0.0.0") as server:  # noqa: S104
        assert server.url == f"https://127.0.0.1:{server.server_address[1]}/"
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        for token, code in (("", 401), ("wrong", 401), ((folder / TOKEN).read_text().strip(), 200)):
            line = http.client.HTTPSConnection("127.0.0.1", server.server_address[1], timeout=LIMIT, context=context)
            line.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            assert line.getresponse().status == code
            line.close()
        with pytest.raises((http.client.HTTPException, OSError)):
            get(server, "/")  # without TLS


def test_another_user_of_this_machine_does_not_see_a_private_folder(tmp_path, monkeypatch):
    folder = write_server(tmp_path / "server", 2)
    monkeypatch.setattr("fedloom.web.connection_owner.user_of_connection", lambda *_: 65534)
    with serving(folder) as server:
        code, text, headers = get(server, "/")
        assert (code, "private" in text) == (403, True)
        assert "WWW-Authenticate" not in headers  # there is no token to ask for
    with tempfile.TemporaryDirectory() as above:  # below a folder that everybody may pass, as /tmp is
        opened = Path(shutil.copytree(folder, Path(above) / "open"))
        for place in (Path(above), opened):
            place.chmod(0o755)
        with serving(opened) as server:
            assert get(server, "/")[0] == 200


def test_a_private_folder_is_not_served_where_the_system_does_not_say_who_asks(tmp_path, monkeypatch):
    """As flows serve does; before, the one let everybody in and the other nobody, not even the owner."""
    monkeypatch.setattr("fedloom.web.connection_owner.CONNECTIONS", tmp_path / "nothing")
    with pytest.raises(FedloomError, match="does not say whose a connection is"):
        WatchServer(write_server(tmp_path / "server", 2))
