"""Who may see a page: by the name in the request, by the user of this machine, or by the token."""

from __future__ import annotations

import base64
import socket

import pytest

from fedloom.web.access import Access
from fedloom.web.connection_owner import user_of_connection

SECRET = "a-token-of-twenty-characters"  # noqa: S105
NOBODY = (("127.0.0.1", 1), ("127.0.0.1", 2))


@pytest.mark.parametrize(("host", "fine"), [
    ("127.0.0.1:8711", True), ("localhost", True), ("LOCALHOST:80", True), ("[::1]:8711", True), ("10.0.0.7:1", True),
    ("fl.example.org:8711", True), ("evil.example", False), ("evil.example:8711", False), ("", False),
    ("localhost.evil.example", False), ("127.0.0.1.evil.example", False), ("[evil.example]", False),
])  # fmt: skip
def test_only_addresses_and_the_own_name_are_hosts(host, fine):
    assert Access("fl.example.org", "", True, True).is_host(host) is fine


def test_without_a_name_an_empty_host_is_none():
    assert not Access("", "", True, True).is_host(":8711")


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


@pytest.mark.parametrize(("header", "fine"), [
    (f"Bearer {SECRET}", True), (basic(SECRET), True), (f"bearer  {SECRET} ", True),
    ("", False), ("Bearer ", False), (f"Bearer {SECRET}x", False), (basic("wrong"), False), ("Basic %%%", False),
    ("Basic /w==", False), (f"Token {SECRET}", False),
])  # fmt: skip
def test_other_machines_need_the_token(header, fine):
    assert Access("", SECRET, True, loopback=False).admits(header, *NOBODY) is fine


def test_without_a_token_nobody_from_elsewhere_is_admitted():
    access = Access("", "", True, loopback=False)
    assert not access.admits("Bearer ", *NOBODY)
    assert not access.admits("", *NOBODY)


def test_a_private_folder_is_for_its_owner():
    access = Access("", SECRET, everybody=False, loopback=True)
    assert not access.admits("", *NOBODY)  # a connection that nobody of this machine has
    assert access.admits(f"Bearer {SECRET}", *NOBODY)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        if user_of_connection(client.getsockname(), server.getsockname()) is None:
            pytest.skip("this system does not say whose a connection is")
        assert access.admits("", client.getsockname(), server.getsockname())
