"""An authority and the certificates that it signs, for evaluation: X.509 on the curve P-256, PEM. Pure."""

import datetime
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

EARLY = datetime.timedelta(minutes=5)
"""Time before now at which certificates begin, because clocks differ."""


class Issued(NamedTuple):
    """A certificate and its private key, PEM each."""

    certificate: bytes
    key: bytes


def new_authority(now: datetime.datetime, days: int) -> Issued:
    """Return an authority that is valid from ``now`` on for ``days``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Magnetar evaluation authority")
    builder = (
        _builder(name, name, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _issued(builder.sign(key, hashes.SHA256()), key)


def server_certificate(
    authority: Issued, name: str, hosts: Sequence[str], now: datetime.datetime, days: int
) -> Issued:
    """Return the certificate of a server that clients reach as ``hosts``: names or addresses. Raises ValueError."""
    alternatives = x509.SubjectAlternativeName([_general(host) for host in hosts])
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    return _leaf(authority, _name(name), now, days, purposes, alternatives)


def client_certificate(
    authority: Issued, role: str, now: datetime.datetime, days: int, unit: str = ""
) -> Issued:
    """Return the certificate of a client with a role. ``unit`` is the organizational unit, by which bookies know roles,
    such as ``0:broker``. Raises ValueError."""
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    return _leaf(authority, _name(role, unit), now, days, purposes, None)


def hosts_of(certificate: x509.Certificate) -> set[str]:
    """Return the names and addresses of the server that a certificate is for."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in extension.value}


def _leaf(
    authority: Issued,
    subject: x509.Name,
    now: datetime.datetime,
    days: int,
    purposes: list[x509.ObjectIdentifier],
    alternatives: x509.SubjectAlternativeName | None,
) -> Issued:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = load_pem_private_key(authority.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority was not made by this program")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return _issued(builder.sign(signer, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Issued(certificate.public_bytes(Encoding.PEM), private)


def _name(text: str, unit: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, text)]
    if unit:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit))
    return x509.Name(attributes)


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
