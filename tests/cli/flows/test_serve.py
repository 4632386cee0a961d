"""``fedloom flows serve``: from a model file to a page on this machine, and what goes wrong on the way."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fedloom.cli.flows.app import flows
from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.learning.saved_flow_model import SavedFlowModel
from fedloom.web import connection_owner
from support import small_flows
from support.command_line import output
from support.waiting import LIMIT


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task, path = small_flows.task(), tmp_path_factory.mktemp("model") / "north.safetensors"
    SavedFlowModel.of_task(task, task.initial_row(), "north", "fedavg").write(path)
    return path


def test_a_missing_model_and_a_taken_port_are_sentences(model: Path) -> None:
    with pytest.raises(FedloomError, match="there is no model file"):
        output(flows, "serve", model.parent / "nothing.safetensors", "--port", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(FedloomError, match="is in use"):
            output(flows, "serve", model, "--port", taken.getsockname()[1])


def test_a_private_model_is_not_served_where_the_system_does_not_say_who_asks(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_owner, "CONNECTIONS", tmp_path / "nothing")
    model.chmod(0o600)
    with pytest.raises(FedloomError, match=r"does not say whose a connection is .* every user of this machine could"):
        output(flows, "serve", model, "--port", 0)


@pytest.mark.slow
def test_the_command_serves_the_page_until_it_is_interrupted(model: Path) -> None:
    command = [sys.executable, "-m", "fedloom.cli.app", "flows", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as program:
        assert program.stderr is not None
        said = program.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert found, said
        with urllib.request.urlopen(found.group(), timeout=LIMIT) as answer:  # noqa: S310 (a page of our own)
            assert b"Build a flow" in answer.read()
        program.send_signal(signal.SIGINT)
        assert program.wait(30) == 0
        assert program.stderr.read() == "stopped\n"
