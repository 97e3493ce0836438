"""Certificates made for a test: an authority, and what it signs, as PEM files."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFE = datetime.timedelta(days=1)


class Files(NamedTuple):
    """Paths of a certificate and of its key."""

    cert: str
    key: str


class Authority:
    """Signs certificates into ``directory``; ``cert`` is the path of its own."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.cert = self._write(name, builder, self._key).cert

    def issue(
        self,
        name: str,
        *hosts: str,
        common_name: bool = True,
        unit: str = "",
        begins: datetime.timedelta = -LIFE,
        ends: datetime.timedelta = LIFE,
        usage: x509.ObjectIdentifier | None = None,
    ) -> Files:
        """Sign a certificate for ``hosts``, names or addresses, in files called after ``name``.

        ``unit`` is the organizational unit; ``begins`` and ``ends`` count from now; ``usage`` is the only purpose that
        the certificate is for, None for any.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        kind = NameOID.COMMON_NAME if common_name else NameOID.ORGANIZATION_NAME
        attributes = [x509.NameAttribute(kind, name)]
        if unit:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
        subject = x509.Name(attributes)
        alternatives = x509.SubjectAlternativeName([_general(host) for host in hosts or (name,)])
        builder = self._builder(subject, key, begins, ends)
        builder = builder.add_extension(alternatives, critical=False)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return self._write(name, builder, key)

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        begins: datetime.timedelta = -LIFE,
        ends: datetime.timedelta = LIFE,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
        )

    def _write(
        self, name: str, builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey
    ) -> Files:
        files = Files(*(str(self._directory / f"{name}.{kind}.pem") for kind in ("cert", "key")))
        certificate = builder.sign(self._key, hashes.SHA256())
        Path(files.cert).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        Path(files.key).touch(mode=0o600)  # an open key is reported, which tests of logs would meet
        Path(files.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
