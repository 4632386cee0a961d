"""Nobody who reads a folder from somebody else waits for a pipe in it, or follows a link out of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

import fedloom as fl
from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import AUDIT, append, read_audit
from fedloom.deploy.participant_folder import read_json
from fedloom.files.regular_file import open_regular, read_regular
from fedloom.runs.folder.folder_lock import lock_holder
from fedloom.runs.results.client_model import client_model
from fedloom.runs.results.history import History
from fedloom.watch.status_reader import StatusReader
from support.command_line import output
from support.pipes import pipe_instead


def test_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(tmp_path / name)
    assert read_regular(tmp_path / "secret") == b"x"


@pytest.mark.slow
def test_a_pipe_for_a_file_of_a_run_s_folder_is_waited_for_by_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fl.run(fl.task("digits", clients=3, model="logistic"), rounds=1, out=folder)
    fl.report(folder)
    (tmp_path / "data.csv").write_text("a\n1\n")
    readers = [
        lambda: History.load(folder),
        lambda: fl.report(folder),
        lambda: StatusReader(folder).read(),
        lambda: StatusReader(folder).logs(),
        lambda: lock_holder(folder),
        lambda: client_model(folder, "0"),
        lambda: output(app, "predict", folder, tmp_path / "data.csv"),
        lambda: fl.resume(folder),
    ]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {"config.toml", "metrics.jsonl", "timings.jsonl", "partition.json", "clients.json"} <= {
        f.name for f in files
    }
    for path in files:
        with pipe_instead(path) as found:
            for read in readers:
                with suppress(FedloomError):
                    read()
            assert not found


def test_an_audit_log_that_is_a_pipe_or_a_link_is_said(tmp_path: Path) -> None:
    append(tmp_path, "server started")
    with pipe_instead(tmp_path / AUDIT) as found:
        assert "it is not a regular file" in read_audit(tmp_path).problem
        assert read_json(tmp_path / AUDIT) == {}
        assert not found
    (tmp_path / AUDIT).rename(tmp_path / "elsewhere")
    (tmp_path / AUDIT).symlink_to(tmp_path / "elsewhere")
    assert "it is not a regular file" in read_audit(tmp_path).problem
