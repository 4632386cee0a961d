"""What a participant's programs say is put into words, and what cannot work is refused before anything is started."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: nothing is supervised")
pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower import release
from fedloom.deploy.operate import programs, run_server, run_site, supervise
from fedloom.deploy.operate.connection_error import CONNECTION_ERRORS, connection_error
from fedloom.deploy.operate.supervise import pid_file
from fedloom.deploy.provision import certificates, folders
from fedloom.deploy.settings import load_server, load_site, to_toml

RUN = 'rounds = 1\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(RUN)
    folders.init(root / "run.toml", root / "deploy", ["north", "south"], rehearsal=True)
    return root / "deploy"


@pytest.fixture
def deploy(deploy_folder, tmp_path, monkeypatch) -> Path:
    """Folders of one's own; whatever a test sets in motion, no program is started."""
    shutil.copytree(deploy_folder, tmp_path / "deploy")
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(programs, "PORT_RELEASE", 0.0)
    for module in (run_server, run_site):
        monkeypatch.setattr(module, "start_program", lambda *_: pytest.fail("a program was started"))
    yield tmp_path / "deploy"
    signal.signal(signal.SIGTERM, before)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def change(folder: Path, **settings: Any) -> None:
    read, name = (load_server, "deploy.toml") if folder.name == "server" else (load_site, "site.toml")
    (folder / name).write_bytes(to_toml(read(folder).model_copy(update=settings)))  # type: ignore[operator]


