"""Programs that a deployment starts: their output is kept, their trouble is put into words, and none is left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.operate import programs
from fedloom.deploy.operate.programs import (
    PidFile,
    Program,
    check_free,
    connection_problem,
    is_listening,
    start_program,
    wait_until_ready,
)
from support.waiting import LIMIT, wait_until


def shell(tmp_path: Path, script: str) -> Program:
    return start_program("the program", ["/bin/sh", "-c", script], tmp_path / "logs" / "it.log", os.environ, tmp_path)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("before", [None, 0o644])
def test_the_log_of_a_program_is_its_owners(tmp_path, before):
    if before is not None:
        (tmp_path / "logs").mkdir()
        (tmp_path / "logs" / "it.log").touch(before)
    usual = os.umask(0o022)
    try:
        program = shell(tmp_path, "echo a reason")
    finally:
        os.umask(usual)
    program.process.wait(LIMIT)
    assert program.log.stat().st_mode & 0o777 == 0o600


def test_what_a_program_says_is_in_its_log_and_only_its_own_is_told(tmp_path):
    first = shell(tmp_path, "echo one; echo two >&2")
    first.process.wait()
    assert first.output() == "one\ntwo\n"
    second = shell(tmp_path, "echo three")
    second.process.wait()
    assert second.output() == "three\n"
    assert (tmp_path / "logs" / "it.log").read_text() == "one\ntwo\nthree\n"


def test_a_program_works_in_its_folder_with_its_own_environment(tmp_path):
    program = start_program("it", ["/bin/sh", "-c", "pwd; echo $ONLY"], tmp_path / "log", {"ONLY": "this"}, tmp_path)
    program.process.wait()
    assert program.output().split() == [str(tmp_path.resolve()), "this"]


def test_a_program_is_asked_to_end_and_what_it_started_ends_with_it(tmp_path):
    program = shell(tmp_path, "sleep 100 & echo $!; wait")
    wait_until(lambda: program.output().strip())
    child = int(program.output())
    assert is_alive(child)
    program.stop()
    assert program.has_ended
    wait_until(lambda: not is_alive(child))


def test_a_program_that_will_not_end_is_made_to(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "ENDING", 0.1)
    program = shell(tmp_path, "trap '' TERM; echo ready; while true; do sleep 0.05; done")
    wait_until(lambda: "ready" in program.output())
    program.stop()
    assert program.process.returncode == -signal.SIGKILL


def test_stopping_twice_is_as_good_as_once(tmp_path):
    program = shell(tmp_path, "exit 3")
    program.process.wait()
    program.stop()
    program.stop()
    assert program.process.returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a program that its parent died")
def test_a_program_ends_when_whoever_started_it_is_killed(tmp_path):
    script = (
        "import os, pathlib, time\nfrom fedloom.deploy.operate.programs import start_program\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "program = start_program('it', ['sleep', '100'], folder / 'log', os.environ, folder)\n"
        "print(program.process.pid, flush=True)\ntime.sleep(100)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not is_alive(child))


# -- waiting


def words(said: str) -> str:
    return f"trouble: {said.strip()}"


def test_a_program_is_waited_for_until_it_is_ready(tmp_path):
    program = shell(tmp_path, "sleep 0.05; echo ready; sleep 100")
    wait_until_ready(program, lambda: "ready" in program.output(), words)
    assert not program.has_ended
    program.stop()


def test_a_program_that_ends_before_it_is_ready_is_told_of_in_words(tmp_path):
    program = shell(tmp_path, "echo no such file; exit 1")
    with pytest.raises(FedloomError, match=r"^trouble: no such file$"):
        wait_until_ready(program, lambda: False, words)


def test_a_program_that_says_it_failed_is_not_waited_for(tmp_path):
    program = shell(tmp_path, "echo Exit Code: 300; echo the reason; sleep 100")
    with pytest.raises(FedloomError, match="trouble: Exit Code: 300\nthe reason"):
        wait_until_ready(program, lambda: False, words, failed="Exit Code:")
    assert program.has_ended


def test_a_program_that_takes_too_long_is_ended(tmp_path):
    program = shell(tmp_path, "echo thinking; sleep 100")
    with pytest.raises(FedloomError, match=r"the program was not ready within 0\.1 s: trouble: thinking"):
        wait_until_ready(program, lambda: False, words, seconds=0.1)
    assert program.has_ended


# -- ports


def test_a_port_that_is_taken_is_refused_with_what_to_change(monkeypatch):
    monkeypatch.setattr(programs, "PORT_RELEASE", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert is_listening(port)
        with pytest.raises(
            FedloomError, match=rf"port {port} of this machine is not free .*or change port in site\.toml"
        ):
            check_free(port, "port in site.toml")
    assert not is_listening(port)
    check_free(port, "port in site.toml")


def test_a_port_whose_program_is_ending_is_waited_for():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        letting_go = threading.Timer(0.15, taken.close)
        letting_go.start()
        check_free(taken.getsockname()[1], "port in site.toml")
        letting_go.join()


def test_why_a_server_cannot_be_reached_is_put_into_words():
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        there.listen()
        address = f"127.0.0.1:{there.getsockname()[1]}"
        assert connection_problem(address) == ""
    assert connection_problem(address) == "the connection is refused: the server may not be running"
    assert connection_problem("somewhere") == "that is not an address: write it as host:port"
    assert connection_problem("no.such.machine.invalid:443") == "no machine has that name"


# -- who is at work


def test_two_at_once_are_refused(tmp_path):
    pids = PidFile(tmp_path / "flower" / "process")
    assert pids.process() is None
    pids.take("this server")
    assert pids.process() == os.getpid()
    with pytest.raises(FedloomError, match=rf"this server is already running \(process {os.getpid()}\).*deploy stop"):
        PidFile(pids.path).take("this server")
    pids.leave()
    assert pids.process() is None
    pids.leave()


def test_whoever_was_killed_is_no_longer_at_work(tmp_path):
    gone = subprocess.Popen(["/bin/sh", "-c", "exit 0"])
    gone.wait()
    pids = PidFile(tmp_path / "process")
    pids.path.write_text(f"{gone.pid} 1")
    assert pids.process() is None
    assert not pids.stop()
    pids.take("it")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process began")
def test_another_process_with_the_same_number_is_never_ended(tmp_path):
    """After a restart of the machine the number in the file may be anybody's."""
    other = subprocess.Popen(["sleep", "100"])
    try:
        pids = PidFile(tmp_path / "process")
        pids.path.write_text(f"{other.pid} 1")
        assert pids.process() is None
        assert not pids.stop()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("content", ["", "garbage", "12", "-1 3", "1 2 3"])
def test_a_file_that_names_no_process_counts_for_nothing(tmp_path, content):
    (tmp_path / "process").write_text(content)
    assert PidFile(tmp_path / "process").process() is None


def test_a_process_at_work_is_ended_and_waited_for(tmp_path):
    script = (
        "import pathlib, time\nfrom fedloom.deploy.operate.programs import PidFile\n"
        f"PidFile(pathlib.Path({str(tmp_path / 'process')!r})).take('it')\nprint('here', flush=True)\ntime.sleep(100)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        other.stdout.readline()
        threading.Thread(target=other.wait).start()  # its parent notices, as a shell would
        pids = PidFile(tmp_path / "process")
        assert pids.process() == other.pid
        assert pids.stop()
        assert pids.process() is None
        assert other.wait(LIMIT) == -signal.SIGTERM
    finally:
        other.kill()
