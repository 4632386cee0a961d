"""``fedloom deploy add``, ``revoke`` and ``renew``: change who belongs to a deployment, in the folders of ``init``.

A server that is running takes the changes by itself (``operate/admission.py``), wherever they come from: from these
commands, or from a folder that was changed elsewhere and copied. A run's number of sites is fixed when it begins, so a
site that is new takes part in the next run, and a site that was revoked is back from the next round on.
"""

from __future__ import annotations

import hashlib
import shutil
from datetime import UTC, datetime
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy import audit_log, members
from fedloom.deploy.participant_folder import KEYS, RUN, SERVER_FILE
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision import folders, readmes
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.certificates import AUTHORITY, SERVER, SITE, public_key_of
from fedloom.deploy.provision.change_files import CHANGE, change_files, finish_change
from fedloom.deploy.provision.key_request import KeyRequest, read_request
from fedloom.deploy.provision.run_approval import approver_file
from fedloom.deploy.provision.signature import (
    RENEWED,
    SIGNATURE,
    signature_bytes,
    signed_digests,
    with_signature,
)
from fedloom.deploy.settings import ServerSettings, SiteData, SiteSettings, load_server, refuse_other_participant
from fedloom.deploy.sum_keys import SERVERS_PART
from fedloom.secure.sum_step import SumStep


def find_server(folder: Path) -> Path:
    """The server's folder: the one that is given, or the one in the folder that ``init`` wrote; an interrupted change
    of it is finished."""
    for place in (folder, folder / folders.SERVER):
        if (place / SERVER_FILE).is_file():
            finish_change(place)
            return place
    raise FedloomError(
        f"{folder} is neither a server's folder nor one that fedloom deploy init wrote: give one of them, for instance "
        "deploy or deploy/server."
    )


def find_authority(folder: Path, authority: Path | None) -> Path:
    """The authority's folder: the one that is given, or the one beside the server's folder."""
    place = authority or find_server(folder).resolve().parent / folders.AUTHORITY
    if not (place / AUTHORITY).is_file():
        raise FedloomError(
            f"{place} is not the authority's folder: this is done where it is, or with --authority FOLDER."
        )
    finish_change(place)
    return place


def revoke(site: str, folder: Path) -> None:
    """Revoke a site: its certificate and its node key are not accepted any more.

    Args:
        site: The site's name.
        folder: The server's folder, or the one that ``init`` wrote.
    """
    home = find_server(folder)
    refuse_other_participant(home)
    settings = load_server(home)
    if site not in settings.everyone:
        raise FedloomError(f"there is no site '{site}': the sites are {', '.join(settings.everyone)}.")
    serial = members.site_serial(home, site)
    if not serial:
        raise FedloomError(
            f"{home / KEYS / site}.pem is missing, so the certificate of {site} is unknown: put the site's client.pem "
            "there."
        )
    revoked = members.revocations(home)
    if serial in {one.serial for one in revoked}:
        raise FedloomError(f"{site} is revoked already: fedloom deploy add {site} gives it new keys.")
    moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    known = {one.serial for one in revoked}
    serials = [serial for serial in members.all_serials(home, site) if serial not in known]
    members.save_revocations(home, [*revoked, *(members.Revocation(site, serial, moment) for serial in serials)])
    audit_log.append(home, "site revoked", site=site)


def add(
    site: str, folder: Path, authority: Path | None = None, request: Path | None = None, rehearsal: bool = False
) -> Path:
    """Add a site, or bring back one that was revoked; its folder.

    Args:
        site: The site's name.
        folder: The folder that ``init`` wrote, or the server's.
        authority: The authority's folder, if it is not beside the server's.
        request: The site's request, if it made its keys itself.
        rehearsal: Whether it uses a share of the run file's data.
    """
    home, own = find_server(folder), find_authority(folder, authority)
    refuse_other_participant(home)
    settings, signer = load_server(home), Authority.load(own)
    folders.check_name(site)
    asked = _read_own_request(site, request)
    place = home.resolve().parent / site
    if place.exists() or place.is_symlink():
        raise FedloomError(f"{place} exists already: move it away, since the site gets a new folder.")
    blueprint = Blueprint.load(home)
    adds_up = any(isinstance(step, SumStep) for step in blueprint.config.channel)
    if adds_up and (site not in settings.everyone or (home / SERVERS_PART).exists()):
        raise FedloomError(
            f"site '{site}' cannot be added: the sites of this run add up their updates, and know each other by lists "
            "and keys that they have; make the deployment again, with all sites."
        )
    if site in settings.everyone:
        if site not in members.revoked_sites(home, settings):
            raise FedloomError(f"{site} belongs to this deployment already: revoke it first if its keys must change.")
    else:
        settings = _with_site(settings, site)
    server = folders.site_address(settings.host, settings.port)
    client, task = settings.everyone.index(site), blueprint.config.task
    data = SiteData(rehearsal=rehearsal, target=task.target, ignore=list(task.ignore))
    site_settings = SiteSettings(name=site, client=client, server=server, data=data)
    run = blueprint.with_sites(settings.sites[: max(client + 1, len(blueprint.sites))])
    evaluates = site == settings.evaluator
    draft = place.with_name(f".{site}.part")
    try:
        shutil.rmtree(draft, ignore_errors=True)  # left by a kill
        keys = folders.write_site(draft, site_settings, run, signer, asked, evaluates, approver_file(home))
        theirs = {**keys, SERVER_FILE: readmes.server_toml(settings).encode()}
        change_files(own, {f"{folders.SIGNED}/{site}.json": (draft / SIGNATURE).read_bytes()})
        draft.rename(place)
        change_files(home, with_signature(home, theirs, signer))
    except OSError as error:
        if (home / CHANGE).exists():  # the server's change is decided, and is finished when there is room
            raise FedloomError(
                f"{home} cannot be written ({error.strerror}): make room; the next command finishes it, and {place} is "
                "the site's folder."
            ) from error
        for path in (draft, place):
            shutil.rmtree(path, ignore_errors=True)
        raise FedloomError(f"{place} cannot be written ({error.strerror}): make room, or choose another.") from error
    audit_log.append(home, "site added", site=site, client=client)
    return place


