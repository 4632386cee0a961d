"""nginx limits addresses where it has its stream module, built in or loaded; ``test_proxy.py`` tries the limit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fedloom.deploy.provision.address_limit import SOCKET, limit_addresses, listen_behind, load_stream


def build_nginx(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    """Let ``nginx -V`` print these options."""

    def print_options(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command == ["nginx", "-V"]
        return subprocess.CompletedProcess(command, 0, "", f"configure arguments: {options}\n")

    monkeypatch.setattr(subprocess, "run", print_options)


def test_a_module_that_is_built_in_needs_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    build_nginx(monkeypatch, "--with-http_realip_module --with-stream --with-stream_ssl_module")
    assert load_stream() == ""


def test_a_dynamic_module_is_loaded_if_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build_nginx(monkeypatch, f"--modules-path={tmp_path} --with-http_realip_module --with-stream=dynamic")
    assert load_stream() is None
    (tmp_path / "ngx_stream_module.so").touch()
    assert load_stream() == f"load_module {tmp_path}/ngx_stream_module.so;\n"


@pytest.mark.parametrize("options", ["--with-http_realip_module --with-stream_ssl_module", "--with-stream"])
def test_without_the_module_or_the_senders_address_there_is_no_limit(
    monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    build_nginx(monkeypatch, options)
    assert load_stream() is None


def test_no_nginx_is_no_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert load_stream() is None


def test_one_of_the_two_parts_listens_to_the_network() -> None:
    front = limit_addresses("8443", 96)
    assert "listen 8443;" in front
    assert "limit_conn addresses 96;" in front
    assert f"proxy_pass unix:{SOCKET};" in front
    assert "@" not in front
    assert listen_behind("8443", limited=False) == "8443 ssl"
    assert "8443" not in listen_behind("8443", limited=True)
