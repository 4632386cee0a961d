"""Handshakes that do not end are counted by address, and an address with many is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.operate import handshake_watch
from fedloom.deploy.operate.handshake_watch import HandshakeWatch
from fedloom.deploy.operate.log_rotation import rotate
from fedloom.deploy.provision.proxy import ERROR_LOG

ADDRESS = "192.0.2.7"
LINE = (
    "2026/11/14 10:00:00 [info] 7#7: *1 client timed out (110: Connection timed out) while SSL handshaking, client: "
    "{}, server: 0.0.0.0:8443\n"
)
REFUSED = (
    '2026/11/14 10:00:00 [error] 7#7: *1 limiting connections by zone "addresses", client: {}, server: 0.0.0.0:8443, '
    "bytes from/to client:0/0, bytes from/to upstream:0/0\n"
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(handshake_watch, "EVERY", 0.0)
    monkeypatch.setattr(handshake_watch, "MANY", 3)
    (tmp_path / ERROR_LOG).parent.mkdir()
    return tmp_path / ERROR_LOG


def append(log: Path, text: str) -> None:
    with open(log, "a") as file:
        file.write(text)


def test_an_address_is_named_when_it_has_many_and_again_at_ten_times_as_many(tmp_path: Path, log: Path) -> None:
    append(log, 5 * LINE.format(ADDRESS))  # before this server was started
    said: list[str] = []
    watch = HandshakeWatch(tmp_path, said.append)
    append(log, 2 * LINE.format(ADDRESS) + LINE.format("2001:db8::1") + "another line, client: 192.0.2.9, server\n")
    watch.check()
    assert (watch.given_up, said) == ({ADDRESS: 2, "2001:db8::1": 1}, [])
    for more in (1, 26, 1):
        append(log, more * LINE.format(ADDRESS))
        watch.check()
    assert [line.split(" connections")[0] for line in said] == ["3", "30"]
    entries = [(entry["what"], entry["address"], entry["count"]) for entry in read_audit(tmp_path).entries]
    assert entries == [("handshakes given up", ADDRESS, 3), ("handshakes given up", ADDRESS, 30)]


def test_connections_beyond_the_limit_of_an_address_are_counted_apart(tmp_path: Path, log: Path) -> None:
    said: list[str] = []
    watch = HandshakeWatch(tmp_path, said.append)
    append(log, 4 * REFUSED.format(ADDRESS) + 2 * LINE.format(ADDRESS))
    watch.check()
    assert (watch.refused, watch.given_up) == ({ADDRESS: 4}, {ADDRESS: 2})
    assert said == [
        f"4 connections from {ADDRESS} were refused, since it has too many at once: block that address in the firewall "
        "if it is not a site's."
    ]
    assert [entry["what"] for entry in read_audit(tmp_path).entries] == ["connections refused"]


def test_a_line_that_is_being_written_counts_once_and_a_log_that_was_rotated_goes_on(tmp_path: Path, log: Path) -> None:
    watch, line = HandshakeWatch(tmp_path, print), LINE.format(ADDRESS)
    append(log, line + line[:40])
    watch.check()
    append(log, line[40:])
    watch.check()
    assert watch.given_up[ADDRESS] == 2
    rotate(log)
    append(log, line)
    watch.check()
    assert watch.given_up[ADDRESS] == 3


def test_memory_does_not_grow_with_addresses(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake_watch, "MOST_ADDRESSES", 2)
    watch = HandshakeWatch(tmp_path, print)
    append(log, "".join(LINE.format(f"192.0.2.{number}") for number in (1, 2, 3, 1)))
    watch.check()
    assert watch.given_up == {"192.0.2.1": 2, "192.0.2.2": 1}
