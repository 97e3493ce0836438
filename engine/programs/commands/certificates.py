"""``python -m engine certificates``: an authority and certificates of servers and clients, for evaluation.

Production has an authority of its own. Keys are on the curve P-256; files are PEM, those of keys for their owner alone.
"""

import argparse
import datetime
import ipaddress
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

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

from engine.base.clock import Clock, SystemClock
from engine.programs.commands.private_files import write_private

AUTHORITY = "authority"
EARLY = datetime.timedelta(minutes=5)
"""Time before now at which certificates begin, because clocks differ."""


def main(arguments: Sequence[str], clock: Clock | None = None) -> int:
    """Run the command and return its exit status: 0, 1 when it failed, 2 for wrong usage."""
    try:
        given = _parser().parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    wall_ms = (clock or SystemClock()).wall_ms()
    now = datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC)
    try:
        run: Callable[[argparse.Namespace, datetime.datetime], None] = given.run
        run(given, now)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except (ValueError, TypeError) as error:
        print(f"{given.directory}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine certificates", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser(AUTHORITY, help="make an authority: authority.cert.pem, .key.pem")
    _add_common(command, days=3650)
    command.set_defaults(run=_authority)
    command = commands.add_parser("server", help="make the certificate of a server")
    _add_common(command, days=365)
    command.add_argument("name", help="name of the files, and the common name")
    command.add_argument(
        "--host", action="append", required=True, help="name or address of the server; repeatable"
    )
    command.set_defaults(run=_server)
    command = commands.add_parser("client", help="make the certificate of a client")
    _add_common(command, days=365)
    command.add_argument("name", metavar="role", help="role: name of the files, and common name")
    command.set_defaults(run=_client)
    return parser


def _add_common(command: argparse.ArgumentParser, days: int) -> None:
    command.add_argument(
        "-d", "--directory", type=Path, default=Path("certificates"), help="folder of the files"
    )
    command.add_argument("--days", type=_days, default=days, help="days of validity")


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= 36_500:
        raise ValueError("days must be 1 to 36500")
    return days


def _authority(given: argparse.Namespace, now: datetime.datetime) -> None:
    given.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Magnetar evaluation authority")
    builder = (
        _builder(name, name, key.public_key(), now, given.days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    _write(given.directory, AUTHORITY, builder.sign(key, hashes.SHA256()), key)


def _server(given: argparse.Namespace, now: datetime.datetime) -> None:
    alternatives = x509.SubjectAlternativeName([_general(host) for host in given.host])
    _leaf(
        given, now, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH], alternatives
    )


def _client(given: argparse.Namespace, now: datetime.datetime) -> None:
    _leaf(given, now, [ExtendedKeyUsageOID.CLIENT_AUTH], None)


def _leaf(
    given: argparse.Namespace,
    now: datetime.datetime,
    purposes: list[x509.ObjectIdentifier],
    alternatives: x509.SubjectAlternativeName | None,
) -> None:
    """Write a certificate that the folder's authority has signed. Raises OSError, ValueError."""
    if given.name == AUTHORITY or "/" in given.name or given.name.startswith("."):
        raise ValueError(f"{given.name!r} cannot be the name of a file here")
    issuer = x509.load_pem_x509_certificate((given.directory / "authority.cert.pem").read_bytes())
    signer = load_pem_private_key((given.directory / "authority.key.pem").read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority was not made by this command")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(given.name), issuer.subject, key.public_key(), now, given.days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    )
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    _write(given.directory, given.name, builder.sign(signer, hashes.SHA256()), key)


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


def _write(
    directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(directory / f"{name}.key.pem", private)
    write_private(directory / f"{name}.cert.pem", certificate.public_bytes(Encoding.PEM))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
