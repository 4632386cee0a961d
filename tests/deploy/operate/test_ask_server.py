"""A site hears the true reason on its own screen: through a real nginx, from the server's reception."""

from __future__ import annotations

import http.client
import shutil
import signal
import socket
import stat
import time
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
pytest.importorskip("flwr", reason="Flower is not installed: its version is not known")

import fedloom
from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.flower.release import environment
from fedloom.deploy.operate import ask_server, reception
from fedloom.deploy.operate.ask_server import ServerContact, ServerUnreachable, SiteRefused, check_dates, clock_words
from fedloom.deploy.operate.programs import is_listening, start_program
from fedloom.deploy.operate.reception import open_reception, visit_notes
from fedloom.deploy.participant_folder import read_json
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.provision import authority, certificates, folders, membership
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.certificates import days_left, public_key_of
from fedloom.deploy.provision.change_files import finish_change
from fedloom.deploy.provision.proxy import write_proxy_config
from fedloom.deploy.provision.signature import RENEWED_FILES, check_signature
from fedloom.deploy.settings import load_server, load_site, to_toml
from support.kills import kills
from support.waiting import LIMIT, wait_until

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: nobody is asked")
RUN = 'rounds = 1\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Running:
    """A server's nginx and reception over folders of its own."""

    def __init__(self, deploy: Path) -> None:
        self.deploy, self.server, self.port = deploy, deploy / "server", load_server(deploy / "server").port
        self.said: list[str] = []

    def start(self) -> None:
        write_proxy_config(self.server, load_server(self.server))
        self.start_nginx()

    def start_nginx(self) -> None:
        command = ["nginx", "-p", str(self.server), "-c", "nginx.conf", "-g", "daemon off;"]
        self.nginx = start_program(
            "nginx", command, self.deploy / "nginx.log", environment(self.server / "flower"), self.server
        )
        while not is_listening(self.port):
            assert not self.nginx.has_ended, self.nginx.output()

    def reload(self) -> None:
        write_proxy_config(self.server, load_server(self.server))
        self.nginx.process.send_signal(signal.SIGHUP)

    def contact(self, site: str, said: list[str] | None = None, renewed=lambda: None) -> ServerContact:
        folder = self.deploy / site
        return ServerContact(folder, load_site(folder), (self.said if said is None else said).append, renewed)

    def refusal(self, site: str, *part: str) -> str:
        """The sentence with which a site is refused; nginx may still be reading its new settings."""
        heard: list[str] = []

        def is_refused() -> bool:
            try:
                self.contact(site).ask()
            except SiteRefused as why:
                heard.append(str(why))
            return bool(heard) and all(one in heard[-1] for one in part)

        wait_until(is_refused, "the site is not refused")
        return heard[-1]


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(RUN)
    folders.init(root / "run.toml", root / "deploy", ["north", "south"], days=20)
    return root / "deploy"


@pytest.fixture
def running(deploy_folder, tmp_path):
    deploy, port = Path(shutil.copytree(deploy_folder, tmp_path / "deploy")), free_port()
    change = {
        "server": {"port": port},
        "north": {"server": f"127.0.0.1:{port}"},
        "south": {"server": f"127.0.0.1:{port}"},
    }
    for name, values in change.items():
        read, file = (load_server, "deploy.toml") if name == "server" else (load_site, "site.toml")
        (deploy / name / file).write_bytes(to_toml(read(deploy / name).model_copy(update=values)))
    one = Running(deploy)
    with open_reception(one.server, one.said.append):
        one.start()
        try:
            yield one
        finally:
            one.nginx.stop()


def test_a_site_that_may_join_hears_nothing_and_the_server_knows_its_versions(running):
    running.contact("north").ask()
    assert running.said == []
    visit = read_json(running.server / reception.VISITS)["north"]
    assert (visit["fedloom"], visit["flower"]) == (fedloom.__version__, metadata.version("flwr"))
    assert visit["address"] == "127.0.0.1"
    assert abs(visit["clock_ahead"]) < 5
    assert visit["refused"] == ""


def test_a_revoked_site_hears_that_it_is_revoked(running):
    membership.revoke("north", running.deploy)
    running.reload()
    assert "site north is refused" in (said := running.refusal("north", "revoked"))
    assert "the operator has revoked this site" in said
    running.contact("south").ask()


