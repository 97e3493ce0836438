"""``python -m engine tokens``: keys and tokens for the method ``token``, with the options of ``pulsar tokens``."""

import argparse
import asyncio
import base64
import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_texts import secret_key, signing_key, verification_key
from engine.auth.authenticators.signing_keys import (
    ALGORITHMS,
    EC_ALGORITHMS,
    RSA_ALGORITHMS,
    SECRET_ALGORITHMS,
    SigningKey,
    VerificationKey,
)
from engine.auth.credentials import AuthenticationFailed
from engine.auth.private_files import write_private
from engine.base.clock import Clock, SystemClock
from engine.base.entropy import Entropy, RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.log import LogSettings
from engine.base.settings import Program, ProgramParser
from engine.metadata.apart.stores import connect_stores
from engine.metadata.connect import FORM
from engine.metadata.settings import MetadataSettings
from engine.metadata.store import MetadataStore
from engine.tenancy.access.revoked_tokens import revoke_token, revoked_tokens

TOKEN_BYTES_MAX = 64 << 10
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
_SECRET_HELP = "secret key: file:///path, data:;base64,…, or Base64"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of the commands that use the metadata store."""

    metadata: MetadataSettings
    log: LogSettings


STORE_PROGRAM = Program("command", StoreSettings)


class CommandError(Exception):
    """The command cannot be carried out; the text is one line for the operator."""


def main(
    arguments: Sequence[str], clock: Clock | None = None, entropy: Entropy | None = None
) -> int:
    """Run the command and return its exit status: 0, 1 when it failed, 2 for wrong usage."""
    try:
        given = _parser().parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    try:
        run: Callable[[argparse.Namespace, Clock, Entropy], None] = given.run
        run(given, clock or SystemClock(), entropy or RandomEntropy())
    except AuthenticationFailed as error:
        print(error.reason, file=sys.stderr)
        return 1
    except (CommandError, MagnetarError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = ProgramParser(prog="magnetar tokens", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    command = commands.add_parser("create-secret-key", help="make a secret key")
    _add_algorithm(command, "HS256", SECRET_ALGORITHMS)
    command.add_argument("-o", "--output", type=Path, help="file to write; else standard output")
    command.add_argument("-b", "--base64", action="store_true", help="write it as Base64")
    command.set_defaults(run=_create_secret_key)

    command = commands.add_parser("create-key-pair", help="make a private and a public key (DER)")
    _add_algorithm(command, "RS256", (*RSA_ALGORITHMS, *EC_ALGORITHMS))
    command.add_argument("--output-private-key", type=Path, required=True)
    command.add_argument("--output-public-key", type=Path, required=True)
    command.set_defaults(run=_create_key_pair)

    command = commands.add_parser("create", help="print a token")
    _add_algorithm(command, None, ALGORITHMS)
    command.add_argument("-s", "--subject", required=True, help="role")
    command.add_argument(
        "-e", "--expiry-time", help="time that it lasts, such as 1h, 3d, 10y; none by default"
    )
    command.add_argument("-sk", "--secret-key", help=_SECRET_HELP)
    command.add_argument("-pk", "--private-key", help="private key, in the same forms")
    command.add_argument(
        "-hs", "--headers", action="append", default=[], metavar="KEY=VALUE", help="further header"
    )
    command.add_argument(
        "--no-token-id",
        action="store_true",
        help="leave the id (jti) out, so that equal arguments make equal tokens",
    )
    command.set_defaults(run=_create)

    command = commands.add_parser("revoke", help="revoke a token in the metadata store")
    _add_token(command)
    command.add_argument(
        "--token-id", help="id of the token instead of the token itself: its jti, or sha256:…"
    )
    command.add_argument(
        "--expires-at",
        help="end of the token of --token-id, such as 2027-01-31T12:00:00Z; without it the record stays",
    )
    _add_metadata_url(command)
    command.set_defaults(run=_revoke)
    command = commands.add_parser("revoked", help="list the ids of the revoked tokens")
    _add_metadata_url(command)
    command.set_defaults(run=_revoked)

    for name, text in (("show", "print a token's contents"), ("validate", "check a token")):
        command = commands.add_parser(name, help=text)
        _add_token(command)
        command.set_defaults(run=_show)
    _add_algorithm(command, None, ALGORITHMS)
    command.add_argument("-sk", "--secret-key", help=_SECRET_HELP)
    command.add_argument("-pk", "--public-key", help="public key, in the same forms")
    command.set_defaults(run=_validate)
    return parser


def _add_algorithm(
    command: argparse.ArgumentParser, default: str | None, choices: tuple[str, ...]
) -> None:
    command.add_argument("-a", "--signature-algorithm", default=default, choices=choices)


def _add_token(command: argparse.ArgumentParser) -> None:
    command.add_argument("token", nargs="?", help="the token, or file:///path of one")
    command.add_argument("-i", "--stdin", action="store_true", help="read it from there")
    command.add_argument("-f", "--token-file", type=Path, help="read it from this file")


def _add_metadata_url(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metadata-url", default="", help=f"{FORM}; else the setting of this name counts"
    )


def _create_secret_key(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    key = bytes.fromhex(entropy.hex(int(given.signature_algorithm[2:]) // 8))
    data = base64.b64encode(key) if given.base64 else key
    if given.output is not None:
        write_private(given.output, data)
    else:
        sys.stdout.buffer.write(data + b"\n" if given.base64 else data)
        sys.stdout.flush()


def _create_key_pair(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    curve = _CURVES.get(given.signature_algorithm)
    key = ec.generate_private_key(curve) if curve else rsa.generate_private_key(65537, 2048)
    write_private(
        given.output_private_key,
        key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
    )
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    write_private(given.output_public_key, public, mode=0o644)


def _create(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    key: SigningKey
    if given.secret_key is not None:
        key = secret_key(given.secret_key, "--secret-key")
    elif given.private_key is not None:
        key = signing_key(given.private_key, "--private-key")
    else:
        raise CommandError("Either --secret-key or --private-key needs to be passed")
    claims: dict[str, object] = {"sub": given.subject}
    if given.expiry_time is not None:
        claims["exp"] = clock.wall_ms() // 1000 + _seconds(given.expiry_time)
    if not given.no_token_id:
        claims["jti"] = entropy.hex(16)
    headers = dict(_header(text) for text in given.headers)
    algorithm = given.signature_algorithm or key.algorithms[0]
    print(jws.sign(claims, key, algorithm, headers))


def _show(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    for part in jws.unsigned_parts(_token(given)):
        print(part)


def _validate(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    key: VerificationKey
    if given.secret_key is not None:
        key = secret_key(given.secret_key, "--secret-key")
    elif given.public_key is not None:
        key = verification_key(given.public_key, "--public-key")
    else:
        raise CommandError("Either --secret-key or --public-key needs to be passed")
    text = _token(given)
    token = jws.parse(text)
    if given.signature_algorithm not in (None, token.algorithm):
        raise CommandError(f"the token is signed by {token.algorithm[:20]!r}")
    jws.check_times(jws.verify(token, key), clock.wall_ms() / 1000)
    print(jws.unsigned_parts(text)[1])


def _revoke(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    token_id, expires_at = given.token_id, None
    if token_id is None:
        if given.expires_at is not None:
            raise CommandError("--expires-at is for --token-id: a token states its end itself")
        token = jws.parse(_token(given))
        token_id, expires_at = jws.token_id(token), jws.time_of(token.claims, "exp")
    elif given.token is not None or given.stdin or given.token_file is not None:
        raise CommandError("Either a token or --token-id needs to be passed, not both")
    elif given.expires_at is not None:
        expires_at = _time(given.expires_at)

    async def work(store: MetadataStore) -> None:
        await revoke_token(store, token_id, expires_at=expires_at, clock=clock)

    asyncio.run(_on_store(given.metadata_url, work))
    until = "for good" if expires_at is None else f"until it ends at {_shown(expires_at)}"
    print(f"revoked {token_id} {until}")


def _revoked(given: argparse.Namespace, clock: Clock, entropy: Entropy) -> None:
    async def work(store: MetadataStore) -> None:
        for record in await revoked_tokens(store):
            ends = "-" if record.expires_at is None else _shown(record.expires_at)
            print(f"{record.token_id} revoked={_shown(record.revoked_at)} ends={ends}")

    asyncio.run(_on_store(given.metadata_url, work))


async def _on_store(url: str, work: Callable[[MetadataStore], Awaitable[None]]) -> None:
    """Do work on the stores of the settings, ``url`` instead of their metadata_url. Raises MagnetarError."""
    given = {"metadata_url": url} if url else {}
    settings = STORE_PROGRAM.load(os.environ, Path.cwd(), given).metadata
    store = await connect_stores(settings.stores, access=settings.access)
    try:
        await work(store)
    finally:
        await store.close()


def _time(text: str) -> float:
    """Return an ISO time, of UTC where it names no zone, in seconds since the Unix epoch. Raises CommandError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"--expires-at must be such as 2027-01-31T12:00:00Z, not {text!r}"
        ) from None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _token(given: argparse.Namespace) -> str:
    """Return the token that is given in one of three ways. Raises CommandError, OSError."""
    if given.token is not None and not given.token.startswith("file:"):
        return str(given.token).strip().removeprefix("token:")
    if given.stdin:
        return sys.stdin.read(TOKEN_BYTES_MAX).strip()
    path: Path | None = given.token_file
    if path is None and given.token is not None:
        path = Path(given.token.removeprefix("file:").removeprefix("//"))
    if path is None:
        raise CommandError("Token needs to be passed as an argument, by --stdin or by --token-file")
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read(TOKEN_BYTES_MAX).strip()


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"--headers must be KEY=VALUE, not {text!r}")
    return name, value


def _seconds(text: str) -> int:
    """Return a time such as ``30m`` or ``10y`` in seconds. Raises CommandError."""
    match = re.fullmatch(r"(\d{1,9})([smhdwy])", text.strip().lower())
    if match is None or not int(match[1]):
        raise CommandError(f"--expiry-time must be such as 30s, 10m, 1h, 3d, 2w, 1y, not {text!r}")
    return int(match[1]) * _UNITS_S[match[2]]
