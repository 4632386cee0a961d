"""Unix sockets that only the participant's own user reaches, wherever its folder is."""

from __future__ import annotations

import socket
import stat
import threading
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower import local_socket

GIVEN = "a token"


def test_a_socket_and_its_folder_are_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "flower" / "one.sock"
    path.parent.mkdir(mode=0o777)
    path.parent.chmod(0o777)
    with local_socket.listen(path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_socket_of_a_killed_program_is_replaced(tmp_path: Path) -> None:
    local_socket.listen(tmp_path / "one.sock").close()
    assert (tmp_path / "one.sock").exists()
    local_socket.listen(tmp_path / "one.sock").close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc: long paths are refused")
def test_a_folder_with_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 80) / ("y" * 80)
    folder.mkdir(parents=True)
    with local_socket.listen(folder / "one.sock") as server, socket.socket(socket.AF_UNIX) as client:
        server.listen()
        client.connect(local_socket.address(folder / "one.sock"))
        client.sendall(b"here")
        with server.accept()[0] as connection:
            assert connection.recv(4) == b"here"


def test_a_socket_that_cannot_be_made_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_socket, "address", lambda path: str(path) * 9)
    with pytest.raises(FedloomError, match=r"one\.sock cannot be made"):
        local_socket.listen(tmp_path / "one.sock")


def test_flowers_clients_talk_over_a_socket_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed: its clients are not tried")
    from flwr.proto.runtime_pb2 import AcquireTaskRequest, AcquireTaskResponse
    from flwr.supercore.runtime import RuntimeHttpClient

    monkeypatch.setenv("HTTP_PROXY", "http://nowhere.invalid:1")
    monkeypatch.setenv("ALL_PROXY", "http://nowhere.invalid:1")
    said: list[bytes] = []

    def answer(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            said.append(connection.recv(4096))
            body = AcquireTaskResponse(token=GIVEN).SerializeToString()
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\ncontent-type: application/x-protobuf\r\n\r\n"
            connection.sendall(head.encode() + body)

    with local_socket.listen(tmp_path / "one.sock") as server:
        server.listen()
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        kind = local_socket.client_class(RuntimeHttpClient, tmp_path / "one.sock")
        with kind.from_server_address(local_socket.HOST, True, None, []) as client:
            assert client.AcquireTask(AcquireTaskRequest()).token == GIVEN
        thread.join()
    assert said[0].startswith(b"POST /v1/runtime/acquire-task")


def read_request(connection: socket.socket) -> int:
    """Read a request to its end; the bytes of its body."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += connection.recv(1 << 16)
    head, _, rest = read.partition(b"\r\n\r\n")
    size = int(dict(line.lower().split(b": ") for line in head.split(b"\r\n")[1:])[b"content-length"])
    left = size - len(rest)
    while left:
        left -= len(connection.recv(min(left, 1 << 18)))
    return size


def test_a_large_body_is_given_to_the_socket_about_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a socket does not take of one send is copied for the next: a body given whole costs its square."""
    pytest.importorskip("flwr", reason="Flower is not installed: its clients are not tried")
    from flwr.proto.message_pb2 import PushObjectRequest, PushObjectResponse
    from flwr.supercore.runtime import RuntimeHttpClient

    given, body, content = list[int](), list[int](), bytes(20_000_000)

    class Recorded(socket.socket):
        def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
            given.append(len(data))
            return super().send(data, flags)

    def answer(server: socket.socket) -> None:
        with server.accept()[0] as connection:
            body.append(read_request(connection))
            reply = PushObjectResponse(stored=True).SerializeToString()
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(reply)}\r\ncontent-type: application/x-protobuf\r\n\r\n"
            connection.sendall(head.encode() + reply)

    with local_socket.listen(tmp_path / "one.sock") as server:
        server.listen()
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        monkeypatch.setattr(socket, "socket", Recorded)
        kind = local_socket.client_class(RuntimeHttpClient, tmp_path / "one.sock")
        with kind.from_server_address(local_socket.HOST, True, None, []) as client:
            assert client.PushObject(PushObjectRequest(object_content=content)).stored
        thread.join()
    assert body[0] > len(content)  # all of it, and its envelope
    assert max(given) <= local_socket.PIECE
    assert sum(given) < 2 * body[0]
