"""The authority of a deployment, which the operator keeps: it signs the certificates of the server and of the sites.

Renewed certificates are for the same keys, also the authority's own: so old and new ones fit together as long as both
are valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedloom.core.errors import FedloomError
from fedloom.deploy.provision.certificates import AUTHORITY, SERVER, SITE, general_name, load_certificate
from fedloom.deploy.provision.private_keys import (
    AUTHORITY_KEY,
    SERVER_KEY,
    SITE_KEY,
    load_private_key,
    make_private_key,
    new_key,
    pem_bytes,
)
from fedloom.files.atomic_write import write_private

LOCAL_NAME, LOCAL_ADDRESS = "localhost", "127.0.0.1"
"""Names that every server certificate has in addition to the host's: the proxy uses them to reach the SuperLink."""
_EARLIER = timedelta(days=1)
"""Certificates are valid from a day ago, since the clocks of machines differ."""


@dataclass(frozen=True)
class Authority:
    """Signs the certificates of one deployment; they are valid as long as its own."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @staticmethod
    def new(days: int) -> Authority:
        """An authority that is valid for this many days from now."""
        return Authority._of(new_key(), days)

    @staticmethod
    def load(folder: Path) -> Authority:
        """The authority in the operator's folder."""
        key = load_private_key(folder / AUTHORITY_KEY)
        certificate = load_certificate(folder / AUTHORITY)
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
        write_private(folder / AUTHORITY_KEY, pem_bytes(self.key))
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
        (folder / SERVER).write_bytes(self.sign_server(make_private_key(folder / SERVER_KEY), host))

    def certify_site(self, folder: Path, name: str) -> None:
        """Write ``client.pem`` and ``client.key`` with a site's name, valid for clients and not for servers."""
        (folder / SITE).write_bytes(self.sign_site(make_private_key(folder / SITE_KEY), name))

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
