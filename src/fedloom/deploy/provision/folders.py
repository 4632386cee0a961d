"""``fedloom deploy init``: write a folder for the server, one for each site, and the authority's.

Everything is checked before anything is written, and all folders appear at once or none does. Each participant's
secrets are in its own folder only. Paths inside a folder are relative to it, so it can be copied to its machine.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedloom.config.resolve import read_run_file, resolve
from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import append, file_digest
from fedloom.deploy.budget_rounds import budget_sentences
from fedloom.deploy.participant_folder import APPROVER_FILE, KEYS, SERVER_FILE, SITE_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.deployability import own_data_error
from fedloom.deploy.provision import readmes
from fedloom.deploy.provision.proxy import CONFIG as PROXY_FILE
from fedloom.deploy.provision.proxy import FOLDER as PROXY_FOLDER
from fedloom.deploy.provision.proxy import nginx_config
from fedloom.deploy.provision.systemd_unit import UNIT, Command, systemd_unit
from fedloom.deploy.settings import ServerSettings, SiteData, SiteSettings
from fedloom.registry.validation import validate
from fedloom.secure.sum_step import SumStep

if TYPE_CHECKING:
    from fedloom.deploy.provision.authority import Authority
    from fedloom.deploy.provision.key_request import KeyRequest

SERVER, AUTHORITY, APPROVER, START, README = "server", "authority", "approver", "start.sh", "README.md"
SIGNED = "signed"
"""The folder of copies of the sites' signatures, in the authority's folder: what each site got."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_MAX_DAYS = 3650


def init(
    run_file: Path,
    out: Path,
    sites: Sequence[str],
    *,
    evaluator: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8443,
    control_port: int = 8000,
    proxy: bool = True,
    rehearsal: bool = False,
    days: int = 365,
    requests: Sequence[Path] = (),
    approver: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Write the folders of a deployment.

    Args:
        out: A new folder, in which the participants' folders are written.
        sites: The names of the training sites, by client number.
        evaluator: The name of a site that only evaluates the shared model.
        host: The name or address by which sites reach the server.
        port: The port that sites connect to.
        control_port: The SuperLink's own port, on loopback.
        proxy: Whether sites connect through nginx.
        rehearsal: Whether every site uses its share of the run file's data.
        days: How long the certificates are valid.
        requests: Requests of sites that made their keys themselves; the folders of these have no private key.
        approver: Whether a new run needs the approval of somebody who has a key of his own.
        say: Gets a sentence per privacy budget of the run: how long it lasts.

    Returns:
        The server's folder, then the sites', then the approver's.
    """
    from fedloom.deploy.provision.authority import Authority
    from fedloom.deploy.provision.key_request import read_request

    everyone = [*sites, *([] if evaluator is None else [evaluator])]
    _check_names(sites, everyone)
    _check_host(host)
    check_days(days)
    made_there = {request.site: request for request in map(read_request, requests)}
    for name in sorted(made_there.keys() - set(everyone)):
        raise FedloomError(
            f"there is a request of site '{name}', which --clients does not name: add it, or leave it out."
        )
    server = validate(
        ServerSettings,
        {
            "sites": list(sites), "evaluator": evaluator, "host": host, "port": port, "control_port": control_port,
            "proxy": proxy,
        },
        "the server's settings",
    )  # fmt: skip
    if server.proxy and server.port == server.control_port:
        raise FedloomError(f"port {port} is given twice: the port for sites and the control port must differ.")
    if out.exists() or out.is_symlink():
        raise FedloomError(f"{out} exists already: choose a new folder, or remove that one if it is not needed.")
    blueprint, simulated = Blueprint.with_run(resolve(read_run_file(run_file), str(run_file)), sites)
    problem = None if rehearsal else own_data_error(blueprint.config, blueprint.schema)
    if problem is not None:
        raise FedloomError(f"{problem}, or give --rehearsal to try the deployment out on the run file's data.")
    task = blueprint.config.task
    settings = [
        SiteSettings(
            name=name,
            client=number,
            server=site_address(host, port),
            data=SiteData(rehearsal=rehearsal, target=task.target, ignore=list(task.ignore)),
        )
        for number, name in enumerate(everyone)
    ]
    _write_at_once(out, server, settings, blueprint, Authority.new(days), made_there, approver)
    for sentence in budget_sentences(simulated):
        say(sentence)
    return [out / name for name in (SERVER, *everyone, *([APPROVER] if approver else []))]


def check_days(days: int) -> None:
    """Raise an error if certificates cannot be valid for this long."""
    if not 1 <= days <= _MAX_DAYS:
        raise FedloomError(f"days={days}: certificates can be valid for 1 to {_MAX_DAYS} days.")


def _check_names(sites: Sequence[str], everyone: Sequence[str]) -> None:
    if not sites:
        raise FedloomError("a deployment needs at least one site: name them, for instance --clients site-1,site-2.")
    seen = {SERVER, AUTHORITY, APPROVER}
    for name in everyone:
        check_name(name)
        if name.casefold() in seen:
            raise FedloomError(f"site name '{name}' is given twice: every site, and the evaluator, needs its own name.")
        seen.add(name.casefold())


def check_name(name: str) -> None:
    """Raise an error if a site cannot have this name."""
    if not _NAME.fullmatch(name):
        raise FedloomError(
            f"site name {name!r}: use up to 64 letters, digits, '-', '_' and '.', a letter or a digit first."
        )
    if name.casefold() in (SERVER, AUTHORITY, APPROVER):
        raise FedloomError(f"site name '{name}': that name is the operator's; choose another.")


def _check_host(host: str) -> None:
    try:
        unreachable = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        unreachable = not _HOST.fullmatch(host) or host.replace(".", "").isdigit()
    if unreachable:
        raise FedloomError(
            f"host={host!r}: give the name or the address by which sites reach the server, without a port."
        )


def site_address(host: str, port: int) -> str:
    """The server's address in a site's settings."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _write_at_once(
    out: Path,
    server: ServerSettings,
    sites: Sequence[SiteSettings],
    blueprint: Blueprint,
    authority: Authority,
    requests: Mapping[str, KeyRequest],
    approver: bool,
) -> None:
    """Write into a temporary folder beside ``out`` and rename it when it is complete."""
    draft: Path | None = None
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        _write(draft, server, sites, blueprint, authority, requests, approver)
        draft.rename(out)
    except OSError as error:
        raise FedloomError(
            f"{out} cannot be written ({error.strerror}): choose a folder that is writable and has space."
        ) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def _write(
    draft: Path,
    server: ServerSettings,
    sites: Sequence[SiteSettings],
    blueprint: Blueprint,
    authority: Authority,
    requests: Mapping[str, KeyRequest],
    approver: bool,
) -> None:
    from fedloom.deploy.provision.run_approval import make_approver
    from fedloom.deploy.provision.signature import SIGNATURE, sign_folder
    from fedloom.deploy.sum_keys import write_shared_secret

    until = authority.certificate.not_valid_after_utc
    own = _make_folder(draft / AUTHORITY)
    authority.save(own)
    _make_folder(own / SIGNED)
    (own / README).write_text(readmes.authority_readme(until))

    vouched = {APPROVER_FILE: make_approver(_make_folder(draft / APPROVER))} if approver else {}
    home = _write_participant(draft / SERVER, authority, blueprint, "server", vouched)
    authority.certify_server(home, server.host)
    (home / SERVER_FILE).write_text(readmes.server_toml(server))
    (home / README).write_text(readmes.server_readme(server, until))
    if server.proxy:
        _make_folder(home / PROXY_FOLDER)
        (home / PROXY_FILE).write_text(nginx_config(server))
    append(home, "folder made", settings=file_digest(home / SERVER_FILE))
    _make_folder(home / KEYS)
    for site in sites:
        place, evaluates = draft / site.name, site.name == server.evaluator
        asked = requests.get(site.name)
        for name, content in write_site(place, site, blueprint, authority, asked, evaluates, vouched).items():
            (home / name).write_bytes(content)
        shutil.copyfile(place / SIGNATURE, own / SIGNED / f"{site.name}.json")
    for step in blueprint.config.channel:
        if isinstance(step, SumStep):
            write_shared_secret(step, [draft / site.name for site in sites if site.name != server.evaluator], home)
    sign_folder(home, authority)


