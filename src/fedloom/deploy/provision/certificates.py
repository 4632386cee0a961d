"""The keys and certificates of a deployment, made by ``fedloom deploy init`` and renewed by ``fedloom deploy renew``.

The deployment has its own authority. It signs one certificate for the server (TLS) and one per site (a client
certificate, which the proxy requires). Each site also has a node key, by which Flower's SuperLink identifies it. All
keys are EC P-384. A private key is created with mode 600 and is in one participant's folder only. Renewed certificates
are for the same keys, also the authority's: so old and new ones fit together as long as both are valid.

Import this module inside functions: it needs the extra ``deploy``.
"""

from __future__ import annotations

import ipaddress
import shlex
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import KEYS, role_of
from fedloom.deploy.settings import load_server, load_site
from fedloom.runs.folder.atomic_write import write_private

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_ssh_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as missing:
    raise FedloomError(
        "deployment needs the packages flwr and cryptography: pip install 'fedloom[deploy]'."
    ) from missing

AUTHORITY, AUTHORITY_KEY = "ca.crt", "ca.key"
SERVER, SERVER_KEY = "server.pem", "server.key"
SITE, SITE_KEY = "client.pem", "client.key"
NODE_KEY = "node.key"
LOCAL_NAME, LOCAL_ADDRESS = "localhost", "127.0.0.1"
"""Names that every server certificate has in addition to the host's: the proxy uses them to reach the SuperLink."""
WARNING_DAYS = 30
"""A certificate that is valid for fewer days is warned of."""
_EARLIER = timedelta(days=1)
"""Certificates are valid from a day ago, since the clocks of machines differ."""
_RENEW = "renew it with fedloom deploy renew"
_ASK = "ask the operator for a renewed one (fedloom deploy renew)"


