"""The command that continues a run is that of a deployment where the run lies in the server's folder."""

from __future__ import annotations

from fedloom.files.resume_command import resume_command


def test_a_deployed_run_is_continued_by_the_deployments_command(tmp_path):
    run = tmp_path / "run"
    assert resume_command(run) == f"fedloom resume {run}"
    (tmp_path / "deploy.toml").touch()
    assert resume_command(run) == f"fedloom deploy run {tmp_path}"
