"""Who of this machine has made a connection, and what all of it may read."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.web import connection_owner
from fedloom.web.connection_owner import (
    CONNECTIONS,
    is_own_connection,
    is_readable_by_all,
    refuse_unknown_visitors,
    user_of_connection,
)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_system_says_whose_a_connection_is(family):
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        found = user_of_connection(client.getsockname()[:2], server.getsockname()[:2])
    if found is None:
        pytest.skip("this system does not say whose a connection is")
    assert found == os.getuid()


@pytest.mark.skipif(not (CONNECTIONS / "tcp").exists(), reason="this system does not list its connections")
def test_only_ones_own_connections_are_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        ends = client.getsockname(), server.getsockname()
        assert is_own_connection(*ends)
        for other in (os.getuid() + 1, None):
            monkeypatch.setattr(connection_owner, "user_of_connection", lambda *_, user=other: user)
            assert not is_own_connection(*ends)


def test_what_is_private_is_not_served_where_the_system_does_not_list_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_unknown_visitors(tmp_path)
    monkeypatch.setattr(connection_owner, "CONNECTIONS", tmp_path / "nothing")
    with pytest.raises(FedloomError, match="serve the page on Linux"):
        refuse_unknown_visitors(tmp_path)
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o755)
        (file := Path(above) / "model").touch()
        file.chmod(0o644)
        refuse_unknown_visitors(file)


def test_the_modes_of_the_folder_and_of_those_above_say_who_may_read():
    with tempfile.TemporaryDirectory() as above:  # below a folder that everybody may pass, as /tmp is
        (folder := Path(above) / "run").mkdir()
        for outer, mode, fine in (
            (0o711, 0o755, True),
            (0o755, 0o755, True),
            (0o700, 0o755, False),
            (0o755, 0o700, False),
            (0o755, 0o750, False),
            (0o755, 0o704, False),
        ):
            Path(above).chmod(outer)
            folder.chmod(mode)
            assert is_readable_by_all(folder) is fine
