"""``fedloom watch`` as a person starts it: a URL, an end by Ctrl-C, one sentence for errors; and the run's bytes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from support.command_line import refusal
from support.waiting import LIMIT, wait_until
from support.watched_runs import serving, write_run


def start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fedloom.cli.app", "watch", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_free_port_is_found_and_printed_and_ctrl_c_ends_with_0(tmp_path: Path) -> None:
    write_run(tmp_path / "r", 3)
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*")}
    started = start(tmp_path / "r", "--port", 0)
    assert started.stdout is not None
    line = started.stdout.readline()
    url = re.fullmatch(rf"Watching {re.escape(str(tmp_path / 'r'))}: (http://127\.0\.0\.1:\d+/)\n", line)
    assert url is not None, line
    with urllib.request.urlopen(f"{url[1]}metrics") as answer:  # noqa: S310
        assert b"fedloom_round 3.0" in answer.read()
    opened = urllib.request.urlopen(f"{url[1]}events")  # noqa: S310  (a page that is still open)
    opened.readline()
    started.send_signal(signal.SIGINT)
    out, error = started.communicate(timeout=LIMIT)
    opened.close()
    assert (started.returncode, out, error) == (0, "", "stopped\n")
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*")} == before  # it only reads


def test_what_cannot_be_watched_is_one_sentence(tmp_path, fedloom):
    (tmp_path / "empty").mkdir()
    assert "neither the folder of a run" in refusal(fedloom("watch", "empty"))
    assert "there is no folder nowhere" in refusal(fedloom("watch", "nowhere"))
    write_run(tmp_path / "r", 1)
    assert "only a deployment's server has a certificate" in refusal(fedloom("watch", "r", "--bind", "0.0.0.0"))  # noqa: S104


@pytest.mark.slow
def test_a_run_leaves_the_same_bytes_with_and_without_a_watcher(tmp_path, fedloom):
    words = ["--task", "digits", "--clients", "4", "--rounds", "12", "--seed", "1", "--quiet", "--json"]
    assert fedloom("run", *words, "--out", "alone").returncode == 0
    code = "import sys; from fedloom.cli.app import main; main()"
    watched = tmp_path / "watched"
    environment = {**os.environ, "FEDLOOM_DATA": "nowhere"}
    run = subprocess.Popen(
        [sys.executable, "-c", code, "run", *words, "--out", str(watched)], env=environment, stdout=subprocess.DEVNULL
    )
    wait_until(lambda: (watched / "config.toml").exists() or run.poll() is not None)
    with serving(watched) as server:
        pages = [urllib.request.urlopen(f"{server.url}events") for _ in range(2)]  # noqa: S310
        reading = [threading.Thread(target=page.read, args=(1 << 30,), daemon=True) for page in pages]
        for thread in reading:
            thread.start()
        assert run.wait() == 0
        wait_until(lambda: server.reader.read().phase == "finished")
        server.ending.set()
        for thread in reading:
            thread.join()
    alone = {path.relative_to(tmp_path / "alone") for path in (tmp_path / "alone").rglob("*")}
    assert {path.relative_to(watched) for path in watched.rglob("*")} == alone
    for name in ("metrics.jsonl", "config.toml", "clients.json", "partition.json", "confusion.json"):
        assert (watched / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    last = "checkpoints/round-000012.safetensors"
    assert (watched / last).read_bytes() == (tmp_path / "alone" / last).read_bytes()
    assert json.loads((watched / "metrics.jsonl").read_text().splitlines()[-1])["round"] == 12