def refusal(work: Any, folder: Path) -> str:
    """The sentence, after which nothing is left behind."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(FedloomError) as why:
        work(folder, pytest.fail)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert pid_file(folder).process() is None
    return str(why.value)


# -- refusals


@pytest.mark.parametrize(("who", "key", "file"), [
    ("server", "port", "deploy.toml"), ("server", "control_port", "deploy.toml")
])  # fmt: skip
def test_a_port_that_is_taken_is_named_before_anything_is_started(deploy, monkeypatch, who, key, file):
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/sbin/nginx")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        change(deploy / who, port=free_port(), **({"control_port": free_port()} if who == "server" else {}))
        change(deploy / who, **{key: port})
        said = refusal(run_server.run_server if who == "server" else run_site.run_site, deploy / who)
    assert said.startswith(f"port {port} of this machine is not free")
    assert said.endswith(f"end the program that uses it, or change {key} in {file}.")


def test_a_server_without_nginx_says_what_to_install(deploy, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    said = refusal(run_server.run_server, deploy / "server")
    assert said.startswith("nginx is not installed")
    assert "apt install nginx" in said
    assert "proxy = false" in said


def test_without_the_proxy_a_server_is_for_one_machine_only(deploy):
    shutil.rmtree(deploy)
    run_file = deploy.parent / "run.toml"
    run_file.write_text(RUN)
    folders.init(run_file, deploy, ["north", "south"], host="fl.example.org")
    change(deploy / "server", proxy=False)
    said = refusal(run_server.run_server, deploy / "server")
    assert said.startswith("proxy = false and host = fl.example.org: without the proxy nobody asks for the sites' cert")
    assert said.endswith("set proxy = true.")


@pytest.mark.parametrize("who", ["server", "north"])
def test_an_expired_certificate_is_named(deploy, monkeypatch, who):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=400)

    monkeypatch.setattr(certificates, "datetime", Later)
    said = refusal(run_server.run_server if who == "server" else run_site.run_site, deploy / who)
    assert "expired on 20" in said
    assert str(deploy / who) in said


@pytest.mark.parametrize("who", ["server", "north"])
def test_a_second_one_is_refused_and_the_first_stays_at_work(deploy, monkeypatch, who):
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/sbin/nginx")
    pid_file(deploy / who).take("it")
    with pytest.raises(FedloomError, match=f"{'this server' if who == 'server' else 'site north'} is already running"):
        (run_server.run_server if who == "server" else run_site.run_site)(deploy / who, pytest.fail)
    assert pid_file(deploy / who).process() is not None


@pytest.mark.parametrize(("work", "who"), [(run_server.run_server, "north"), (run_site.run_site, "server")])
def test_the_wrong_folder_is_named(deploy, work, who):
    assert "deploy init makes one" in refusal(work, deploy / who)


@pytest.mark.parametrize("work", [run_server.run_server, run_site.run_site])
def test_without_flower_nothing_is_deployed(deploy, monkeypatch, work):
    from importlib import metadata

    def version(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "version", version)
    assert refusal(work, deploy / "server") == (
        "deployment needs Flower, which is not installed: pip install 'fedloom[deploy]'."
    )
    monkeypatch.setattr(metadata, "version", lambda _: "2.0.0")
    assert f"needs Flower {release.VERSION}, but 2.0.0 is installed" in refusal(work, deploy / "server")


# -- what Flower says, in words


SSL = "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (SSL + "self-signed certificate in certificate chain (_ssl.c:1000)", "is not from this site's authority"),
        (SSL + "unable to get local issuer certificate (_ssl.c:1000)", "is not from this site's authority"),
        (SSL + "certificate has expired (_ssl.c:1000)", "a certificate has expired"),
        (SSL + "certificate is not yet valid (_ssl.c:1000)", "set this machine's clock"),
        (SSL + "Hostname mismatch, certificate is not valid for 'hub'. (_ssl.c:1000)", "is for another address"),
        (SSL + "IP address mismatch, certificate is not valid for '10.0.0.1'.", "is for another address"),
        ("httpx.ConnectError: [SSL: WRONG_VERSION_NUMBER] wrong version number", "does not use TLS"),
        ("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca", "did not accept this site's certificate"),
        ("Client error '400 Bad Request' for url", "did not accept this site's certificate"),
        ("Invalid SuperNode authentication", "does not know this site's key, or this machine's clock is off"),
        ("httpx.ConnectError: [Errno 111] Connection refused", "the connection was refused"),
        ("[Errno -2] Name or service not known", "no machine has that name"),
        ("the runtime version is incompatible", "different versions of Flower"),
    ],
)
def test_flowers_trouble_is_put_into_words(said, means):
    text = f"INFO : Starting Flower SuperNode\nTraceback (most recent call last):\n{said}\nExit Code: 1\n"
    assert means in connection_error(text)


def test_trouble_nobody_knows_is_its_last_line():
    assert connection_error("INFO\n\n  something new happened  \n\n") == "something new happened"
    assert connection_error("") == "it printed nothing"
    assert len(connection_error("x" * 5000)) == 300


def test_every_meaning_is_a_sentence_with_what_to_do():
    assert all(meaning.endswith(".") and ": " in meaning for meaning in CONNECTION_ERRORS.values())


def test_a_sites_own_sentence_is_passed_on():
    said = "2026 fedloom\nError: site north: data.csv has no column age.\n"
    assert run_site._site_error(said) == "site north: data.csv has no column age."
    assert run_site._site_error("killed\n") == "the site's process ended: killed"


# -- programs that die


def test_a_program_that_dies_is_started_again_and_one_that_always_does_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(supervise, "PAUSE", 0.0)
    monkeypatch.setattr(supervise.time, "sleep", lambda _: None)
    starts: list[int] = []

    def start_dying() -> programs.Program:
        starts.append(1)
        command = [sys.executable, "-c", "pass"] if sys.platform != "linux" else ["/bin/sh", "-c", "echo full; exit 7"]
        return programs.start_program("nginx", command, tmp_path / "log", {}, tmp_path)

    said: list[str] = []
    with pytest.raises(FedloomError, match=r"nginx ended 8 times: full .*log"):
        supervise.keep_running([start_dying()], [start_dying], said.append)
    assert said == ["nginx ended (code 7): it is restarted."] * 7
    assert len(starts) == 8


def test_what_only_carries_and_keeps_programs_running_starts_without_torch() -> None:
    """It would cost each of a deployment's programs two seconds of CPU at its start, and 180 MB."""
    modules = ["flower.superlink", "flower.supernode", "operate.run_server", "operate.run_site", "operate.commands"]
    code = f"import sys, {', '.join(f'fedloom.deploy.{name}' for name in modules)}; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
