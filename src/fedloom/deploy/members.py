"""Which sites of a deployment may take part: their node keys, without those of revoked sites.

The server's folder has a site's public node key and its certificate in ``keys``, and ``revoked.json`` lists revoked
certificates by serial number. A site is revoked if its present certificate is listed; with a new one, from ``fedloom
deploy add``, it is back, and the old one stays refused. Revoking needs no key of the authority.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower.control import public_key
from fedloom.deploy.participant_folder import KEYS, SERVER_FILE
from fedloom.deploy.settings import ServerSettings
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.files.regular_file import read_regular

REVOKED = "revoked.json"


@dataclass(frozen=True)
class Revocation:
    """A certificate that is not accepted any more: whose, its serial number in hexadecimal digits, and since when."""

    site: str
    serial: str
    since: str


def revocations(folder: Path) -> list[Revocation]:
    """The revoked certificates of a server's folder."""
    try:
        return [Revocation(**one) for one in parse_json(read_regular(folder / REVOKED))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError):
        raise FedloomError(
            f"{folder / REVOKED} cannot be read: restore it, since it says which certificates are refused."
        ) from None


def save_revocations(folder: Path, revoked: Sequence[Revocation]) -> None:
    """Write the list of revoked certificates."""
    write_atomic(folder / REVOKED, json.dumps([asdict(one) for one in revoked], indent=1).encode())


def site_serial(folder: Path, name: str) -> str:
    """The serial number of a site's present certificate, as nginx writes it; empty if the server does not have it."""
    from fedloom.deploy.provision.certificates import serial_number

    path = folder / KEYS / f"{name}.pem"
    if not path.is_file():
        return ""
    digits = f"{serial_number(path):X}"
    return digits.zfill(len(digits) + len(digits) % 2)


def all_serials(folder: Path, name: str) -> list[str]:
    """The serial numbers of a site's certificates: those before a renewal, which are still valid, and the present."""
    path = folder / KEYS / f"{name}.serials"
    before = path.read_text().split() if path.is_file() else []
    return [*dict.fromkeys(serial for serial in (*before, site_serial(folder, name)) if serial)]


def serials_text(folder: Path, name: str) -> bytes:
    """The content of ``NAME.serials`` when a new certificate replaces a site's present one."""
    return "\n".join(all_serials(folder, name)).encode()


def revoked_sites(folder: Path, settings: ServerSettings) -> dict[str, str]:
    """The sites whose present certificate is revoked, with the moment since when."""
    since = {one.serial: one.since for one in revocations(folder)}
    if not since:
        return {}
    serials = {name: site_serial(folder, name) for name in settings.everyone}
    return {name: since[serial] for name, serial in serials.items() if serial in since}


def member_keys(folder: Path, settings: ServerSettings) -> dict[bytes, int]:
    """The public node keys of the sites that may take part, with their client numbers."""
    revoked = revoked_sites(folder, settings)
    return {
        public_key(folder / KEYS / f"{name}.pub"): client
        for client, name in enumerate(settings.everyone)
        if name not in revoked
    }


def stamp(folder: Path) -> list[tuple[str, int, int]]:
    """The state of the files of a server's folder that say who may take part: it differs when one of them does."""
    files = [folder / name for name in (SERVER_FILE, REVOKED, "ca.crt", "server.pem")]
    found = [(path, path.stat()) for path in [*files, *sorted((folder / KEYS).glob("*"))] if path.is_file()]
    return [(path.name, about.st_mtime_ns, about.st_size) for path, about in found]


class MemberKeys(Mapping[bytes, int]):
    """``member_keys`` of the sites of a run, read again whenever the server's folder has changed."""

    def __init__(self, folder: Path, settings: ServerSettings) -> None:
        self.folder, self.settings = folder, settings
        self.stamp: list[tuple[str, int, int]] = []
        self.keys_now: dict[bytes, int] = {}
        self.revoked: dict[int, str] = {}
        """The revoked sites by client number, with the reason."""
        self.expired: dict[int, tuple[datetime, str]] = {}
        """When each site's certificate, or the server's own, expires, and the reason to give after that."""

    def update(self) -> None:
        """Read the keys if they have changed."""
        now = stamp(self.folder)
        if now == self.stamp:
            return
        from fedloom.deploy.provision.certificates import expiry_dates

        revoked, names = revoked_sites(self.folder, self.settings), self.settings.everyone
        self.keys_now = member_keys(self.folder, self.settings)
        self.revoked = {names.index(name): f"revoked by the operator at {since}" for name, since in revoked.items()}
        dates = expiry_dates(self.folder)
        own = dates.pop("server")
        sites = {names.index(name): date for name, date in dates.items() if name in names}  # others were added later
        self.expired = {
            client: (own, f"the server's certificate expired on {own:%Y-%m-%d}: renew it with fedloom deploy renew")
            if own <= sites.get(client, own)
            else (sites[client], f"its certificate expired on {sites[client]:%Y-%m-%d}: fedloom deploy renew")
            for client in range(len(names))
        }
        self.stamp = now

    def reason(self, client: int) -> str:
        """Why a site cannot connect, if that is known here: it is revoked, or a certificate has expired; else empty."""
        self.update()
        until, text = self.expired[client]
        return self.revoked.get(client) or (text if until < datetime.now(UTC) else "")

    def __getitem__(self, key: bytes) -> int:
        self.update()
        return self.keys_now[key]

    def __iter__(self) -> Iterator[bytes]:
        self.update()
        return iter(self.keys_now)

    def __len__(self) -> int:
        self.update()
        return len(self.keys_now)
