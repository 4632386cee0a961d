"""The command line in the test's own process: quicker than a process for each of many commands."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedloom.cli.app import main


@pytest.fixture
def fedloom_in_process(tmp_path, monkeypatch, capsys):
    """Calls ``fedloom WORDS`` in the test's folder or another one, without public data sets."""

    def call(*words, cwd=tmp_path):
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("FEDLOOM_DATA", "nowhere")
        monkeypatch.setattr(sys, "argv", ["fedloom", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(words, end.value.code, printed.out, printed.err)

    return call


@pytest.fixture
def fedloom(fedloom_in_process):
    return fedloom_in_process