@dataclass(frozen=True)
class Authority:
    """Signs the certificates of one deployment; they are valid as long as its own."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @staticmethod
    def new(days: int) -> Authority:
        """An authority that is valid for this many days from now."""
        return Authority._of(_new_key(), days)

    @staticmethod
    def load(folder: Path) -> Authority:
        """The authority in the operator's folder."""
        key = _private_key(folder / AUTHORITY_KEY)
        certificate = _certificate(folder / AUTHORITY)
        if key.public_key() != certificate.public_key():
            raise FedloomError(f"{folder / AUTHORITY_KEY} does not belong to {AUTHORITY}: take both from one place.")
        return Authority(key, certificate)

    def renew(self, days: int) -> Authority:
        """The same authority, valid for this many days from now; what it signed before stays valid."""
        return Authority._of(self.key, days)

    @staticmethod
    def _of(key: ec.EllipticCurvePrivateKey, days: int) -> Authority:
        now, name = datetime.now(UTC), _name("fedloom authority")
        certificate = (
            _builder(name, name, key.public_key(), now - _EARLIER, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA384())
        )
        return Authority(key, certificate)

    def save(self, folder: Path) -> None:
        """Write ``ca.key`` and ``ca.crt`` into the operator's folder."""
        write_private(folder / AUTHORITY_KEY, _private_bytes(self.key))
        self.publish(folder)

    def publish(self, folder: Path) -> None:
        """Write ``ca.crt``, which is public, into a participant's folder."""
        (folder / AUTHORITY).write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return self.certificate.public_bytes(Encoding.PEM)

    def certify_server(self, folder: Path, host: str) -> None:
        """Write ``server.pem`` and ``server.key`` for a host's name or address, and for loopback."""
        (folder / SERVER).write_bytes(self.sign_server(new_private_key(folder / SERVER_KEY), host))

    def certify_site(self, folder: Path, name: str) -> None:
        """Write ``client.pem`` and ``client.key`` with a site's name, valid for clients and not for servers."""
        (folder / SITE).write_bytes(self.sign_site(new_private_key(folder / SITE_KEY), name))

    def sign_server(self, key: ec.EllipticCurvePublicKey, host: str) -> bytes:
        """A server's certificate for a key."""
        names = [general_name(name) for name in dict.fromkeys((host, LOCAL_NAME, LOCAL_ADDRESS))]
        return self._sign(key, "fedloom server", ExtendedKeyUsageOID.SERVER_AUTH, names)

    def sign_site(self, key: ec.EllipticCurvePublicKey, name: str) -> bytes:
        """A site's certificate for a key."""
        return self._sign(key, name, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def sign_data(self, data: bytes) -> bytes:
        """The authority's signature of some bytes."""
        return self.key.sign(data, ec.ECDSA(hashes.SHA384()))

    def _sign(
        self,
        key: ec.EllipticCurvePublicKey,
        name: str,
        purpose: x509.ObjectIdentifier,
        names: list[x509.GeneralName],
    ) -> bytes:
        mine = self.certificate
        builder = (
            _builder(_name(name), mine.subject, key, mine.not_valid_before_utc, mine.not_valid_after_utc)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA384()).public_bytes(Encoding.PEM)


def new_private_key(path: Path) -> ec.EllipticCurvePublicKey:
    """Write a new private key, in PEM, and return its public half."""
    key = _new_key()
    write_private(path, _private_bytes(key))
    return key.public_key()


def make_node_key(private: Path, public: Path) -> None:
    """Write a site's node key, with which the SuperNode signs, and its public half, which the SuperLink registers."""
    key = _new_key()
    write_private(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")


def general_name(host: str) -> x509.GeneralName:
    """A host's entry in a certificate: an address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def check_certificates(folder: Path) -> None:
    """Raise an error if a key or a certificate in a participant's folder is missing, damaged or expired."""
    if role_of(folder) == "server":
        check_pair(folder / SERVER, folder / SERVER_KEY, folder / AUTHORITY)
        _check_host(folder)
        return
    check_pair(folder / SITE, folder / SITE_KEY, folder / AUTHORITY)
    try:
        load_ssh_private_key(key_bytes(folder / NODE_KEY), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise FedloomError(f"{folder / NODE_KEY} is not a private key in OpenSSH's format: copy it again.") from None


def public_key_of(path: Path) -> ec.EllipticCurvePublicKey:
    """The public key of the certificate in a file."""
    key = _certificate(path).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise FedloomError(f"{path} is not a certificate of this deployment: its key is not an EC key.")
    return key


def serial_number(path: Path) -> int:
    """The serial number of the certificate in a file, which no other certificate of its authority has."""
    return _certificate(path).serial_number


def expiry_dates(folder: Path) -> dict[str, datetime]:
    """When certificates end, by name: a site's own; the server's and those of its sites at the server.

    A certificate ends with its authority's, if that is earlier.
    """
    if role_of(folder) == "server":
        sites = {name: folder / KEYS / f"{name}.pem" for name in load_server(folder).everyone}
        files = {"server": folder / SERVER} | {name: path for name, path in sites.items() if path.is_file()}
    else:
        files = {load_site(folder).name: folder / SITE}
    last = _certificate(folder / AUTHORITY).not_valid_after_utc
    return {name: min(last, _certificate(path).not_valid_after_utc) for name, path in files.items()}


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


def check_pair(path: Path, key_path: Path, authority_path: Path) -> None:
    """Raise an error if a certificate is not one of an authority for a key, or not valid today.

    Args:
        path: The certificate.
        key_path: The private key.
        authority_path: The authority's certificate.
    """
    authority, certificate, now = _certificate(authority_path), _certificate(path), datetime.now(UTC)
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
    if _private_key(key_path).public_key() != certificate.public_key():
        raise FedloomError(f"{key_path} does not belong to {path}: take both from the same deployment.")


def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(key_bytes(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise FedloomError(f"{path} is not a private key in PEM format: copy it again.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise FedloomError(f"{path} is not an EC key: take the one of this deployment.")
    return key


def _check_host(folder: Path) -> None:
    """Check that the certificate is for the name by which sites reach the server."""
    host, path = load_server(folder).host, folder / SERVER
    names = _certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if general_name(host) not in names:
        known = ", ".join(str(name.value) for name in names)
        raise FedloomError(f"{path} is not for host '{host}' but for {known}: change host in deploy.toml, or {_RENEW}.")


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_bytes(path))
    except ValueError:
        raise FedloomError(f"{path} is not a certificate in PEM format: copy it again.") from None


def key_bytes(path: Path) -> bytes:
    """The content of a private key's file; refused if others than its owner can read it."""
    data = _bytes(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise FedloomError(
            f"{path} is open to other users of this machine (mode {mode:o}): chmod 600 {shlex.quote(str(path))}"
        )
    return data


def _bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise FedloomError(f"{path} cannot be read (it is not a file): copy the whole folder, as its owner.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedloomError(f"{path} cannot be read ({error.strerror}): copy the whole folder, as its owner.") from None


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, since: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