def test_another_version_is_named_with_what_to_install(running, monkeypatch):
    monkeypatch.setattr(ask_server, "version", lambda name: "1.0.0" if name == "flwr" else metadata.version(name))
    flower = metadata.version("flwr")
    assert f"this site has Flower 1.0.0, but the server has {flower}: pip install flwr=={flower}" in running.refusal(
        "north"
    )
    question = ask_server._question
    monkeypatch.setattr(
        ask_server, "_question", lambda folder: question(folder) | {"fedloom": "0.4.0", "protocol": None}
    )
    said = running.refusal("north")
    mine = f"the server runs {fedloom.__version__} (protocol {PROTOCOL}): pip install 'fedloom[deploy]=="
    assert f"this site runs fedloom 0.4.0 (no protocol with a number), but {mine}" in said
    assert visit_notes(running.server)["north"].startswith("refused: this site runs fedloom 0.4.0")


def test_a_copy_of_a_site_is_refused_while_the_site_is_there_and_the_server_says_so(running, monkeypatch):
    shutil.copytree(running.deploy / "north", running.deploy / "copy")
    running.contact("north").ask()
    said = running.refusal("copy")
    assert "another machine uses the keys of north right now (at 127.0.0.1," in said
    running.contact("north").ask()  # the site itself goes on
    assert running.refusal("copy") == said or "right now" in running.refusal("copy")
    assert len(running.said) == 1
    assert running.said[0].startswith("Site north: another machine, at 127.0.0.1, uses the site's keys")
    assert [entry["what"] for entry in read_audit(running.server).entries][-1] == "site refused"
    monkeypatch.setattr(reception, "LEASE", 0.0)  # the site is gone: the folder was moved
    running.contact("copy").ask()


def test_a_site_that_restarts_is_not_taken_for_a_copy(running):
    running.contact("north").ask()
    running.contact("north").ask()


def test_a_site_with_an_old_node_key_is_told_so(running):
    shutil.copyfile(running.deploy / "south/node.key", running.deploy / "north/node.key")
    assert "its node.key is not the one that the server knows" in running.refusal("north")


def test_an_unknown_site_with_a_good_certificate_is_told_so(running):
    text = (running.server / "deploy.toml").read_text()
    (running.server / "deploy.toml").write_text(text.replace('"north",', ""))
    assert "the server has no site 'north'" in running.refusal("north")


def test_a_site_of_another_deployment_hears_that_the_authority_differs(running, deploy_folder, tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    folders.init(tmp_path / "run.toml", tmp_path / "other", ["north", "south"], port=running.port)
    shutil.rmtree(running.deploy / "north")
    shutil.copytree(tmp_path / "other/north", running.deploy / "north")
    assert "is not from this site's authority (ca.crt)" in running.refusal("north")
    shutil.copyfile(deploy_folder / "north/ca.crt", running.deploy / "north/ca.crt")
    assert "does not accept this site's certificate (FAILED:" in running.refusal("north")


def test_why_a_run_leaves_a_site_out_is_on_the_sites_screen_once(running):
    (running.server / "run").mkdir()
    (running.server / "run/refused.json").write_text('{"north": "its folder was made for another run"}')
    said: list[str] = []
    contact = running.contact("north", said)
    contact.ask()
    contact.ask()
    assert said == ["The run does not let site north take part: its folder was made for another run"]


@pytest.mark.parametrize(("minutes", "words"), [(3, "3.0 minutes ahead of"), (-3, "3.0 minutes behind")])
def test_a_clock_that_is_off_is_said_in_minutes_and_with_its_direction(running, monkeypatch, minutes, words):
    monkeypatch.setattr(ask_server, "clock", lambda: time.time() + 60 * minutes)
    said: list[str] = []
    contact = running.contact("north", said)
    contact.ask()
    contact.ask()
    assert said == [
        f"This machine's clock is {words} the server's: set it (timedatectl set-ntp true); until then the site's "
        "messages are corrected by that."
    ]
    assert round(read_json(running.server / reception.VISITS)["north"]["clock_ahead"]) == 60 * minutes
    assert visit_notes(running.server) == {"north": f"its clock is {words.removesuffix(' of')}"}
    monkeypatch.setattr(ask_server, "clock", time.time)
    contact.ask()
    assert said[1:] == ["This machine's clock agrees with the server's again."]


class Moved(datetime):
    """A clock that is off by some days."""

    days = 0.0

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=cls.days)


def test_a_clock_that_is_days_off_is_told_from_a_certificate_that_has_expired(running, monkeypatch):
    monkeypatch.setattr(certificates, "datetime", type("Ahead", (Moved,), {"days": 40}))
    monkeypatch.setattr(ask_server, "clock", lambda: time.time() + 40 * 86400)
    north = running.deploy / "north"
    with pytest.raises(FedloomError, match=r"clock is 40.0 days ahead of the server's: set it .* expired on 20"):
        check_dates(north, load_site(north))
    running.nginx.stop()
    with pytest.raises(FedloomError, match=r"ca.crt expired on 20.*, or set this machine's clock"):
        check_dates(north, load_site(north))