def write_site(
    place: Path,
    site: SiteSettings,
    blueprint: Blueprint,
    authority: Authority,
    request: KeyRequest | None,
    evaluates: bool,
    vouched: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Write a site's folder.

    Args:
        place: The folder, which does not exist yet.
        authority: Signs the site's certificate and its folder.
        request: The site's request, if it made its keys itself.
        evaluates: Whether it only evaluates.
        vouched: More files that the authority signs: the approver's public key, if there is an approver.

    Returns:
        The files of its public key and its certificate in the server's folder.
    """
    from fedloom.deploy.provision.certificates import SITE
    from fedloom.deploy.provision.private_keys import NODE_KEY, make_node_key
    from fedloom.deploy.provision.signature import sign_folder

    _write_participant(place, authority, blueprint, "client", vouched, paths=site.data.rehearsal)
    if request is None:
        authority.certify_site(place, site.name)
        make_node_key(place / NODE_KEY, public := place / f"{NODE_KEY}.pub")
        node_key = public.read_bytes()
        public.unlink()
    else:
        (place / SITE).write_bytes(authority.sign_site(request.key, site.name))
        node_key = request.node_key
    (place / SITE_FILE).write_text(readmes.site_toml(site))
    method, until = str(blueprint.config.method["name"]), authority.certificate.not_valid_after_utc
    (place / README).write_text(readmes.site_readme(site, method, until, evaluates, request is not None))
    append(place, "folder made", settings=file_digest(place / SITE_FILE))
    sign_folder(place, authority)
    return {f"{KEYS}/{site.name}.pub": node_key, f"{KEYS}/{site.name}.pem": (place / SITE).read_bytes()}


def _write_participant(
    folder: Path,
    authority: Authority,
    blueprint: Blueprint,
    command: Command,
    vouched: Mapping[str, bytes],
    paths: bool = True,
) -> Path:
    """Write the files that every participant has; the folder."""
    blueprint.save(_make_folder(folder), command == "server", paths)
    authority.publish(folder)
    for name, content in vouched.items():
        (folder / name).write_bytes(content)
    start = folder / START
    start.write_text(readmes.start_script(command, "the server" if command == "server" else "this site"))
    start.chmod(0o755)
    (folder / UNIT).write_text(systemd_unit(command))
    return folder


def _make_folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path
