"""``fedloom deploy server``, ``client``, ``run`` and ``stop``, where there is nothing to run or to stop."""

from __future__ import annotations

import pytest

from support.command_line import refusal


@pytest.mark.parametrize("who", ["server", "north"])
def test_stop_with_nothing_running_says_so(deploy, fedloom, who):
    done = fedloom("stop", deploy / who)
    assert (done.returncode, done.stdout) == (0, "nothing was running\n")


@pytest.mark.parametrize("verb", ["server", "client", "run", "status", "stop"])
def test_a_folder_of_nobody_is_refused(tmp_path, fedloom, verb):
    pytest.importorskip("flwr", reason="Flower is not installed: nothing is started")
    (tmp_path / "empty").mkdir()
    assert "empty is " in refusal(fedloom(verb, "empty"))
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_run_without_its_server_is_refused(deploy, fedloom):
    pytest.importorskip("flwr", reason="Flower is not installed: nothing is started")
    text = refusal(fedloom("run", deploy / "server", "--json"))
    assert "the server is not running: start it with  fedloom deploy server" in text
    assert not (deploy / "server" / "run").exists()
