"""Sites are added and revoked and certificates renewed, in the folders of a deployment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import fedloom
from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.members import member_keys, revocations, revoked_sites, site_serial
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.provision import folders
from fedloom.deploy.settings import load_server, load_site, refuse_other_participant

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
pytest.importorskip("flwr", reason="Flower is not installed: keys are not read")

from fedloom.deploy.flower.control import public_key
from fedloom.deploy.operate.run_server import run_server
from fedloom.deploy.operate.run_site import run_site
from fedloom.deploy.provision import authority, certificates, key_request, membership
from fedloom.deploy.provision.certificates import check_certificates, check_pair, days_left
from fedloom.deploy.provision.change_files import finish_change
from fedloom.deploy.provision.signature import check_signature, fingerprint
from support.kills import kills

RUN = 'rounds = 1\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(RUN)
    folders.init(root / "run.toml", root / "deploy", ["north", "south"], days=20)
    return root / "deploy"


@pytest.fixture
def deploy(deploy_folder, tmp_path) -> Path:
    return Path(shutil.copytree(deploy_folder, tmp_path / "deploy"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_all(deploy: Path, *names: str) -> None:
    for name in ("server", *names):
        check_certificates(deploy / name)
        check_signature(deploy / name)


# -- revoke


def test_a_revoked_site_is_no_member_and_needs_no_authority(deploy):
    shutil.rmtree(deploy / "authority")
    server = deploy / "server"
    settings = load_server(server)
    assert list(member_keys(server, settings).values()) == [0, 1]
    membership.revoke("north", server)
    assert list(member_keys(server, settings).values()) == [1]
    assert list(revoked_sites(server, settings)) == ["north"]
    assert [one.serial for one in revocations(server)] == [site_serial(server, "north")]
    check_all(deploy, "north")  # the signature does not cover what the server's own people change
    assert [entry["what"] for entry in read_audit(server).entries][-1] == "site revoked"


def test_a_revocation_holds_for_the_certificates_before_a_renewal_too(deploy):
    server = deploy / "server"
    serials = {site_serial(server, "north")}
    for _ in range(2):
        membership.renew(deploy)
        serials.add(site_serial(server, "north"))
    membership.revoke("north", server)
    assert len(serials) == 3
    assert {one.serial for one in revocations(server)} == serials


def test_a_revocation_that_cannot_be_is_refused(deploy):
    with pytest.raises(FedloomError, match="there is no site 'west': the sites are north, south"):
        membership.revoke("west", deploy)
    membership.revoke("north", deploy)
    with pytest.raises(FedloomError, match="north is revoked already"):
        membership.revoke("north", deploy)
    with pytest.raises(FedloomError, match="neither a server's folder nor one that fedloom deploy init wrote"):
        membership.revoke("north", deploy / "south")


def test_a_damaged_list_of_revocations_admits_nobody(deploy):
    membership.revoke("north", deploy)
    (deploy / "server/revoked.json").write_text("[{")
    with pytest.raises(FedloomError, match=r"revoked.json cannot be read: restore it"):
        member_keys(deploy / "server", load_server(deploy / "server"))


# -- add


def test_a_revoked_site_comes_back_with_new_keys_and_its_old_certificate_stays_refused(deploy, tmp_path):
    server = deploy / "server"
    key, serial = public_key(server / "keys/north.pub"), site_serial(server, "north")
    membership.revoke("north", deploy)
    with pytest.raises(FedloomError, match="north exists already: move it away"):
        membership.add("north", deploy)
    (deploy / "north").rename(tmp_path / "old")
    place = membership.add("north", deploy)
    check_all(deploy, "north")
    members = member_keys(server, load_server(server))
    assert set(members.values()) == {0, 1}
    assert key not in members
    assert serial in {one.serial for one in revocations(server)}
    assert load_site(place).client == 0
    assert Blueprint.load(place).digest == Blueprint.load(deploy / "south").digest
    assert membership.takes_part_in("north", deploy) == "from the next round on"


def test_a_new_site_gets_the_next_number_and_a_run_that_goes_on_does_without_it(deploy):
    place, server = membership.add("east", deploy, rehearsal=True), deploy / "server"
    check_all(deploy, "north", "south", "east")
    assert load_server(server).sites == ["north", "south", "east"]
    assert load_site(place).client == 2
    assert Blueprint.load(place).sites == ("north", "south", "east")
    assert Blueprint.load(place).site_task(load_site(place), place).federation.clients == 3
    assert membership.takes_part_in("east", deploy) == "from the next round on"  # there is no run yet
    (server / "run").mkdir()
    (server / "run/config.toml").touch()
    assert membership.takes_part_in("east", deploy).startswith("in the next run (fedloom deploy run --new)")


@pytest.mark.parametrize("step", ["securesum", "ckks"])
def test_sites_that_add_up_their_updates_know_each_other_and_get_no_other(tmp_path, step):
    if step == "ckks":
        pytest.importorskip("tenseal", reason="TenSEAL is not installed: no homomorphic sums")
    (tmp_path / "run.toml").write_text(f'{RUN}[[channel]]\nname = "{step}"\n')
    folders.init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], days=20)
    check_all(tmp_path / "deploy", "north", "south")
    secrets = sorted(str(path.relative_to(tmp_path / "deploy")) for path in tmp_path.rglob("sum.*"))
    assert secrets == (["north/sum.key", "server/sum.pub", "south/sum.key"] if step == "ckks" else [])
    with pytest.raises(FedloomError, match="site 'east' cannot be added"):
        membership.add("east", tmp_path / "deploy", rehearsal=True)


def test_a_site_that_made_its_keys_itself_is_added_without_any(deploy, tmp_path):
    request = key_request.write_request(tmp_path / "east", "east")
    with pytest.raises(FedloomError, match="is the request of 'east', not of 'west'"):
        membership.add("west", deploy, request=request)
    place = membership.add("east", deploy, request=request)
    assert not [name for name in files(place) if name.endswith(".key")]
    shutil.copytree(place, tmp_path / "east", dirs_exist_ok=True)
    check_certificates(tmp_path / "east")
    check_signature(tmp_path / "east")
    assert "made its own" in " ".join((place / "README.md").read_text().split())


def test_init_takes_requests_too(tmp_path):
    request = key_request.write_request(tmp_path / "south", "south")
    (tmp_path / "run.toml").write_text(RUN)
    with pytest.raises(FedloomError, match="a request of site 'south', which --clients does not name"):
        folders.init(tmp_path / "run.toml", tmp_path / "d", ["a", "b"], requests=[request])
    folders.init(tmp_path / "run.toml", tmp_path / "d", ["north", "south"], requests=[request])
    assert not [name for name in files(tmp_path / "d/south") if name.endswith(".key")]
    shutil.copytree(tmp_path / "d/south", tmp_path / "south", dirs_exist_ok=True)
    check_certificates(tmp_path / "south")


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        ("north", "north exists already|north belongs to this deployment already"),
        ("North", "differs from an existing name only in capital letters"),
        ("../x", "site name '../x'"),
        ("server", "that name is the operator's"),
    ],
)
def test_what_cannot_be_added_is_refused_and_changes_nothing(deploy, site, sentence):
    before = files(deploy)
    with pytest.raises(FedloomError, match=sentence):
        membership.add(site, deploy)
    assert files(deploy) == before


def test_a_new_site_beside_an_evaluator_is_refused(tmp_path):
    (tmp_path / "run.toml").write_text(RUN)
    folders.init(tmp_path / "run.toml", tmp_path / "d", ["north", "south"], evaluator="judge")
    with pytest.raises(FedloomError, match=r"number of the evaluator \(judge\)"):
        membership.add("east", tmp_path / "d")


def test_without_the_authority_nobody_is_added_and_nothing_renewed(deploy, tmp_path):
    (deploy / "authority").rename(tmp_path / "safe")
    for work in (lambda: membership.add("east", deploy), lambda: membership.renew(deploy)):
        with pytest.raises(FedloomError, match="is not the authority's folder: this is done where it is"):
            work()
    membership.add("east", deploy, authority=tmp_path / "safe")
    membership.renew(deploy, authority=tmp_path / "safe")


# -- renew


def test_renewed_certificates_are_for_the_same_keys_and_fit_the_old_ones(deploy):
    before = files(deploy)
    marked = fingerprint(deploy / "server")
    changed = membership.renew(deploy, days=100)
    assert set(changed) == {"north", "south"}
    check_all(deploy, "north", "south")
    assert set(days_left(deploy / "server").values()) == {99}
    assert fingerprint(deploy / "server") == fingerprint(deploy / "north") == marked
    after = files(deploy)
    same = [name for name in before if name.endswith((".key", ".pub", "config.toml", "initial.safetensors"))]
    assert same
    assert all(after[name] == before[name] for name in same)
    old = deploy / "south"  # a site that has not got its new files yet
    for name in ("ca.crt", "client.pem", "signature.json"):
        (old / name).write_bytes(before[f"south/{name}"])
    check_all(deploy, "south")
    assert read_audit(deploy / "server").entries[-1]["what"] == "certificates renewed"


def test_sites_whose_folders_are_gone_get_three_public_files(deploy, tmp_path):
    shutil.move(deploy / "north", tmp_path / "north")
    place = membership.renew(deploy, days=90)["north"]
    assert set(files(place)) == {"client.pem", "ca.crt", "signature.json"}
    for name in files(place):
        shutil.copyfile(place / name, tmp_path / "north" / name)
    check_certificates(tmp_path / "north")
    check_signature(tmp_path / "north")
    assert days_left(tmp_path / "north") == {"north": 89}


def test_a_revoked_site_is_not_renewed(deploy):
    membership.revoke("north", deploy)
    assert set(membership.renew(deploy)) == {"south"}
    assert list(revoked_sites(deploy / "server", load_server(deploy / "server"))) == ["north"]


def with_notes(deploy: Path, version: str, protocol: str) -> None:
    """Let the folders say that another version made them, for another protocol, or for one without a number."""
    for path in deploy.glob("*/config.toml"):
        text = path.read_text().replace(f'fedloom = "{fedloom.__version__}"', f'fedloom = "{version}"')
        mine = f'protocol = "{PROTOCOL}"\n'
        assert mine in text
        path.write_text(text.replace(mine, f'protocol = "{protocol}"\n' if protocol else ""))


@pytest.mark.parametrize(("version", "protocol"), [("0.6.0", ""), (fedloom.__version__, f"{PROTOCOL + 1}")])
def test_folders_of_another_protocol_are_refused_with_the_step_that_is_needed(deploy, version, protocol):
    with_notes(deploy, version, protocol)
    of = rf" for protocol {protocol}" if protocol else ""
    said = rf"was made by Fedloom {version}{of} and this is .*: make new folders with fedloom deploy init"
    for refused in (
        lambda: membership.add("east", deploy),
        lambda: membership.revoke("north", deploy),
        lambda: membership.renew(deploy),
        lambda: run_site(deploy / "north", print),
        lambda: run_server(deploy / "server", print),
    ):
        with pytest.raises(FedloomError, match=said):
            refused()


@pytest.mark.parametrize(("version", "protocol"), [("0.6.0", f"{PROTOCOL}"), (fedloom.__version__, "")])
def test_folders_of_the_same_protocol_are_good_whatever_version_made_them(deploy, version, protocol):
    with_notes(deploy, version, protocol)
    for name in ("server", "north"):
        refuse_other_participant(deploy / name)
    membership.revoke("north", deploy)


def test_certificates_that_have_expired_are_renewed(deploy, monkeypatch):
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz or UTC) + timedelta(days=40)

    monkeypatch.setattr(certificates, "datetime", Later)
    monkeypatch.setattr(authority, "datetime", Later)
    with pytest.raises(FedloomError, match="expired on"):
        check_certificates(deploy / "north")
    membership.renew(deploy, days=30)
    check_all(deploy, "north", "south")


@pytest.mark.parametrize("days", [0, 10**6])
def test_days_that_cannot_be_are_refused(deploy, days):
    with pytest.raises(FedloomError, match=f"days={days}"):
        membership.renew(deploy, days=days)


# -- a kill at any step leaves folders that work


def start_all(deploy: Path, *names: str) -> None:
    """What each participant does first when it starts."""
    for name in ("server", *names):
        finish_change(deploy / name)
    check_all(deploy, *names)


def anew(made: Path, deploy: Path) -> Callable[[], None]:
    def copy() -> None:
        shutil.rmtree(deploy, ignore_errors=True)
        shutil.copytree(made, deploy)

    return copy


@pytest.mark.slow
def test_a_renewal_that_is_killed_leaves_folders_that_work(deploy_folder, tmp_path):
    deploy, lasting = tmp_path / "deploy", set()
    for _ in kills(lambda: membership.renew(deploy, days=100), anew(deploy_folder, deploy)):
        start_all(deploy, "north", "south")
        for name in ("north", "south"):
            check_pair(deploy / name / "client.pem", deploy / name / "client.key", deploy / "server/ca.crt")
        lasting.add(tuple(sorted(days_left(deploy / "server").values())))
    assert lasting == {(19, 19, 19), (99, 99, 99)}
    membership.renew(deploy, days=200)
    assert set(days_left(deploy / "server").values()) == {199}


@pytest.mark.slow
@pytest.mark.parametrize("site", ["east", "north"])
def test_an_addition_that_is_killed_leaves_folders_that_work(deploy_folder, tmp_path, site):
    """Also where the site was revoked, so that its keys at the server are replaced."""
    deploy, seen = tmp_path / "deploy", set()

    def prepare() -> None:
        anew(deploy_folder, deploy)()
        if site == "north":
            membership.revoke("north", deploy)
            shutil.rmtree(deploy / "north")

    for _ in kills(lambda: membership.add(site, deploy), prepare):
        start_all(deploy, "south")
        settings = load_server(deploy / "server")
        is_member = site in settings.everyone and site not in revoked_sites(deploy / "server", settings)
        seen.add(is_member)
        if is_member:
            start_all(deploy, site)
        else:
            shutil.rmtree(deploy / site, ignore_errors=True)  # what the error message says if it is there
            membership.add(site, deploy)
            start_all(deploy, "south", site)
    assert seen == {False, True}