def expired(running: Running, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """The deployment's authority, whose new certificates expired some days ago."""
    with monkeypatch.context() as patch:
        patch.setattr(authority, "datetime", type("Behind", (Moved,), {"days": -30}))
        return Authority.load(running.deploy / "authority").renew(10)


def test_a_site_whose_certificate_has_expired_hears_that_from_the_server(running, monkeypatch):
    path = running.deploy / "north/client.pem"
    path.write_bytes(expired(running, monkeypatch).sign_site(public_key_of(path), "north"))
    assert f"{path} has expired by the server's clock: ask the operator for a renewed one" in running.refusal("north")


def test_a_server_whose_certificate_has_expired_is_named(running, monkeypatch):
    path = running.server / "server.pem"
    path.write_bytes(expired(running, monkeypatch).sign_server(public_key_of(path), "127.0.0.1"))
    running.reload()
    assert "the server's certificate expired on 20" in running.refusal("north", "the server's certificate expired")


def test_a_running_site_gets_its_renewed_certificate_from_the_server(running):
    shutil.copytree(running.deploy / "north", running.deploy / "away")  # where the operator does not write
    membership.renew(running.deploy, days=100)
    said, restarts = [], []
    contact = running.contact("away", said, lambda: restarts.append(1))
    assert days_left(running.deploy / "away") == {"north": 19}
    contact.ask()
    assert days_left(running.deploy / "away") == {"north": 99}
    check_signature(running.deploy / "away")
    contact.ask()
    assert said == ["Renewed certificates came from the server; the site connects again with them."]
    assert restarts == [1]


def test_a_site_that_is_killed_while_it_takes_renewed_files_starts_again(deploy_folder, tmp_path, monkeypatch):
    deploy, site = tmp_path / "deploy", tmp_path / "away" / "north"
    shutil.copytree(deploy_folder, deploy)
    membership.renew(deploy, days=100)
    new = {name: (deploy / "server/renewed/north" / name).read_text() for name in RENEWED_FILES}
    monkeypatch.setattr(ask_server, "ask_server", lambda *_: ask_server.ServerAnswer(0.0, "", new))
    contact, lasting = ServerContact(site, load_site(deploy / "north"), print, lambda: None), set()

    def prepare() -> None:
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(deploy_folder / "north", site)

    for _ in kills(contact.ask, prepare):
        finish_change(site)  # as a site that starts does
        certificates.check_certificates(site)
        check_signature(site)
        lasting |= set(days_left(site).values())
    assert lasting == {19, 99}


def test_renewed_certificates_that_do_not_fit_the_sites_keys_are_not_taken(running):
    shutil.copytree(running.deploy / "north", running.deploy / "away")
    before = {path.name: path.read_bytes() for path in (running.deploy / "away").iterdir() if path.is_file()}
    membership.renew(running.deploy, days=100)
    shutil.copytree(running.server / "renewed/south", running.server / "renewed/north", dirs_exist_ok=True)
    said: list[str] = []
    running.contact("away", said).ask()
    assert said[0].startswith("The server offers renewed certificates that do not fit this folder: ")
    assert {path.name: path.read_bytes() for path in (running.deploy / "away").iterdir() if path.is_file()} == before


def test_a_server_that_is_down_is_unreachable_and_no_refusal(running):
    running.nginx.stop()
    with pytest.raises(ServerUnreachable, match="the server may not be running"):
        running.contact("north").ask()
    running.contact("north").check()


def test_words_for_clocks():
    assert clock_words(200) == "this machine's clock is 3.3 minutes ahead of the server's"
    assert clock_words(-3 * 86400) == "this machine's clock is 3.0 days behind the server's"
    assert clock_words(45) == "this machine's clock is 45.0 seconds ahead of the server's"


def test_nobody_of_the_servers_machine_is_answered_without_the_secret(running):
    about = read_json(running.server / "flower/reception.json")
    assert stat.S_IMODE((running.server / "flower/reception.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((running.server / "nginx.conf").stat().st_mode) == 0o600
    for secret, status in (("", 403), ("0" * 64, 403), (about["secret"], 200)):
        call = http.client.HTTPConnection("127.0.0.1", about["port"], timeout=LIMIT)
        call.request("POST", "/v1/site", b"{}", {"X-Secret": secret, "X-Site-Name": "north"})
        assert call.getresponse().status == status
        call.close()
