"""The certificates in a participant's folder: whether they are whole, and how long they are valid.

A deployment has its own authority (``authority.py``). The server has a certificate for TLS, and each site a client
certificate, which the proxy requires. Flower's SuperLink identifies a site by its node key.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import KEYS, role_of
from fedloom.deploy.provision.private_keys import (
    NODE_KEY,
    SERVER_KEY,
    SITE_KEY,
    check_node_key,
    load_private_key,
    read_bytes,
)
from fedloom.deploy.settings import load_server, load_site

AUTHORITY, SERVER, SITE = "ca.crt", "server.pem", "client.pem"
WARNING_DAYS = 30
"""A certificate that is valid for fewer days is warned of."""
_RENEW = "renew it with fedloom deploy renew"
_ASK = "ask the operator for a renewed one (fedloom deploy renew)"


def check_certificates(folder: Path) -> None:
    """Raise an error if a key or a certificate in a participant's folder is missing, damaged or expired."""
    if role_of(folder) == "server":
        check_pair(folder / SERVER, folder / SERVER_KEY, folder / AUTHORITY)
        _check_host(folder)
        return
    check_pair(folder / SITE, folder / SITE_KEY, folder / AUTHORITY)
    check_node_key(folder / NODE_KEY)


def check_pair(path: Path, key_path: Path, authority_path: Path) -> None:
    """Raise an error if a certificate is not one of an authority for a key, or not valid today.

    Args:
        path: The certificate.
    """
    authority, certificate, now = load_certificate(authority_path), load_certificate(path), datetime.now(UTC)
    for whose, checked in ((authority_path, authority), (path, certificate)):
        since, until = checked.not_valid_before_utc, checked.not_valid_after_utc
        if now > until:
            remedy = _RENEW if path.name == SERVER else _ASK
            raise FedloomError(f"{whose} expired on {until:%Y-%m-%d}: {remedy}, or set this machine's clock.")
        if now < since:
            raise FedloomError(f"{whose} is not valid before {since:%Y-%m-%d}: set this machine's clock.")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        raise FedloomError(
            f"{path} was not signed by the authority of {authority_path}: take both from the same deployment."
        ) from None
    if load_private_key(key_path).public_key() != certificate.public_key():
        raise FedloomError(f"{key_path} does not belong to {path}: take both from the same deployment.")


def _check_host(folder: Path) -> None:
    """Check that the certificate is for the name by which sites reach the server."""
    host, path = load_server(folder).host, folder / SERVER
    names = load_certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if general_name(host) not in names:
        known = ", ".join(str(name.value) for name in names)
        raise FedloomError(f"{path} is not for host '{host}' but for {known}: change host in deploy.toml, or {_RENEW}.")


def load_certificate(path: Path) -> x509.Certificate:
    """The certificate in a file."""
    try:
        return x509.load_pem_x509_certificate(read_bytes(path))
    except ValueError:
        raise FedloomError(f"{path} is not a certificate in PEM format: copy it again.") from None


def general_name(host: str) -> x509.GeneralName:
    """A host's entry in a certificate: an address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def public_key_of(path: Path) -> ec.EllipticCurvePublicKey:
    """The public key of the certificate in a file."""
    key = load_certificate(path).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise FedloomError(f"{path} is not a certificate of this deployment: its key is not an EC key.")
    return key


def serial_number(path: Path) -> int:
    """The serial number of the certificate in a file, which no other certificate of its authority has."""
    return load_certificate(path).serial_number


def expiry_dates(folder: Path) -> dict[str, datetime]:
    """When certificates end, by name: a site's own; the server's and those of its sites at the server.

    A certificate ends with its authority's, if that is earlier.
    """
    if role_of(folder) == "server":
        sites = {name: folder / KEYS / f"{name}.pem" for name in load_server(folder).everyone}
        files = {"server": folder / SERVER} | {name: path for name, path in sites.items() if path.is_file()}
    else:
        files = {load_site(folder).name: folder / SITE}
    last = load_certificate(folder / AUTHORITY).not_valid_after_utc
    return {name: min(last, load_certificate(path).not_valid_after_utc) for name, path in files.items()}


def days_left(folder: Path) -> dict[str, int]:
    """Whole days for which certificates are still valid, by name, as in ``expiry_dates``; negative after the end."""
    now = datetime.now(UTC)
    return {name: (until - now).days for name, until in expiry_dates(folder).items()}


def expiry_warnings(folder: Path) -> dict[str, str]:
    """A sentence for each certificate that has expired or will within ``WARNING_DAYS``, by name."""
    remedy, dates = (_RENEW if role_of(folder) == "server" else _ASK), expiry_dates(folder)
    return {
        name: f"The certificate of {name} {_expiry(dates[name], days)}: {remedy}."
        for name, days in days_left(folder).items()
        if days < WARNING_DAYS
    }


def _expiry(until: datetime, days: int) -> str:
    if days < 0:
        return f"expired on {until:%Y-%m-%d}"
    return f"expires on {until:%Y-%m-%d}, in {days} {'day' if days == 1 else 'days'}"
