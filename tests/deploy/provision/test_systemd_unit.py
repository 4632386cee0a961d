"""The systemd unit of a participant: systemd accepts it, and it is hardened."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys

import pytest

from fedloom.deploy.provision.systemd_unit import HOME, PROGRAM, UNIT, systemd_unit


@pytest.mark.parametrize("command", ["server", "client"])
def test_a_unit_starts_its_participant_restarts_it_and_may_write_its_folder_only(command):
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(systemd_unit(command))
    service = unit["Service"]
    assert service["ExecStart"] == f"{PROGRAM} deploy {command} ."
    assert service["WorkingDirectory"] == service["ReadWritePaths"] == HOME
    assert service["Restart"] == "on-failure"
    assert service["ProtectSystem"] == "strict"
    assert service["NoNewPrivileges"] == "yes"
    assert service["User"] != "root"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed: units are not verified")
@pytest.mark.parametrize("command", ["server", "client"])
def test_systemd_accepts_the_unit(tmp_path, command):
    text = systemd_unit(command).replace(PROGRAM, sys.executable).replace(HOME, str(tmp_path))
    (tmp_path / UNIT).write_text(text.replace("User=fedloom", "User=daemon"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / UNIT], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if UNIT in line]
    assert complaints == []