def takes_part_in(site: str, folder: Path) -> str:
    """From when on a site that was added takes part, in words."""
    home = find_server(folder)
    client = load_server(home).everyone.index(site)
    if not (home / RUN / "config.toml").exists() or client < len(Blueprint.load(home).sites):
        return "from the next round on"
    return "in the next run (fedloom deploy run --new), since a run's number of sites is fixed when it begins"


def renew(folder: Path, authority: Path | None = None, days: int = 365) -> dict[str, Path]:
    """Make new certificates for the server and all sites, for the same keys.

    Args:
        folder: The folder that ``init`` wrote, or the server's.
        authority: The authority's folder, if it is not beside the server's.
        days: How long the certificates are valid.

    Returns:
        The folder of each site's new files, by name.
    """
    folders.check_days(days)
    home, own = find_server(folder), find_authority(folder, authority)
    refuse_other_participant(home)
    settings, signer = load_server(home), Authority.load(own).renew(days)
    revoked, beside = members.revoked_sites(home, settings), home.resolve().parent
    certificates = {
        name: signer.sign_site(public_key_of(_certificate_of(home, name)), name)
        for name in settings.everyone
        if name not in revoked
    }
    digests = {name: signed_digests(own / folders.SIGNED / f"{name}.json") for name in certificates}
    server = signer.sign_server(public_key_of(home / SERVER), settings.host)
    new = {name: _renewed_files(pem, digests[name], signer) for name, pem in certificates.items()}
    mine, theirs = {AUTHORITY: signer.pem}, {AUTHORITY: signer.pem, SERVER: server}
    for name, files in new.items():
        mine[f"{folders.SIGNED}/{name}.json"] = files[SIGNATURE]
        theirs |= {f"{RENEWED}/{name}/{file}": content for file, content in files.items()}
        theirs |= {f"{KEYS}/{name}.serials": members.serials_text(home, name), f"{KEYS}/{name}.pem": files[SITE]}
    try:
        change_files(own, mine)  # old and new certificates fit together: a kill between two folders does no harm
        change_files(home, with_signature(home, theirs, signer))
        for name, files in new.items():
            if (beside / name).is_dir():
                change_files(beside / name, files)
    except OSError as error:
        raise FedloomError(f"the folders cannot be written ({error.strerror}): make room, and repeat it.") from error
    audit_log.append(home, "certificates renewed", days=days)
    return {name: home / RENEWED / name for name in new}


def _read_own_request(site: str, path: Path | None) -> KeyRequest | None:
    if path is None:
        return None
    request = read_request(path)
    if request.site != site:
        raise FedloomError(f"{path} is the request of '{request.site}', not of '{site}': give the right one.")
    return request


def _with_site(settings: ServerSettings, site: str) -> ServerSettings:
    if settings.evaluator is not None:
        raise FedloomError(
            f"{site} cannot be added: the number of the evaluator ({settings.evaluator}) comes after those of the "
            "sites and is in its folder; make new folders with fedloom deploy init."
        )
    if site.casefold() in {name.casefold() for name in settings.sites}:
        raise FedloomError(f"site name '{site}' differs from an existing name only in capital letters: choose another.")
    return settings.model_copy(update={"sites": [*settings.sites, site]})


def _certificate_of(home: Path, name: str) -> Path:
    """The server's copy of a site's present certificate."""
    path = home / KEYS / f"{name}.pem"
    if not path.is_file():
        raise FedloomError(f"{path} is missing, so the key of {name} is unknown: put the site's client.pem there.")
    return path


def _renewed_files(certificate: bytes, digests: dict[str, str], signer: Authority) -> dict[str, bytes]:
    """A site's new files: its certificate, the authority's, and the signature of the folder with them."""
    files = {SITE: certificate, AUTHORITY: signer.pem}
    new = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**files, SIGNATURE: signature_bytes(digests | new, signer)}
